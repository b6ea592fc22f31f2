#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include <weft/data/loader.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using data::DataLoader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0 … count - 1, each epoch from 100 · epoch on.
auto numbers(int64_t count) {
  return data::stream([=](int64_t epoch) {
    return [=, next = int64_t{0}]() mutable -> std::optional<int64_t> {
      if (next == count) return {};
      return 100 * epoch + next++;
    };
  });
}
template <class L>
std::vector<std::vector<int64_t>> epoch_of(L& loader) {
  std::vector<std::vector<int64_t>> batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<int64_t>());
  return batches;
}

class StreamWithWorkers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Stream, StreamWithWorkers, ::testing::Values(0, 1, 2, 7));

TEST_P(StreamWithWorkers, SamplesComeOnceAndInOrder) {
  DataLoader loader(numbers(7), {.batch_size = 3, .workers = GetParam()});
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6)));
  EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(100, 101, 102), ElementsAre(103, 104, 105), ElementsAre(106)));
  DataLoader dropped(numbers(7), {.batch_size = 3, .workers = GetParam(), .drop_last = true});
  EXPECT_EQ(epoch_of(dropped).size(), 2U);
  DataLoader exact(numbers(6), {.batch_size = 3, .workers = GetParam()});
  EXPECT_EQ(epoch_of(exact).size(), 2U);
  DataLoader empty(numbers(0), {.batch_size = 3, .workers = GetParam()});
  EXPECT_TRUE(epoch_of(empty).empty());
  EXPECT_THROW(loader.size(), ValueError);
}

TEST_P(StreamWithWorkers, MapsDrawTheSameRandomNumbers) {
  const auto noisy = data::map(numbers(40), [](int64_t i) { return rand({2}) + static_cast<double>(i); });
  DataLoader alone(noisy, {.batch_size = 6, .seed = 1});
  DataLoader loader(noisy, {.batch_size = 6, .seed = 1, .workers = GetParam()});
  auto right = alone.begin();
  for (const Tensor& batch : loader) {
    EXPECT_EQ(batch.to_vector<float>(), (*right).to_vector<float>());
    ++right;
  }
}

TEST_P(StreamWithWorkers, RanksTakeTurns) {
  DataLoader first(numbers(7), {.batch_size = 2, .workers = GetParam(), .rank = 0, .world = 2});
  DataLoader second(numbers(7), {.batch_size = 2, .workers = GetParam(), .rank = 1, .world = 2});
  EXPECT_THAT(epoch_of(first), ElementsAre(ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_THAT(epoch_of(second), ElementsAre(ElementsAre(1, 3), ElementsAre(5)));
}

TEST_P(StreamWithWorkers, ResumesFromAPosition) {
  DataLoader loader(numbers(20), {.batch_size = 3, .seed = 1, .workers = GetParam()});
  DataLoader other(numbers(20), {.batch_size = 3, .seed = 1, .workers = 2});
  auto at = loader.begin();
  ++at;
  other.restore(loader.state());
  EXPECT_EQ(epoch_of(other)[0], (std::vector<int64_t>{6, 7, 8}));
  EXPECT_EQ(epoch_of(other)[0], (std::vector<int64_t>{100, 101, 102}));
}

TEST_P(StreamWithWorkers, ErrorsOfTheReaderAndOfTheFunction) {
  const auto broken = data::stream([](int64_t) {
    return [next = int64_t{0}]() mutable -> std::optional<int64_t> {
      if (next == 5) raise<IoError>({.op = "read", .problem = "the disk is gone"}, Location::none());
      return next++;
    };
  });
  DataLoader loader(broken, {.batch_size = 2, .workers = GetParam()});
  for (int i = 0; i < 2; ++i) {
    int64_t batches = 0;
    const std::string text = message_of<IoError>([&] {
      for (const Tensor& batch : loader) batches += batch.size(0) / 2;
    });
    EXPECT_THAT(text, AllOf(HasSubstr("reading batch 2"), HasSubstr("the disk is gone")));
    EXPECT_EQ(batches, 2);
  }
  const auto mapped = data::map(numbers(9), [](int64_t i) -> int64_t {
    if (i % 100 == 4) raise<ValueError>({.op = "tokenize", .problem = "bad bytes"}, Location::none());
    return i;
  });
  DataLoader second(mapped, {.batch_size = 3, .workers = GetParam()});
  EXPECT_THAT(message_of<ValueError>([&] { epoch_of(second); }), HasSubstr("sample 4 of batch 1 of epoch 0"));
}

TEST(Stream, OptionsOfAnOrderAreRefused) {
  EXPECT_THROW(DataLoader(numbers(3), {.shuffle = true}), ValueError);
  EXPECT_THROW(DataLoader(numbers(3), {.sampler = data::sequential_sampler(3)}), ValueError);
}

}  // namespace
}  // namespace weft
