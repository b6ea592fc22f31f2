// Loss scaling of a model in f16 with master weights in f32.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <weft/optim/master_weights.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// w is f16, and so is its gradient `slope`, times the scale.
struct Training {
  Tensor w = full({4}, 1.0, f16).requires_grad_();
  optim::MasterWeights masters{{w}};
  optim::AdamW optimizer{masters.parameters(), {.lr = 1e-3}};
  optim::GradScaler scaler;

  explicit Training(double scale = 1024, int64_t growth_interval = 1000)
      : scaler({.init_scale = scale, .growth_interval = growth_interval}) {}

  void backward(const Tensor& slope) {
    masters.zero_grad();
    scaler.scale((w * slope.to(f16)).to(f32).sum()).backward();
    masters.take_gradients();
  }
  bool step(const Tensor& slope, std::optional<double> most = {}) {
    backward(slope);
    scaler.unscale_(optimizer);
    if (most) optim::clip_grad_norm_(masters.parameters(), *most);
    const bool stepped = scaler.step(optimizer);
    masters.write_back();
    scaler.update();
    return stepped;
  }
  std::vector<float> wide() const { return masters.parameters()[0].detach().to_vector<float>(); }
};

Tensor slope(double value) { return full({4}, value); }

TEST(ScaledMasters, StepsEqualFloat32WithoutAScale) {
  Training t;
  const Tensor exact = ones({4}).requires_grad_();
  optim::AdamW plain({exact}, {.lr = 1e-3});
  for (int i = 0; i < 20; ++i) {
    const Tensor s = tensor({0.25, -0.5, 1.0 / 1024, 0.125}) * (1 + i % 3);
    EXPECT_TRUE(t.step(s)) << i;
    exact.set_grad(s);
    plain.step();
  }
  EXPECT_EQ(t.wide(), exact.detach().to_vector<float>()) << "scales are powers of two";
  EXPECT_EQ(bytes_of(t.w.detach()), bytes_of(exact.detach().to(f16)));
}

TEST(ScaledMasters, GradientsThatFloat16CannotHoldBackOffUntilItCan) {
  Training t(65536);
  EXPECT_FALSE(t.step(slope(3)));  // f16 ends at 65504
  EXPECT_FALSE(t.step(slope(3)));
  EXPECT_EQ(t.scaler.get_scale(), 16384);
  EXPECT_EQ(t.wide(), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_TRUE(t.step(slope(3)));
  EXPECT_LT(t.wide()[0], 1);
  EXPECT_EQ(t.scaler.state().growth_tracker, 1);
}

TEST(ScaledMasters, SmallGradientsThatFloat16LosesTrainTheMasters) {
  Training t(65536);
  const double small = std::exp2(-30);  // 0 in f16
  EXPECT_EQ(slope(small).to(f16).sum().item<double>(), 0);
  t.masters.zero_grad();
  t.scaler.scale((t.w.to(f32) * small).sum()).backward();
  t.masters.take_gradients();
  t.scaler.unscale_(t.optimizer);
  EXPECT_EQ(t.masters.parameters()[0].grad().to_vector<float>()[0], small);
}

TEST(ScaledMasters, StepsThatAreNotFiniteChangeNothing) {
  for (const double bad : {infinity, -infinity, nan}) {
    Training t;
    EXPECT_TRUE(t.step(slope(0.5)));
    const auto wide = t.wide();
    const std::string narrow = bytes_of(t.w.detach());
    const auto moments = t.optimizer.state_dict();
    EXPECT_FALSE(t.step(tensor({0.5, bad, 0.5, 0.5})));
    EXPECT_EQ(t.wide(), wide);
    EXPECT_EQ(bytes_of(t.w.detach()), narrow);
    EXPECT_EQ(t.scaler.get_scale(), 512);
    EXPECT_EQ(t.scaler.state().growth_tracker, 0);
    EXPECT_TRUE(t.step(slope(0.5))) << "the next gradients are its own";
    EXPECT_LT(t.wide()[1], wide[1]);
  }
}

TEST(ScaledMasters, GrowsAfterStepsInARow) {
  Training t(64, 3);
  for (const bool good : {true, true, false, true, true, true}) t.step(slope(good ? 0.5 : nan));
  EXPECT_EQ(t.scaler.get_scale(), 64);
  EXPECT_EQ(t.scaler.state().growth_tracker, 0);
}

TEST(ScaledMasters, ClipsBetweenUnscaleAndStep) {
  Training clipped;
  const Tensor exact = ones({4}).requires_grad_();
  optim::AdamW plain({exact}, {.lr = 1e-3});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(clipped.step(slope(0.75), 0.5));
    exact.set_grad(slope(0.75));
    optim::clip_grad_norm_(std::vector{exact}, 0.5);
    plain.step();
  }
  EXPECT_EQ(clipped.wide(), exact.detach().to_vector<float>());
  EXPECT_NEAR(vector_norm(clipped.masters.parameters()[0].grad()).item<double>(), 0.5, 1e-6);
  // Infinite gradients, which clipping makes NaN and zeros, were seen before.
  EXPECT_FALSE(clipped.step(tensor({infinity, 1., 1., 1.}), 0.5));
  EXPECT_EQ(clipped.wide(), exact.detach().to_vector<float>());
}

TEST(ScaledMasters, ResumesBitForBitFromTheMiddle) {
  const auto train = [](Training& t, int from, int to) {
    for (int i = from; i < to; ++i) t.step(i % 5 == 3 ? slope(infinity) : slope(0.3 + 0.1 * i));
  };
  Training whole(1024, 3), first(1024, 3), second(1024, 3);
  train(whole, 0, 16);
  train(first, 0, 8);
  second.masters.load_state_dict(first.masters.state_dict());
  second.optimizer.load_state_dict(first.optimizer.state_dict());
  second.scaler.restore(first.scaler.state());
  train(second, 8, 16);
  EXPECT_EQ(second.wide(), whole.wide());
  EXPECT_EQ(bytes_of(second.w.detach()), bytes_of(whole.w.detach()));
  EXPECT_EQ(second.scaler.get_scale(), whole.scaler.get_scale());
  EXPECT_EQ(second.scaler.state().growth_tracker, whole.scaler.state().growth_tracker);
}

TEST(ScaledMasters, ForgottenGradientsAreSaid) {
  Training t;
  t.scaler.scale((t.w * 0.5).to(f32).sum()).backward();
  // take_gradients is missing: a step would change nothing.
  EXPECT_NE(message_of<ValueError>([&] { t.scaler.step(t.optimizer); }).find("take_gradients"), std::string::npos);
  EXPECT_THROW(t.scaler.unscale_(t.optimizer), ValueError);
  t.masters.take_gradients();
  EXPECT_TRUE(t.scaler.step(t.optimizer));
}

TEST(ScaledMasters, OneParameterHasOneMaster) {
  const Tensor w = ones({2}, f16).requires_grad_();
  EXPECT_THROW(optim::MasterWeights({w, w}), ValueError);
  const Tensor wide = ones({2}).requires_grad_();
  EXPECT_THROW(optim::MasterWeights({wide, wide}), ValueError);
}

TEST(GradScaler, AnUpdateMayStepAnotherOptimizer) {
  const Tensor a = ones({2}).requires_grad_();
  optim::SGD outer({a}, {.lr = 1});
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(ones({2}).requires_grad_());
  std::vector<std::unique_ptr<optim::SGD>> inner;
  for (const Tensor& t : others) inner.push_back(std::make_unique<optim::SGD>(std::vector<Tensor>{t}));
  optim::GradScaler scaler;
  Tensor loss = a.sum();
  for (const Tensor& t : others) loss = loss + t.sum();
  scaler.scale(loss).backward();
  EXPECT_TRUE(scaler.step(outer, [&] {
    for (auto& o : inner) EXPECT_TRUE(scaler.step(*o));
    outer.step();
  }));
  EXPECT_THROW(scaler.step(outer), ValueError) << "it has stepped";
  scaler.update();
  // Where it ends the iteration itself, the next one begins.
  scaler.scale(a.sum()).backward();
  EXPECT_TRUE(scaler.step(outer, [&] { scaler.update(); }));
  EXPECT_TRUE(scaler.step(outer));
}

}  // namespace
}  // namespace weft
