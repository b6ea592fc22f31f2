// Sizes, strides and counts at the ends of 64 bits: too much is an error, and never a small number.
#include <cstdint>

#include <gtest/gtest.h>

#include <weft/tensor/checked.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t most = INT64_MAX, least = INT64_MIN;
constexpr int64_t power(int n) { return int64_t{1} << n; }

TEST(Checked, RemembersThatItOverflowed) {
  EXPECT_EQ((Checked(3) * 5 - 1).value(), 14);
  EXPECT_TRUE((Checked(most) - 1 + 1).fits());
  EXPECT_FALSE((Checked(most) + 1).fits());
  EXPECT_FALSE((Checked(most) + 1 - 1).fits());
  EXPECT_FALSE((Checked(0) - least).fits());
  EXPECT_FALSE((Checked(power(32)) * power(31)).fits());
  EXPECT_FALSE((Checked(0) * (Checked(power(62)) * 4)).fits());
}

TEST(Sizes, OfSelectionsNeverWrap) {
  const Tensor x = zeros({2, 1}, u8).expand({2, power(60)}), sixteen = zeros({16}, i64), five = zeros({5}, i64);
  EXPECT_THROW(x[{sixteen}].sum(), ShapeError);
  EXPECT_THROW(x[{five}].clone(), Error);
  const Device meta("meta");
  const Tensor nothing = zeros({2, 1}, {u8, meta}).expand({2, power(60)});
  EXPECT_THROW(nothing[{sixteen.to(meta)}].clone(), ShapeError);
}

TEST(Sizes, OfNewTensorsNeverWrap) {
  for (const Dims& shape : {Dims{power(32), power(32)}, Dims{7, power(62)}, Dims{most}, Dims{power(61), 2}}) {
    SCOPED_TRACE(shape.text());
    EXPECT_THROW(empty(shape), ShapeError);
    EXPECT_THROW(zeros(shape), ShapeError);
    EXPECT_THROW(full(shape, 1.0), ShapeError);
    EXPECT_THROW(empty(shape, Device("meta")), ShapeError);
    EXPECT_THROW(rand(shape), ShapeError);
    float element = 0;
    EXPECT_THROW(from_blob(&element, shape), ShapeError);
  }
  EXPECT_THROW(empty({most}, i16), ShapeError);
  EXPECT_EQ(empty({most}, {u8, Device("meta")}).numel(), most);
  EXPECT_THROW(eye(power(62)), ShapeError);
  EXPECT_THROW(eye(2, -1), ShapeError);
  EXPECT_THROW(linspace(0, 1, most), ShapeError);
  EXPECT_THROW(randperm(most), ShapeError);
}

// An empty tensor has strides too, and its other sizes come back when the empty dimension is reduced.
TEST(Sizes, OfEmptyTensorsNeverWrap) {
  EXPECT_THROW(empty({power(62), 0, power(62)}), ShapeError);
  EXPECT_THROW(zeros({0}).view({0, power(62), power(62)}), ShapeError);
  EXPECT_THROW(zeros({0}).reshape({power(62), -1, power(62)}), ShapeError);
  EXPECT_THROW(zeros({0, 1, 1}).expand({0, power(62), power(62)}), ShapeError);
  EXPECT_EQ(zeros({0}).view({0, power(40)}).sum({1}).shape(), Dims(0));
}

TEST(Sizes, OfViewsNeverWrap) {
  const Tensor one = ones({1, 1});
  EXPECT_THROW(one.expand({power(32), power(32)}), ShapeError);
  EXPECT_THROW(one.expand({7, power(62)}), ShapeError);
  EXPECT_THROW(one.expand({-1, most}), ShapeError);
  EXPECT_EQ(one.expand({power(30), power(30)}).numel(), power(60));
  EXPECT_THROW(arange(6).view({power(32), power(32), -1}), ShapeError);
  EXPECT_THROW(arange(6).reshape({power(62), 4}), ShapeError);
  const Tensor wide = ones({1}, boolean).expand({power(60)});
  EXPECT_THROW(unfold(wide, 0, power(59), 1), ShapeError);
  EXPECT_THROW(wide.split(1), ShapeError);
  EXPECT_THROW(wide.unbind(), ShapeError);
  EXPECT_EQ(wide.slice(0, {}, {}, power(59)).shape(), Dims(2));
}

TEST(Sizes, StridesAndOffsetsNeverWrap) {
  const Tensor x = arange(4);
  EXPECT_THROW(x.as_strided({3}, {power(61)}), ShapeError);
  EXPECT_THROW(x.as_strided({2}, {power(62)}), ShapeError);
  EXPECT_THROW(x.as_strided({2}, {-power(61)}), ShapeError);
  EXPECT_THROW(x.as_strided({2}, {least}), ShapeError);
  EXPECT_THROW(x.as_strided({3, 3}, {power(59), -power(59)}), ShapeError);
  for (const int64_t offset : {most, least, power(61), power(60), int64_t{-1}}) {
    EXPECT_THROW(x.as_strided({2}, {1}, offset), ShapeError) << offset;
  }
  EXPECT_EQ(x.as_strided({2, 2}, {1, 2}).to_vector<int64_t>(), (Ints{0, 2, 1, 3}));
  double elements[4] = {};
  EXPECT_THROW(from_blob(elements, {2}, {power(60)}), ShapeError);
  EXPECT_THROW(from_blob(elements, {3, 3}, {power(59), power(59)}), ShapeError);
  EXPECT_THROW(from_blob(elements, {2}, {1, 1}), ShapeError);
}

TEST(Sizes, RangesAreCountedExactly) {
  EXPECT_EQ(arange(5, most, most - 1).to_vector<int64_t>(), (Ints{5}));
  EXPECT_EQ(arange(least, most, most).to_vector<int64_t>(), (Ints{least, -1, most - 1}));
  EXPECT_EQ(arange(most, least, least).to_vector<int64_t>(), (Ints{most, -1}));
  EXPECT_EQ(arange(power(53), power(53) + 2).numel(), 2);
  EXPECT_EQ(arange(most, most).numel(), 0);
  EXPECT_THROW(arange(most, most - 1), ValueError);
  EXPECT_THROW(arange(most - 1, most, -1), ValueError);
  EXPECT_THROW(arange(0, 5, 0), ValueError);
  EXPECT_THROW(arange(least, most), ShapeError);
  EXPECT_THROW(arange(0.0, 1e30), ShapeError);
  EXPECT_THROW(arange(0.0, 1e300, 1e-300), ValueError);
  const double nan = __builtin_nan("");
  EXPECT_THROW(arange(0.0, nan), ValueError);
  EXPECT_THROW(arange(nan, 1.0), ValueError);
}

TEST(Sizes, PartsAtTheEndsOfTheNumbers) {
  const Tensor x = arange(4), square = ones({3, 3});
  EXPECT_EQ(square.diagonal(least).numel(), 0);
  EXPECT_EQ(square.diagonal(most).numel(), 0);
  EXPECT_EQ(square.diagonal(-2).numel(), 1);
  EXPECT_EQ(x.chunk(most).size(), 4u);
  EXPECT_EQ(x.split(most).size(), 1u);
  EXPECT_EQ(x.slice(0, least, most, most).to_vector<int64_t>(), (Ints{0}));
  EXPECT_EQ(x.slice(0, most, least, least).to_vector<int64_t>(), (Ints{3}));
  EXPECT_THROW(x.narrow(0, 1, most), IndexError);
  EXPECT_THROW(x.narrow(0, least, 1), IndexError);
  EXPECT_THROW(x.narrow(0, full({}, uint64_t{18446744073709551615u}, u64), 1), IndexError);
  EXPECT_THROW(x.narrow(0, tensor(1.0), 1), DTypeError);
  EXPECT_EQ(x.narrow(0, tensor(-2), 2).to_vector<int64_t>(), (Ints{2, 3}));
  EXPECT_EQ((Dims{most, 2}).product(), most);
  EXPECT_EQ((Dims{most, most, 0}).product(), 0);
  EXPECT_THROW(x.select(0, least), IndexError);
  EXPECT_EQ(unfold(x, 0, 2, most).to_vector<int64_t>(), (Ints{0, 1}));
  EXPECT_EQ(roll(x, most, 0).to_vector<int64_t>(), roll(x, 3, 0).to_vector<int64_t>());
  EXPECT_EQ(roll(x, least, 0).to_vector<int64_t>(), x.to_vector<int64_t>());
}

TEST(Sizes, TheGradientOfAnExtremeShiftRollsBack) {
  for (const int64_t shift : {most, least, most - 1}) {
    const Tensor x = ones({4}).requires_grad_();
    (roll(x, shift, 0) * arange(4)).sum().backward();
    EXPECT_EQ(roll(x.grad(), shift, 0).to_vector<int64_t>(), (Ints{0, 1, 2, 3})) << shift;
  }
}

}  // namespace
}  // namespace weft
