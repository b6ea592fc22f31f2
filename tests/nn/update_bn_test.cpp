#include <stdexcept>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

struct Net : nn::Layer<Net> {
  nn::Linear in{3, 4};
  nn::BatchNorm1d norm{4};
  nn::InstanceNorm1d instance{2, {.track_running_stats = true}};
  nn::Dropout dropout{0.5};
  Net() { WEFT_REGISTER(in, norm, instance, dropout); }
  Tensor forward(const Tensor& x) {
    ++calls;
    return dropout(norm(in(x)));
  }
  int calls = 0;
};

void expect_as_batches(Net& net, const std::vector<Tensor>& batches) {
  const NoGradGuard unrecorded;
  Tensor mean = zeros({4}), variance = zeros({4});
  for (const Tensor& x : batches) {
    mean += net.in(x).mean({0}) / static_cast<double>(batches.size());
    variance += var(net.in(x), {0}) / static_cast<double>(batches.size());
  }
  EXPECT_TRUE(allclose(net.norm.running_mean, mean, 1e-5, 1e-6));
  EXPECT_TRUE(allclose(net.norm.running_var, variance, 1e-5, 1e-6));
  EXPECT_EQ(net.norm.num_batches_tracked.item<int64_t>(), static_cast<int64_t>(batches.size()));
}

TEST(UpdateBn, CountsBatchesAlikeAndLeavesAllElseAsItWas) {
  manual_seed(4);
  Net net;
  net(randn({5, 3}) * 100);
  net.eval();
  net.in.train();
  const std::vector<Tensor> batches = {randn({8, 3}), randn({6, 3}) + 1, randn({9, 3}) * 3};
  optim::update_bn(batches, net);
  expect_as_batches(net, batches);
  EXPECT_TRUE(net.in.is_training());
  EXPECT_FALSE(net.is_training() || net.norm.is_training() || net.dropout.is_training());
  EXPECT_TRUE(equal(net.instance.running_var, ones({2})));
  // The momentum is unchanged.
  net.train();
  const Tensor x = randn({7, 3}), before = net.norm.running_mean.clone();
  net(x);
  EXPECT_TRUE(allclose(net.norm.running_mean, before * 0.9 + net.in(x).detach().mean({0}) * 0.1, 1e-5, 1e-6));
}

TEST(UpdateBn, AThrowLeavesStatisticsTrainingAndMomentumAsTheyWere) {
  manual_seed(5);
  Net net;
  net.norm(randn({4, 4}));
  const Tensor mean = net.norm.running_mean.clone(), variance = net.norm.running_var.clone();
  net.eval();
  EXPECT_ANY_THROW(optim::update_bn(std::vector<Tensor>{randn({8, 3}), randn({8, 2})}, net));
  EXPECT_TRUE(equal(net.norm.running_mean, mean) && equal(net.norm.running_var, variance));
  EXPECT_EQ(net.norm.num_batches_tracked.item<int64_t>(), 1);
  EXPECT_FALSE(net.is_training() || net.norm.is_training());
  net.norm.train();
  const Tensor before = net.norm.running_mean.clone(), x = randn({4, 4});
  net.norm(x);
  EXPECT_TRUE(allclose(net.norm.running_mean, before * 0.9 + x.mean({0}) * 0.1, 1e-5, 1e-6));
}

TEST(UpdateBn, TakesTheFirstTensorOfABatchAndNoGradients) {
  manual_seed(6);
  Net net;
  const Tensor x = randn({8, 3});
  const std::vector<std::pair<Tensor, Tensor>> batches = {{x, zeros({8})}};
  optim::update_bn(batches, net, Device());
  expect_as_batches(net, {x});
  std::vector<std::optional<Tensor>> nothing(1);
  EXPECT_NE(message_of<ValueError>([&] { optim::update_bn(nothing, net); }).find("holds no tensor"), std::string::npos);
}

TEST(UpdateBn, WithoutBatchNormsOrBatches) {
  nn::Linear plain(3, 2);
  optim::update_bn(std::vector<Tensor>{ones({1, 7})}, plain);  // it is not called: 7 would not fit
  nn::BatchNorm1d untracked(3, {.track_running_stats = false});
  optim::update_bn(std::vector<Tensor>{ones({1, 7})}, untracked);
  Net net;
  net(randn({5, 3}));
  optim::update_bn(std::vector<Tensor>(), net);
  EXPECT_EQ(net.calls, 1);
  EXPECT_TRUE(equal(net.norm.running_mean, zeros({4})) && equal(net.norm.running_var, ones({4})));
}

TEST(UpdateBn, OfALoader) {
  manual_seed(7);
  Net net;
  const Tensor x = randn({12, 3}), y = zeros({12});
  data::DataLoader loader(data::TensorDataset(x, y), {.batch_size = 4});
  optim::update_bn(loader, net);
  expect_as_batches(net, {x.narrow(0, 0, 4), x.narrow(0, 4, 4), x.narrow(0, 8, 4)});
}

}  // namespace
}  // namespace weft
