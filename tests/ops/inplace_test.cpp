// In-place writes as autograd sees them.
#include <weft/ops/index.hpp>

#include "values.hpp"

namespace weft::testing {
namespace {

TEST(InPlace, SecondDerivativesGoThroughTheOldValue) {
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * 2;
        y.mul_(in[1]);
        return y;
      },
      {leaf({3}), leaf({3}, 5)});
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        square_(y);
        div_(y, in[1]);
        return exp_(y * 0.1) * y;
      },
      {leaf({2, 3}), leaf({3}, 5, 1, 2)});
}

TEST(InPlace, SecondDerivativesThroughViews) {
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        square_(y.select(0, 1));
        mul_(y.t().select(0, 0), in[1]);
        return y;
      },
      {leaf({2, 3}), leaf({2}, 5)});
}

TEST(InPlace, ATensorTimesItself) {
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * 3;
        y.mul_(y);
        return y * y;
      },
      {leaf({3})});
}

TEST(InPlace, OverwritingEndsTheGradient) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3;
  y.fill_(nan);
  y.copy_(ones({2}));
  EXPECT_EQ(values(y), (Doubles{1, 1}));
  const Tensor z = x * 3;
  z.select(0, 0).zero_();
  z.backward(doubles({1, 10}));
  expect_values(x.grad(), {0, 30});
}

}  // namespace
}  // namespace weft::testing
