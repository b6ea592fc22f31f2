// Auxiliary losses of a step's batches beside one loss that contains them.
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <weft/nn/moe.hpp>
#include <weft/train/stepper.hpp>
#include <weft/weft.hpp>

namespace weft::train {
namespace {

constexpr double balance_weight = 0.5, z_weight = 0.25;

nn::MoE mixture() {
  manual_seed(1);
  return nn::MoE(6, 5, 4, {.balance_weight = balance_weight, .z_weight = z_weight});
}
Tensor batch_of(int i) {
  manual_seed(10 + static_cast<uint64_t>(i));
  return randn({4, 6});
}

struct Case {
  /// Weights of the batches, of which a step has 3; with fewer it is flushed.
  std::vector<std::optional<double>> weights;
  bool scales = false;
  /// Weight of a step over the mean weight of all processes.
  double over_mean = 1;
};

void expect_factors(const Case& c) {
  nn::MoE whole = mixture(), pieces = mixture();
  double sum = 0;
  for (const auto& weight : c.weights) sum += weight.value_or(1);
  for (size_t i = 0; i < c.weights.size(); ++i) {
    const Tensor x = batch_of(static_cast<int>(i));
    const auto [y, balance, z, counts] = whole.forward_with_losses(x);
    const Tensor loss = mse_loss(y, 2 * x) + balance_weight * balance + z_weight * z;
    (loss * (c.over_mean * c.weights[i].value_or(1) / sum)).backward();
  }
  optim::SGD(whole.parameters(), {.lr = 1}).step();

  optim::SGD optimizer(pieces.parameters(), {.lr = 1});
  optim::GradScaler scaler({.init_scale = 1024});
  StepOptions options{.accumulate = 3, .scaler = c.scales ? &scaler : nullptr};
  if (c.over_mean != 1) options.mean_weight = [&](double own) { return own / c.over_mean; };
  Stepper stepper(pieces, optimizer, options);
  std::optional<StepResult> done;
  for (size_t i = 0; i < c.weights.size(); ++i) {
    const Tensor x = batch_of(static_cast<int>(i));
    done = stepper.step([&] {
      const Tensor loss = mse_loss(pieces(x), 2 * x);
      return c.weights[i] ? BatchLoss(loss, *c.weights[i]) : BatchLoss(loss);
    });
  }
  if (!done) done = stepper.flush();
  ASSERT_TRUE(done && done->updated);
  EXPECT_TRUE(allclose(pieces.router, whole.router, 1e-5, 1e-6));
  EXPECT_TRUE(allclose(pieces.up, whole.up, 1e-5, 1e-6));
}

TEST(AuxiliaryLoss, OfAStepsBatchesHaveTheFactorsOfTheirLosses) {
  for (const bool scales : {false, true}) {
    for (const double over_mean : {1., 0.5}) {
      for (const auto& weights : std::vector<std::vector<std::optional<double>>>{
               {{}, {}, {}}, {1, 5, 2}, {0, 2, 10}, {7, 0, 1}, {7, 3, 0}, {{}, {}}, {1, 5}, {4}}) {
        SCOPED_TRACE(testing::Message() << "scaler " << scales << ", over mean " << over_mean << ", batches "
                                        << weights.size() << ", first weight " << weights[0].value_or(-1));
        expect_factors({weights, scales, over_mean});
      }
    }
  }
}

}  // namespace
}  // namespace weft::train
