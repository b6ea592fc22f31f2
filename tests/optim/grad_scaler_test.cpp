// Loss scaling: which steps are taken, and how the scale follows.
#include <gtest/gtest.h>

#include <limits>

#include <weft/weft.hpp>

namespace weft {
namespace {

struct Scaled {
  Tensor w = ones({3}).requires_grad_();
  optim::SGD sgd{{w}, {.lr = 0.5}};
  optim::GradScaler scaler{{.init_scale = 8, .growth_interval = 2}};

  bool step(double slope) {
    sgd.zero_grad();
    scaler.scale((w * slope).sum()).backward();
    const bool stepped = scaler.step(sgd);
    scaler.update();
    return stepped;
  }
};

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(GradScaler, StepsAsWithoutAScale) {
  Scaled s;
  EXPECT_TRUE(s.step(2));
  EXPECT_EQ(s.w.to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(GradScaler, SkipsStepsWithNonFiniteGradients) {
  for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    Scaled s;
    EXPECT_FALSE(s.step(bad));
    EXPECT_EQ(s.w.to_vector<float>(), (std::vector<float>{1, 1, 1}));
    EXPECT_EQ(s.scaler.get_scale(), 4);
  }
}

TEST(GradScaler, GrowsAfterStepsInARowThatWentWell) {
  Scaled s;
  s.step(1);
  EXPECT_EQ(s.scaler.get_scale(), 8);
  s.step(infinity);
  EXPECT_EQ(s.scaler.get_scale(), 4);
  s.step(1);
  EXPECT_EQ(s.scaler.get_scale(), 4);
  s.step(1);
  EXPECT_EQ(s.scaler.get_scale(), 8);
}

TEST(GradScaler, GradientsAreUnscaledOnceAndCanBeClipped) {
  Scaled s;
  s.scaler.scale((s.w * 3.0).sum()).backward();
  EXPECT_EQ(s.w.grad().to_vector<float>()[0], 24);
  s.scaler.unscale_(s.sgd);
  EXPECT_EQ(s.w.grad().to_vector<float>()[0], 3);
  EXPECT_THROW(s.scaler.unscale_(s.sgd), ValueError);
  EXPECT_TRUE(s.scaler.step(s.sgd));
  EXPECT_EQ(s.w.to_vector<float>()[0], 1 - 1.5f);
  EXPECT_THROW(s.scaler.step(s.sgd), ValueError);
  s.scaler.update();
  EXPECT_THROW(s.scaler.update(), ValueError);
}

TEST(GradScaler, GradientsWhoseElementsShareMemoryAreUnscaledOnce) {
  const Tensor p = zeros(3).requires_grad_(), a = zeros(2).requires_grad_(), b = zeros(2).requires_grad_();
  optim::SGD optimizer(std::vector{p, a, b}, {.lr = 1});
  optim::GradScaler scaler({.init_scale = 4});
  const Tensor both = tensor({4.0, 8.0});
  p.set_grad(tensor({4.0}).expand({3}));
  a.set_grad(both), b.set_grad(both);
  scaler.unscale_(optimizer);
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(GradScaler, EachOfSeveralOptimizersIsLookedAtAlone) {
  const Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_();
  optim::SGD first({a}, {.lr = 1}), second({b}, {.lr = 1});
  optim::GradScaler scaler;
  scaler.scale((a * infinity).sum() + b.sum()).backward();
  EXPECT_FALSE(scaler.step(first));
  EXPECT_TRUE(scaler.step(second));
  EXPECT_TRUE(scaler.found_inf());
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 32768);
}

TEST(GradScaler, SmallGradientsOfHalfPrecisionSurvive) {
  const auto first_gradient = [](bool scaled) {
    const Tensor w = full({1, 1}, 1e-3).requires_grad_(), x = full({1, 1}, 1e-3);
    optim::SGD sgd({w});
    optim::GradScaler scaler({.enabled = scaled});
    Tensor loss;
    {
      const AutocastGuard half(f16);
      loss = linear(x, w).to(f32).sum() * 1e-5;
    }
    scaler.scale(loss).backward();
    scaler.unscale_(sgd);
    return w.grad().item<double>();
  };
  EXPECT_NEAR(first_gradient(true), 1e-8, 1e-11);
  EXPECT_GT(std::abs(first_gradient(false) - 1e-8), 1e-10);
}

TEST(GradScaler, ResumesFromAState) {
  Scaled s;
  s.step(1);
  Scaled again;
  again.scaler.restore(s.scaler.state());
  again.step(1);
  EXPECT_EQ(again.scaler.get_scale(), 16);
  EXPECT_THROW(again.scaler.restore({0, 0}), ValueError);
  EXPECT_THROW(again.scaler.restore({1, -1}), ValueError);
  EXPECT_EQ(again.scaler.get_scale(), 16);
}

TEST(GradScaler, DisabledItDoesNothing) {
  Scaled s;
  s.scaler = optim::GradScaler({.enabled = false});
  s.scaler.scale((s.w * 2.0).sum()).backward();
  EXPECT_EQ(s.w.grad().to_vector<float>()[0], 2);
  s.scaler.unscale_(s.sgd);
  EXPECT_TRUE(s.scaler.step(s.sgd));
  s.scaler.update();
  EXPECT_EQ(s.scaler.get_scale(), 1);
}

TEST(GradScaler, RejectsInvalidOptions) {
  EXPECT_THROW(optim::GradScaler({.init_scale = 0}), ValueError);
  EXPECT_THROW(optim::GradScaler({.init_scale = infinity}), ValueError);
  EXPECT_THROW(optim::GradScaler({.growth_factor = 1}), ValueError);
  EXPECT_THROW(optim::GradScaler({.backoff_factor = 1}), ValueError);
  EXPECT_THROW(optim::GradScaler({.growth_interval = 0}), ValueError);
  const Tensor h = ones({2}, f16).requires_grad_();
  h.set_grad(ones({2}, f16));
  optim::SGD sgd({h});
  optim::GradScaler scaler;
  EXPECT_THROW(scaler.step(sgd), ValueError);
  EXPECT_EQ(h.grad().to_vector<float>()[0], 1);
}

TEST(GradScaler, WarnsWhenTheScaleDoesNotHelp) {
  int warnings = 0;
  const WarningHandler before = set_warning_handler([&](const Warning&) { ++warnings; });
  Scaled s;
  for (int i = 0; i < 6; ++i) s.step(infinity);
  set_warning_handler(before);
  EXPECT_EQ(warnings, 1);
  EXPECT_GT(s.scaler.get_scale(), 0);
}

}  // namespace
}  // namespace weft
