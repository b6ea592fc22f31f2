// Distinct values, counts, places in sorted lists.
#include <weft/ops/search.hpp>

#include <algorithm>
#include <map>

#include <weft/ops/index.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr UniqueOptions both = {.return_inverse = true, .return_counts = true};
UniqueOptions both_along(int64_t dim) { return {.return_inverse = true, .return_counts = true, .dim = dim}; }

TEST(Unique, SortsAndReturnsPositionsAndCounts) {
  const Tensor x = doubles({3, 1, 3, 2, 1, 3}, {2, 3});
  const Unique u = unique(x, both);
  expect_values(u.values, {1, 2, 3});
  EXPECT_EQ(u.inverse.shape(), Dims({2, 3}));
  EXPECT_EQ(u.inverse.dtype(), i64);
  expect_values(u.inverse, {2, 0, 2, 1, 0, 2});
  expect_values(u.counts, {2, 1, 3});
  expect_values(unique(x.t()).values, {1, 2, 3});
  EXPECT_FALSE(unique(x).inverse.defined());
  EXPECT_FALSE(unique(x, {.return_inverse = true}).counts.defined());
}

TEST(Unique, AgreesWithAMap) {
  const Tensor x = (spread({40, 50}, 3, 0, 60)).to(i64);
  std::map<int64_t, int64_t> counts;
  for (const int64_t value : x.to_vector<int64_t>()) ++counts[value];
  const Unique u = unique(x, both);
  Doubles keys, sizes;
  for (const auto& [key, count] : counts) keys.push_back(double(key)), sizes.push_back(double(count));
  expect_values(u.values, keys);
  expect_values(u.counts, sizes);
  expect_values(take(u.values, u.inverse), values(x));
}

TEST(Unique, SpecialValues) {
  const Unique u = unique(doubles({nan, 1, nan, -infinity, infinity, 0, -0.0}), both);
  expect_values(u.values, {-infinity, 0, 1, infinity, nan, nan});
  expect_values(u.counts, {1, 2, 1, 1, 1, 1});
  expect_values(unique(tensor(3.)).values, {3});
  EXPECT_EQ(unique(tensor(3.), {.return_inverse = true}).inverse.shape(), Dims());
  const Unique none = unique(zeros({0, 2}), both);
  EXPECT_EQ(none.values.shape(), Dims(0));
  EXPECT_EQ(none.inverse.shape(), Dims({0, 2}));
  EXPECT_EQ(none.counts.shape(), Dims(0));
  for (const DType t : {boolean, u8, i8, i16, i32, f16, bf16}) {
    const Tensor values_of = unique(tensor({1, 0, 1}).to(t)).values;
    EXPECT_EQ(values_of.dtype(), t);
    expect_values(values_of, {0, 1});
  }
  EXPECT_FALSE(unique(leaf({3})).values.requires_grad());
  EXPECT_THROW(unique(empty({3}, Device("meta"))), NotImplementedError);
}

TEST(Unique, AlongADimension) {
  const Tensor x = tensor({{2, 1}, {1, 9}, {2, 0}, {1, 9}});
  const Unique rows = unique(x, both_along(0));
  EXPECT_EQ(rows.values.shape(), Dims({3, 2}));
  expect_values(rows.values, {1, 9, 2, 0, 2, 1});
  expect_values(rows.inverse, {2, 0, 1, 0});
  expect_values(rows.counts, {2, 1, 1});
  const Unique columns = unique(x.t(), both_along(-1));
  expect_values(columns.values, values(rows.values.t()));
  expect_values(columns.inverse, values(rows.inverse));
  EXPECT_EQ(unique(zeros({0, 3}), {.dim = 0}).values.shape(), Dims({0, 3}));
  EXPECT_EQ(unique(zeros({3, 0}), {.return_counts = true, .dim = 0}).values.shape(), Dims({1, 0}));
  EXPECT_EQ(unique(zeros({2, 3, 4}), {.dim = 1}).values.shape(), Dims({2, 1, 4}));
  EXPECT_THROW(unique(x, {.dim = 2}), IndexError);
}

TEST(UniqueConsecutive, KeepsTheFirstOfEqualNeighbours) {
  const Unique u = unique_consecutive(tensor({1, 1, 2, 2, 2, 1}), both);
  expect_values(u.values, {1, 2, 1});
  expect_values(u.inverse, {0, 0, 1, 1, 1, 2});
  expect_values(u.counts, {2, 3, 1});
  const Unique rows = unique_consecutive(tensor({{1, 2}, {1, 2}, {1, 3}, {1, 2}}), both_along(0));
  expect_values(rows.values, {1, 2, 1, 3, 1, 2});
  expect_values(rows.inverse, {0, 0, 1, 2});
  EXPECT_EQ(unique_consecutive(zeros({0}), both).counts.shape(), Dims(0));
}

TEST(Bincount, CountsAndSumsWeights) {
  const Tensor x = tensor({1, 3, 1, 0});
  expect_values(bincount(x), {1, 2, 0, 1});
  EXPECT_EQ(bincount(x.to(u8)).dtype(), i64);
  expect_values(bincount(x, {}, 6), {1, 2, 0, 1, 0, 0});
  expect_values(bincount(x, {}, 2), {1, 2, 0, 1});
  expect_values(bincount(x, doubles({.5, 1, 2, 4})), {4, 2.5, 0, 1});
  EXPECT_EQ(bincount(x, ones({4})).dtype(), f32);
  EXPECT_EQ(bincount(x, ones({4}, i32)).dtype(), f64);
  EXPECT_EQ(bincount(x, ones({4}, f16)).dtype(), f64);
  EXPECT_EQ(bincount(zeros({0}, i64)).shape(), Dims(0));
  expect_values(bincount(zeros({0}, i64), {}, 2), {0, 0});
  const Tensor weights = leaf({4});
  bincount(x, weights).backward(doubles({1, 10, 100, 1000}));
  expect_values(weights.grad(), {10, 1000, 10, 1});
}

TEST(Bincount, CountsLongListsOfAnyStrideAsAddingOnesDoes) {
  for (const int64_t size : {1, 7, 1000, 20000}) {
    const Tensor list = randint(0, size, {300001});
    for (const Tensor& x : {list, list.to(i32), Tensor(list[Slice(none, none, -3)])}) {
      const Tensor counts = bincount(x, {}, size);
      EXPECT_TRUE(all(counts == index_add(zeros({size}, i64), 0, x, ones(x.shape(), i64))).item<bool>()) << size;
      EXPECT_EQ(counts.sum().item<int64_t>(), x.numel());
    }
  }
}

TEST(Bincount, Errors) {
  EXPECT_THROW(bincount(tensor({0, -1})), ValueError);
  EXPECT_THROW(bincount(tensor({0}), {}, -1), ValueError);
  EXPECT_THROW(bincount(tensor({{0}})), ShapeError);
  EXPECT_THROW(bincount(tensor({0, 1}), ones({3})), ShapeError);
  EXPECT_THROW(bincount(tensor({0.})), DTypeError);
  EXPECT_THROW(bincount(Tensor()), ValueError);
}

// The table's size is the largest number and 1 more, which 64 bits may not hold.
TEST(Bincount, NumbersWithoutRoomForATableAreErrors) {
  constexpr int64_t most = INT64_MAX;
  for (const int64_t large : {most, most - 1, most / 8}) {
    EXPECT_THROW(bincount(tensor({large, int64_t{100000000}})), Error) << large;
    EXPECT_THROW(bincount(tensor({large, int64_t{3}}), ones({2})), Error) << large;
    EXPECT_THROW(one_hot(tensor({large, int64_t{3}})), Error) << large;
    EXPECT_THROW(one_hot(tensor({large, int64_t{3}}), 4), IndexError) << large;
    EXPECT_THROW(one_hot(tensor({0}), large), Error) << large;
    EXPECT_THROW(bincount(tensor({0}), {}, large), Error) << large;
  }
  EXPECT_THROW(bincount(tensor({most})), ValueError);
  EXPECT_THROW(one_hot(tensor({most})), ValueError);
}

TEST(OneHot, InfersTheNumberOfClasses) {
  expect_values(one_hot(tensor({2, 0})), {0, 0, 1, 1, 0, 0});
  EXPECT_EQ(one_hot(tensor(1)).shape(), Dims(2));
  EXPECT_THROW(one_hot(zeros({0}, i64)), ValueError);
  EXPECT_THROW(one_hot(tensor({0}), -2), ValueError);
  EXPECT_THROW(one_hot(tensor({0, -1}), 3), ValueError);
  EXPECT_THROW(one_hot(tensor({0, -1})), ValueError);
  EXPECT_THROW(one_hot(tensor({0, 3}), 3), IndexError);
  EXPECT_EQ(one_hot(zeros({2, 0}, i64), 0).shape(), Dims({2, 0, 0}));
}

Doubles places(const Doubles& sorted, const Doubles& wanted, bool right) {
  Doubles out;
  for (const double v : wanted) {
    const auto at =
        right ? std::upper_bound(sorted.begin(), sorted.end(), v) : std::lower_bound(sorted.begin(), sorted.end(), v);
    out.push_back(double(at - sorted.begin()));
  }
  return out;
}

TEST(Searchsorted, FindsPlaces) {
  const Doubles sorted = {-3, -1, -1, 0.5, 2, 2, 2, 7}, wanted = {-5, -3, -1, 0, 2, 2.5, 7, 9};
  for (const bool right : {false, true}) {
    const Tensor out = searchsorted(doubles(sorted), doubles(wanted, {2, 4}), {.right = right});
    EXPECT_EQ(out.dtype(), i64);
    EXPECT_EQ(out.shape(), Dims({2, 4}));
    expect_values(out, places(sorted, wanted, right));
    expect_values(bucketize(doubles(wanted), doubles(sorted), right), places(sorted, wanted, right));
  }
  expect_values(searchsorted(doubles(sorted), 2), {4});
  EXPECT_EQ(searchsorted(doubles(sorted), 2).shape(), Dims());
  expect_values(searchsorted(tensor({1, 2, 3}), 2.5), {2});
  expect_values(searchsorted(doubles({1, infinity}), doubles({nan, infinity}), {.right = true}), {2, 2});
  expect_values(searchsorted(doubles({1, infinity, nan}), doubles({nan})), {2});
}

TEST(Searchsorted, LineByLine) {
  const Tensor sorted = doubles({1, 3, 5, 2, 4, 6}, {2, 3}), wanted = doubles({3, 5, 3, 5}, {2, 2});
  expect_values(searchsorted(sorted, wanted), {1, 2, 1, 2});
  expect_values(searchsorted(sorted, wanted, {.right = true}), {2, 3, 1, 2});
  expect_values(searchsorted(doubles({1, 2, 3, 4, 5, 6}, {3, 2}).t(), wanted), {1, 2, 1, 2});
  EXPECT_EQ(searchsorted(zeros({2, 0}), ones({2, 3})).shape(), Dims({2, 3}));
  expect_values(searchsorted(zeros({0}), ones({2})), {0, 0});
  EXPECT_EQ(searchsorted(ones({3}), zeros({2, 0})).shape(), Dims({2, 0}));
  for (const DType t : {u8, i8, i16, i32, i64, f16, bf16, f32}) {
    expect_values(searchsorted(tensor({1, 3, 5}).to(t), tensor({0, 3, 4, 6}).to(t)), {0, 1, 2, 3});
  }
}

TEST(SearchSorted, TakesTheOrderOfAListThatIsNotSorted) {
  const Tensor list = doubles({5, 1, 3}), order = tensor({1, 2, 0});
  expect_values(searchsorted(list, doubles({0, 3, 6}), {.sorter = order}), {0, 1, 3});
  expect_values(searchsorted(list, 3, {.right = true, .out_int32 = true, .sorter = order}), {2});
  EXPECT_EQ(searchsorted(list, 3, {.out_int32 = true, .sorter = order}).dtype(), i32);
  EXPECT_EQ(bucketize(doubles({0, 4}), doubles({1, 2}), false, true).dtype(), i32);
  const auto call = [&](const char* side, bool right) {
    return find_record("searchsorted")->call(Values{doubles({1, 2}), doubles({1}), right, side});
  };
  expect_values(std::get<Tensor>(call("right", false)), {1});
  EXPECT_THROW(call("left", true), ValueError);
  EXPECT_THROW(call("middle", false), ValueError);
}

TEST(Searchsorted, Errors) {
  EXPECT_THROW(searchsorted(ones({3}), ones({3}), {.sorter = zeros({2}, i64)}), ShapeError);
  EXPECT_THROW(searchsorted(ones({3}), ones({3}), {.sorter = zeros({3})}), DTypeError);
  EXPECT_THROW(searchsorted(ones({3}), ones({3}), {.sorter = tensor({0, 1, 3})}), IndexError);
  EXPECT_THROW(searchsorted(ones({2, 3}), ones({3, 2})), ShapeError);
  EXPECT_THROW(searchsorted(ones({2, 3}), ones({2})), ShapeError);
  EXPECT_THROW(searchsorted(tensor(1.), ones({2})), ShapeError);
  EXPECT_THROW(searchsorted(ones({3}), ones({3}, c64)), DTypeError);
  EXPECT_THROW(bucketize(ones({2, 2}), ones({2, 2})), ShapeError);
}

}  // namespace
}  // namespace weft::testing
