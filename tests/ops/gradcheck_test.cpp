#include <gtest/gtest.h>

#include <weft/ops/gradcheck.hpp>
#include <weft/autograd/node.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>

namespace weft {
namespace {

using Inputs = std::span<const Tensor>;

Tensor leaf(std::initializer_list<double> values) {
  return tensor(std::span<const double>(values.begin(), values.size()), Dims(static_cast<int64_t>(values.size())), f64)
      .requires_grad_();
}

// x² with a gradient that is wrong by a factor.
Tensor wrong_square(const Tensor& x, double factor) {
  const CallScope call("wrong_square", Location::none());
  Tensor y;
  {
    NoGradGuard unrecorded;
    y = x * x;
  }
  record(
      y, [x = Saved(x), factor](Node& self, Tensor&& g) { return g * x.get(self) * factor; }, x);
  return y;
}

// Right at first order, but its gradient is cut off from x: wrong at second.
Tensor cut_square(const Tensor& x) {
  const CallScope call("cut_square", Location::none());
  Tensor y;
  {
    NoGradGuard unrecorded;
    y = x * x;
  }
  record(
      y, [x = Saved(x)](Node& self, Tensor&& g) { return g * x.get(self).detach() * 2.0; }, x);
  return y;
}

TEST(Gradcheck, PassesRightGradients) {
  EXPECT_TRUE(gradcheck([](Inputs x) { return exp(x[0]) * x[1]; }, {leaf({0.5, -1}), leaf({2})}));
  EXPECT_TRUE(gradgradcheck([](Inputs x) { return exp(x[0]) * x[1]; }, {leaf({0.5, -1}), leaf({2})}));
  EXPECT_TRUE(gradcheck([](Inputs x) { return std::vector<Tensor>{x[0] * 2.0, x[0] * x[0]}; }, {leaf({1, 2})}));
}

TEST(Gradcheck, CatchesAWrongGradient) {
  const auto wrong = [](Inputs x) { return wrong_square(x[0], 2.01); };
  EXPECT_TRUE(gradcheck([](Inputs x) { return wrong_square(x[0], 2); }, {leaf({1, 3})}));
  EXPECT_THROW(gradcheck(wrong, {leaf({1, 3})}), AutogradError);
  const GradcheckResult result = gradcheck(wrong, {leaf({1, 3})}, {.raise_exception = false});
  EXPECT_FALSE(result);
  EXPECT_NE(result.message.find("output 0, element 0, for input 0, element 0"), std::string::npos) << result.message;
  EXPECT_NE(result.message.find("2.01"), std::string::npos) << result.message;
}

TEST(Gradcheck, CatchesAWrongSecondDerivative) {
  const auto cut = [](Inputs x) { return cut_square(x[0]); };
  EXPECT_TRUE(gradcheck(cut, {leaf({1, 3})}));
  EXPECT_THROW(gradgradcheck(cut, {leaf({1, 3})}), AutogradError);
}

TEST(Gradcheck, CatchesAGradientOfTheWrongShape) {
  const auto misshapen = [](Inputs x) {
    const CallScope call("misshapen", Location::none());
    Tensor y;
    {
      NoGradGuard unrecorded;
      y = x[0] * 1.0;
    }
    record(
        y, [](Tensor&& g) { return g.unsqueeze(0); }, x[0]);
    return y;
  };
  const GradcheckResult result = gradcheck(misshapen, {leaf({1, 3})}, {.raise_exception = false});
  EXPECT_FALSE(result);
  EXPECT_NE(result.message.find("[1, 2]"), std::string::npos) << result.message;
}

TEST(Gradcheck, NamesOpAndPlace) {
  const int line = __LINE__ + 2;
  try {
    gradcheck([](Inputs x) { return wrong_square(x[0], 3); }, {leaf({1})});
    FAIL();
  } catch (const AutogradError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[gradcheck]"), std::string::npos) << text;
    EXPECT_NE(text.find("gradcheck_test.cpp:" + std::to_string(line)), std::string::npos) << text;
  }
}

TEST(Gradcheck, LeavesTheInputsAsTheyWere) {
  const Tensor x = leaf({1, 2});
  const uint32_t version = x.version();
  gradcheck(
      [](Inputs in) {
        const Tensor y = in[0] * 1.0;
        y.mul_(2.0);
        return y;
      },
      {x});
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(x.version(), version);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradcheck, ChecksOnlyInputsThatRequireAGradient) {
  const Tensor other = tensor({1, 2});
  EXPECT_TRUE(gradcheck([](Inputs x) { return x[0] * x[1].to(f64); }, {leaf({1, 2}), other}));
  EXPECT_THROW(gradcheck([](Inputs x) { return x[0] * 1.0; }, {other.to(f64)}), ValueError);
  EXPECT_THROW(gradcheck([](Inputs x) { return x[0] * 1.0; }, {tensor({1.0}).requires_grad_()}), DTypeError);
  EXPECT_THROW(gradcheck([](Inputs x) { return x[0] * 1.0; }, {Tensor()}), ValueError);
}

TEST(Gradcheck, UnusedInputsUnrecordedOutputsAndEmptyTensors) {
  EXPECT_TRUE(gradcheck([](Inputs x) { return x[0] * 2.0; }, {leaf({1}), leaf({2})}));
  EXPECT_TRUE(gradgradcheck([](Inputs x) { return x[0] * 2.0; }, {leaf({1}), leaf({2})}));
  EXPECT_TRUE(gradcheck([](Inputs x) { return std::vector<Tensor>{x[0] * 2.0, x[0] > 0.0}; }, {leaf({1, 2})}));
  EXPECT_TRUE(gradcheck([](Inputs x) { return sign(x[0]); }, {leaf({1, 2})}));
  EXPECT_FALSE(gradcheck([](Inputs x) { return x[0].detach() * 2.0; }, {leaf({1})}, {.raise_exception = false}));
  EXPECT_TRUE(gradcheck([](Inputs x) { return x[0] * 2.0; }, {zeros({0, 2}, f64).requires_grad_()}));
  EXPECT_TRUE(gradgradcheck([](Inputs x) { return x[0] * x[0]; }, {tensor(2.0, f64).requires_grad_()}));
}

TEST(Gradcheck, ToleranceAndStepAreOptions) {
  const auto nearly = [](Inputs x) { return wrong_square(x[0], 2.01); };
  EXPECT_TRUE(gradcheck(nearly, {leaf({1})}, {.relative = 0.02}));
  EXPECT_TRUE(gradcheck([](Inputs x) { return x[0] * x[0]; }, {leaf({1})}, {.step = 1e-3}));
}

TEST(Gradcheck, WorksUnderNoGrad) {
  NoGradGuard unrecorded;
  EXPECT_TRUE(gradcheck([](Inputs x) { return x[0] * x[0]; }, {leaf({1})}));
  EXPECT_FALSE(grad_mode().enabled);
}

}  // namespace
}  // namespace weft
