// Gradients of several backward passes as one.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <weft/optim/gradient_merge.hpp>
#include <weft/optim/grad_scaler.hpp>
#include <weft/optim/master_weights.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

Tensor weight(double value = 0, DType dtype = f32) { return full({1}, value, {.dtype = dtype}).requires_grad_(); }

/// A backward with the gradient `value`.
void backward(const Tensor& w, double value) { (w * value).sum().backward(); }

TEST(GradientMerge, MeanOrSumOfKBackwards) {
  const Tensor w = weight();
  for (const bool average : {true, false}) {
    optim::GradientMerge merge({w}, {.k = 4, .average = average});
    for (int round = 0; round < 2; ++round) {
      for (const double g : {1., 2., 3., 4.}) {
        backward(w, g);
        EXPECT_EQ(merge.take(), g == 4);
        EXPECT_EQ(w.grad().defined(), g == 4);
      }
      EXPECT_EQ(w.grad().item<float>(), average ? 2.5f : 10.f);
      EXPECT_EQ(merge.pending(), 0);
      w.set_grad({});
    }
  }
}

TEST(GradientMerge, RemainingBatchesAreAveragedOrDropped) {
  const Tensor w = weight();
  optim::GradientMerge merge({w}, {.k = 4});
  EXPECT_FALSE(merge.flush());
  for (const double g : {1., 2., 6.}) backward(w, g), merge.take();
  EXPECT_TRUE(merge.flush());
  EXPECT_EQ(w.grad().item<float>(), 3.f);
  w.set_grad({});
  backward(w, 5), merge.take();
  merge.drop();
  EXPECT_EQ(merge.pending(), 0);
  for (const double g : {1., 1., 1., 5.}) backward(w, g), merge.take();
  EXPECT_EQ(w.grad().item<float>(), 2.f);
}

TEST(GradientMerge, SumsAreFloat32WhereBfloat16WouldStall) {
  const Tensor w = weight(0, bf16);
  optim::GradientMerge merge({w}, {.k = 1024, .average = false});
  for (int i = 0; i < 1024; ++i) backward(w, 1), merge.take();
  EXPECT_EQ(w.grad().dtype(), bf16);
  EXPECT_EQ(w.grad().item<float>(), 1024.f);  // bfloat16 alone would stop at 256
}

TEST(GradientMerge, KBatchesAreAsOneOfTheirJointSize) {
  manual_seed(1);
  const nn::Linear net(5, 3), same = nn::clone(net);
  const Tensor x = randn({12, 5}), y = randn({12, 3});
  optim::GradientMerge merge(net.parameters(), {.k = 3});
  for (int i = 0; i < 3; ++i) {
    mse_loss(net(x.narrow(0, 4 * i, 4)), y.narrow(0, 4 * i, 4)).backward();
    merge.take();
  }
  mse_loss(same(x), y).backward();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(allclose(net.parameters()[i].grad(), same.parameters()[i].grad(), 1e-5, 1e-7)) << i;
  }
}

TEST(GradientMerge, BatchesOfUnequalSizeCountByTheirWeights) {
  manual_seed(1);
  const nn::Linear net(5, 3), same = nn::clone(net);
  const Tensor x = randn({12, 5}), y = randn({12, 3});
  optim::GradientMerge merge(net.parameters(), {.k = 4}), resumed(net.parameters(), {.k = 4});
  int64_t first = 0;
  for (const int64_t n : {1, 0, 8, 3}) {
    mse_loss(net(x.narrow(0, first, n)), y.narrow(0, first, n)).backward();  // NaN for no rows
    first += n;
    resumed.load_state_dict(merge.state_dict());
    resumed.take(static_cast<double>(n));
    merge.load_state_dict(resumed.state_dict());
  }
  mse_loss(same(x), y).backward();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(allclose(net.parameters()[i].grad(), same.parameters()[i].grad(), 1e-5, 1e-7)) << i;
  }
  EXPECT_THROW(merge.take(-1), ValueError);
  EXPECT_THROW(merge.take(NAN), ValueError);
  EXPECT_THROW(optim::GradientMerge(net.parameters(), {.k = 2, .average = false}).take(3), ValueError);
}

TEST(GradientMerge, ParametersThatNoBackwardCameToHaveNone) {
  const Tensor used = weight(), seldom = weight(), unused = weight();
  optim::GradientMerge merge({used, seldom, unused}, {.k = 2});
  backward(used, 1), backward(seldom, 3), merge.take();
  backward(used, 2), merge.take();
  EXPECT_EQ(used.grad().item<float>(), 1.5f);
  EXPECT_EQ(seldom.grad().item<float>(), 1.5f);
  EXPECT_FALSE(unused.grad().defined());
}

TEST(GradientMerge, ABadBackwardLeavesTheWholeStepOut) {
  const Tensor w = weight(1);
  optim::SGD sgd({w}, {.lr = 1});
  optim::GradScaler scaler({.init_scale = 2});
  optim::GradientMerge merge({w}, {.k = 3});
  for (const double g : {1., std::numeric_limits<double>::infinity(), 1.}) {
    scaler.scale((w * g).sum()).backward();
    merge.take();
  }
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(w.item<float>(), 1.f);
  EXPECT_LT(scaler.get_scale(), 2);
}

TEST(GradientMerge, ResumesFromAState) {
  const Tensor w = weight(), v = weight();
  optim::GradientMerge merge({w, v}, {.k = 3});
  backward(w, 1), merge.take();
  backward(w, 2), merge.take();
  optim::GradientMerge other({w, v}, {.k = 3});
  other.load_state_dict(merge.state_dict());
  EXPECT_EQ(other.pending(), 2);
  backward(w, 6);
  EXPECT_TRUE(other.take());
  EXPECT_EQ(w.grad().item<float>(), 3.f);
  EXPECT_FALSE(v.grad().defined());
  auto state = merge.state_dict();
  state.emplace("7", ones(1));
  EXPECT_THROW(other.load_state_dict(state), ValueError);
  EXPECT_THROW(other.load_state_dict({{"0", ones(1)}}), ValueError);
  EXPECT_THROW(other.load_state_dict({{"pending", tensor(1)}, {"0", ones(2)}}), ShapeError);
}

TEST(GradientMerge, RejectsInvalidSteps) {
  const Tensor w = weight();
  EXPECT_THROW(optim::GradientMerge({w}, {.k = 0}), ValueError);
  EXPECT_THROW(optim::GradientMerge({w, w}, {.k = 1}), ValueError);
  EXPECT_THROW(optim::GradientMerge({w * 2}, {.k = 1}), ValueError);
  EXPECT_THROW(optim::GradientMerge({Tensor()}, {.k = 1}), ValueError);
}

}  // namespace
}  // namespace weft
