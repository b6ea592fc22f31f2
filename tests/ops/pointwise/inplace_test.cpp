// In-place writes as autograd sees them.
#include <weft/ops/index.hpp>

#include "ops/values.hpp"

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

TEST(InPlace, AnOperandOfAnotherDeviceIsRefusedAndTheTargetUnchanged) {
  const Device meta("meta");
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{2}}) {
    const Tensor total = full(shape, 3.0, f64), loss = ones({}, {f64, meta});
    const auto writes = {+[](const Tensor& t, const Tensor& v) { t += v; },
                         +[](const Tensor& t, const Tensor& v) { maximum_(t, v); },
                         +[](const Tensor& t, const Tensor& v) { t.add_(v, 2.0); },
                         +[](const Tensor& t, const Tensor& v) { masked_fill_(t, tensor(true), v); },
                         +[](const Tensor& t, const Tensor& v) { masked_fill_(t, v.to(boolean), 1.0); },
                         +[](const Tensor& t, const Tensor& v) { t.copy_(v); }};
    for (const auto& write : writes) {
      EXPECT_THROW(write(total, loss), DeviceError);
      EXPECT_EQ(values(total), Doubles(static_cast<size_t>(total.numel()), 3.0));
      EXPECT_EQ(total.version(), 0u);
    }
    EXPECT_NO_THROW(ones(shape, {f64, meta}) += tensor(1.0, f64));
  }
  try {
    tensor(0.f) += ones({}, meta);
    FAIL() << "nothing was raised";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("[add_] an in-place result stays on its device"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("to(\"cpu\")"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::testing
