// Flipping, rolling, windows.
#include <weft/ops/rearrange.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f64).view(shape); }

TEST(Flip, ReversesDimensions) {
  const Tensor x = counted({2, 3});
  expect_values(flip(x, 0), {3, 4, 5, 0, 1, 2});
  expect_values(flip(x, -1), {2, 1, 0, 5, 4, 3});
  expect_values(flip(x, {0, 1}), {5, 4, 3, 2, 1, 0});
  expect_values(flip(x.t(), 0), {2, 5, 1, 4, 0, 3});
  expect_values(flip(x, Dims()), values(x));
  expect_values(fliplr(x), values(flip(x, 1)));
  expect_values(flipud(x), values(flip(x, 0)));
  expect_values(flip(doubles({4}, {}), 0), {4});
  EXPECT_EQ(flip(zeros({0, 2}), {0, 1}).shape(), Dims({0, 2}));
  for (const DType t : {boolean, i8, u16, f16, bf16}) expect_values(flip(tensor({0, 1, 1}).to(t), 0), {1, 1, 0});
}

TEST(Flip, IsACopy) {
  const Tensor x = counted({3});
  EXPECT_FALSE(flip(x, 0).shares_storage(x));
  EXPECT_FALSE(flip(x, Dims()).shares_storage(x));
  EXPECT_TRUE(flip(counted({2, 3}).t(), 0).is_contiguous());
}

TEST(Flip, Errors) {
  EXPECT_THROW(flip(counted({2, 3}), {0, -2}), ValueError);
  EXPECT_THROW(flip(counted({2, 3}), 2), IndexError);
  EXPECT_THROW(fliplr(counted({2})), ShapeError);
  EXPECT_THROW(flipud(tensor(1.)), ShapeError);
  EXPECT_THROW(flip(Tensor(), 0), ValueError);
}

TEST(Roll, MovesOnAndAround) {
  const Tensor x = counted({2, 3});
  expect_values(roll(x, 1, 1), {2, 0, 1, 5, 3, 4});
  expect_values(roll(x, -1, 1), {1, 2, 0, 4, 5, 3});
  expect_values(roll(x, 4, -1), values(roll(x, 1, 1)));
  expect_values(roll(x, {1, -5}, {0, 1}), {5, 3, 4, 2, 0, 1});
  expect_values(roll(x, {1, 1}, {1, 1}), values(roll(x, 2, 1)));
  expect_values(roll(x, 2), {4, 5, 0, 1, 2, 3});
  expect_values(roll(x.t(), 1), {5, 0, 3, 1, 4, 2});
  expect_values(roll(x, 0, 0), values(x));
  EXPECT_FALSE(roll(x, 0, 0).shares_storage(x));
  expect_values(roll(doubles({4}, {}), 3), {4});
  EXPECT_THROW(roll(doubles({4}, {}), 3, 0), IndexError);  // as in PyTorch
  EXPECT_EQ(roll(zeros({0, 2}), 1, 0).shape(), Dims({0, 2}));
  expect_values(roll(tensor({1, 0, 0}).to(boolean), 1), {0, 1, 0});
}

TEST(Roll, Errors) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW(roll(x, {1, 2}, 0), ValueError);
  EXPECT_THROW(roll(x, {1, 2}), ValueError);
  EXPECT_THROW(roll(x, Dims(), Dims()), ValueError);
  EXPECT_THROW(roll(x, 1, 2), IndexError);
}

TEST(Unfold, IsAViewOfWindows) {
  const Tensor x = counted({7});
  expect_values(unfold(x, 0, 3, 2), {0, 1, 2, 2, 3, 4, 4, 5, 6});
  EXPECT_EQ(unfold(x, 0, 3, 3).shape(), Dims({2, 3}));
  EXPECT_TRUE(unfold(x, 0, 2, 1).shares_storage(x));
  const Tensor m = counted({2, 4});
  EXPECT_EQ(unfold(m, 0, 2, 1).shape(), Dims({1, 4, 2}));
  expect_values(unfold(m, 0, 2, 1), {0, 4, 1, 5, 2, 6, 3, 7});
  expect_values(unfold(m.t(), 0, 3, 1).select(1, 1), {4, 5, 6, 5, 6, 7});
  EXPECT_EQ(unfold(doubles({4}, {}), 0, 1, 1).shape(), Dims(1));
  EXPECT_EQ(unfold(doubles({4}, {}), 0, 0, 1).shape(), Dims(0));
  EXPECT_EQ(unfold(x, 0, 0, 2).shape(), Dims({4, 0}));
  EXPECT_EQ(unfold(zeros({0, 3}), 1, 2, 1).shape(), Dims({0, 2, 2}));
  x.fill_(1);
  expect_values(sum(unfold(x, 0, 7, 1)), {7});
}

TEST(Unfold, OverlappingWindowsAddInTheGradient) {
  const Tensor x = counted({6}).requires_grad_();
  unfold(x, 0, 3, 2).backward(doubles({1, 2, 3, 4, 5, 6}, {2, 3}));
  expect_values(x.grad(), {1, 2, 7, 5, 6, 0});
  for (const int64_t step : {1, 2, 3, 4}) {
    expect_gradients([&](Inputs in) { return square(unfold(in[0], 1, 3, step)); }, {leaf({2, 7, 2})});
    expect_gradients([&](Inputs in) { return square(unfold(in[0].t(), -1, 2, step)); }, {leaf({5, 2})});
  }
}

TEST(Unfold, Errors) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW(unfold(x, 1, 4, 1), ValueError);
  EXPECT_THROW(unfold(x, 1, -1, 1), ValueError);
  EXPECT_THROW(unfold(x, 1, 2, 0), ValueError);
  EXPECT_THROW(unfold(x, 2, 1, 1), IndexError);
  EXPECT_THROW(unfold(tensor(1.), 0, 2, 1), ValueError);
  EXPECT_THROW(unfold(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0, 1, 1), ShapeError);
}

}  // namespace
}  // namespace weft::testing
