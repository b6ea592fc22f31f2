#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include <weft/data/dataset.hpp>
#include <weft/data/loader.hpp>
#include <weft/data/token_windows.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Numbers {
  int64_t count, first = 0;
  int64_t size() const { return count; }
  int64_t get(int64_t i) const { return first + i; }
};

template <class D>
std::vector<int64_t> all(const D& dataset) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < dataset.size(); ++i) out.push_back(dataset.get(i));
  return out;
}

TEST(TensorDataset, SamplesAreRowsAndBatchesCopiesOfThem) {
  const Tensor x = arange(12).view({4, 3}), y = arange(4) * 10;
  const data::TensorDataset dataset(x, y);
  EXPECT_EQ(dataset.size(), 4);
  const auto [row, label] = dataset.get(2);
  EXPECT_TRUE(row.shares_storage(x));
  EXPECT_THAT(row.to_vector<int64_t>(), ElementsAre(6, 7, 8));
  EXPECT_EQ(label.item<int64_t>(), 20);
  const std::vector<int64_t> indices = {3, 0, 3};
  const auto [rows, labels] = dataset.get_batch(indices);
  EXPECT_THAT(rows.to_vector<int64_t>(), ElementsAre(9, 10, 11, 0, 1, 2, 9, 10, 11));
  EXPECT_THAT(labels.to_vector<int64_t>(), ElementsAre(30, 0, 30));
  EXPECT_FALSE(rows.shares_storage(x));
}

TEST(TensorDataset, TakesPartsOfTensors) {
  const Tensor x = arange(12).reshape({6, 2}), y = arange(6);
  const data::TensorDataset parts(x[Slice(2, 5)], y[Slice(2, 5)]);
  EXPECT_EQ(parts.size(), 3);
  EXPECT_EQ(parts.get(1)[0].to_vector<int64_t>(), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(parts.get(1)[1].item<int64_t>(), 3);
  data::DataLoader one(data::TensorDataset{x}, {.batch_size = 2});
  for (const auto& [rows] : one) EXPECT_EQ(rows.size(0), 2);
}

TEST(TensorDataset, GathersFromTensorsOfAnyStrides) {
  const Tensor x = arange(12).view({3, 4}).t(), expanded = arange(1).expand({4});
  const data::TensorDataset dataset(x, expanded);
  const std::vector<int64_t> indices = {3, 1};
  const auto [rows, same] = dataset.get_batch(indices);
  EXPECT_THAT(rows.to_vector<int64_t>(), ElementsAre(3, 7, 11, 1, 5, 9));
  EXPECT_THAT(same.to_vector<int64_t>(), ElementsAre(0, 0));
}

TEST(TensorDataset, RowsWithoutElementsAndEveryDType) {
  const data::TensorDataset empty_rows(zeros({5, 0}), zeros({5, 2}, f16), full({5}, true));
  const std::vector<int64_t> indices = {4, 4, 0};
  const auto [none, halves, flags] = empty_rows.get_batch(indices);
  EXPECT_EQ(none.shape(), Dims({3, 0}));
  EXPECT_EQ(halves.dtype(), f16);
  EXPECT_EQ(flags.dtype(), boolean);
  EXPECT_THAT(flags.to_vector<int64_t>(), ElementsAre(1, 1, 1));
}

TEST(TensorDataset, UnequalLengthsAndMissingRowsAreRefused) {
  EXPECT_THAT(message_of<ShapeError>([] {
                data::TensorDataset(zeros({4, 2}), zeros(3));
              }),
              AllOf(HasSubstr("4 and 3 rows"), HasSubstr("dataset_test.cpp")));
  EXPECT_THROW(data::TensorDataset(zeros(Dims{})), ShapeError);
  const Tensor undefined;
  EXPECT_THROW(data::TensorDataset{undefined}, ValueError);
  const data::TensorDataset dataset(zeros({4, 2}));
  EXPECT_THROW(dataset.get(4), IndexError);
  EXPECT_THROW(dataset.get(-1), IndexError);
  const std::vector<int64_t> beyond = {0, 4};
  EXPECT_THROW(dataset.get_batch(beyond), IndexError);
}

TEST(Views, MapFilterSubsetAndConcat) {
  EXPECT_THAT(all(data::map(Numbers{4}, [](int64_t i) { return i * i; })), ElementsAre(0, 1, 4, 9));
  EXPECT_THAT(all(data::filter(Numbers{9}, [](int64_t i) { return i % 3 == 0; })), ElementsAre(0, 3, 6));
  EXPECT_THAT(all(data::subset(Numbers{9}, {8, 0, 8})), ElementsAre(8, 0, 8));
  EXPECT_THAT(all(data::concat(Numbers{2}, Numbers{1, 50}, Numbers{2, 70})), ElementsAre(0, 1, 50, 70, 71));
  EXPECT_THROW(data::subset(Numbers{9}, {9}), IndexError);
  EXPECT_THROW(data::subset(Numbers{9}, {0}).get(1), IndexError);
  EXPECT_THROW(data::concat(Numbers{2}, Numbers{1}).get(3), IndexError);
}

TEST(Views, ASubsetOfTensorsGathersBatches) {
  const auto part = data::subset(data::TensorDataset(arange(5) * 2), {4, 1, 3});
  static_assert(data::BatchedDataset<decltype(part)>);
  const std::vector<int64_t> indices = {2, 0};
  const auto [x] = part.get_batch(indices);
  EXPECT_THAT(x.to_vector<int64_t>(), ElementsAre(6, 8));
  const std::vector<int64_t> beyond = {3};
  EXPECT_THROW(part.get_batch(beyond), IndexError);
}

TEST(RandomSplit, PartsHaveAllSamplesOnce) {
  const auto [a, b, c] = data::random_split(Numbers{11}, {0.5, 0.25, 0.25}, 3);
  EXPECT_EQ(a.size(), 6);  // 5 and one that is left
  EXPECT_EQ(b.size(), 3);  // 2 and another
  EXPECT_EQ(c.size(), 2);
  std::multiset<int64_t> seen;
  for (const auto* part : {&a, &b, &c}) {
    for (const int64_t i : all(*part)) seen.insert(i);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(RandomSplit, DependsOnTheSeedAlone) {
  const auto first = data::random_split(Numbers{100}, {90, 10}, 1);
  const auto again = data::random_split(Numbers{100}, {90, 10}, 1);
  const auto other = data::random_split(Numbers{100}, {90, 10}, 2);
  EXPECT_EQ(all(first[1]), all(again[1]));
  EXPECT_NE(all(first[1]), all(other[1]));
}

TEST(RandomSplit, PartsThatDoNotFitAreRefused) {
  EXPECT_THROW(data::random_split(Numbers{10}, {0.5, 0.4}), ValueError);
  EXPECT_THROW(data::random_split(Numbers{10}, {1.5, -0.5}), ValueError);
  EXPECT_THROW(data::random_split(Numbers{10}, {5, 6}), ValueError);
  EXPECT_THROW(data::random_split(Numbers{10}, {5, 4}), ValueError);
  EXPECT_THROW(data::random_split(Numbers{10}, {11, -1}), ValueError);
}

TEST(TokenWindows, TargetsAreOneFurther) {
  const data::TokenWindows windows(arange(10), 3);
  EXPECT_EQ(windows.size(), 3);  // the window from 9 on has no token behind it
  const data::TokenSample sample = windows.get(1);
  EXPECT_THAT(sample.inputs.to_vector<int64_t>(), ElementsAre(3, 4, 5));
  EXPECT_THAT(sample.targets.to_vector<int64_t>(), ElementsAre(4, 5, 6));
  const std::vector<int64_t> indices = {2, 0};
  const data::TokenSample batch = windows.get_batch(indices);
  EXPECT_THAT(batch.inputs.to_vector<int64_t>(), ElementsAre(6, 7, 8, 0, 1, 2));
  EXPECT_THAT(batch.targets.to_vector<int64_t>(), ElementsAre(7, 8, 9, 1, 2, 3));
}

TEST(TokenWindows, StridesAndSmallIntegers) {
  const data::TokenWindows windows(arange(10).to(u16), 3, 1);
  EXPECT_EQ(windows.size(), 7);
  EXPECT_EQ(windows.get(6).targets.dtype(), i64);
  const std::vector<int64_t> last = {6};
  EXPECT_THAT(windows.get_batch(last).targets.to_vector<int64_t>(), ElementsAre(7, 8, 9));
  EXPECT_EQ(data::TokenWindows(arange(4), 3).size(), 1);
  EXPECT_THROW(data::TokenWindows(arange(3), 3), ValueError);
  EXPECT_THROW(data::TokenWindows(arange(9), 0), ValueError);
  EXPECT_THROW(data::TokenWindows(zeros({9}), 2), DTypeError);
  EXPECT_THROW(data::TokenWindows(arange(9).view({3, 3}), 2), ShapeError);
  EXPECT_THROW(windows.get(7), IndexError);
}

}  // namespace
}  // namespace weft
