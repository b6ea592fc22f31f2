#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <collected_warnings.hpp>
#include <temporary_folder.hpp>
#include <weft/io/model.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using Doubles = std::vector<double>;
using Sizes = std::vector<int64_t>;

Doubles values(const Tensor& t) { return t.to(f64).to_vector<double>(); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const Doubles a = values(actual), e = values(expected);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance * (1 + std::fabs(e[i]))) << "element " << i;
}

Tensor expert(const Tensor& x, const Tensor& up, const Tensor& down, nn::ExpertKind kind) {
  const Tensor h = linear(x, up);
  if (kind == nn::ExpertKind::gelu) return linear(gelu(h), down);
  const auto halves = h.chunk(2, -1);
  return linear(silu(halves[0]) * halves[1], down);
}

/// The layer as loops over tokens and choices.
Tensor by_loops(const nn::MoE& moe, const Tensor& x) {
  const nn::MoEOptions& o = moe.options();
  const int64_t experts = moe.router.size(0), tokens = x.size(0);
  const Tensor logits = linear(x, moe.router);
  const Tensor scores = o.scores == nn::RouterScores::softmax ? softmax(logits, -1) : sigmoid(logits);
  const int64_t capacity =
      o.capacity_factor ? static_cast<int64_t>(std::ceil(*o.capacity_factor * static_cast<double>(tokens * o.top_k) /
                                                         static_cast<double>(experts)))
                        : tokens;
  std::vector<Sizes> best;
  for (int64_t s = 0; s < tokens; ++s) {
    const Tensor row = moe.expert_bias.defined() ? scores[s] + moe.expert_bias : Tensor(scores[s]);
    best.push_back(argsort(row, -1, true).to_vector<int64_t>());
  }
  std::vector<Tensor> out(static_cast<size_t>(tokens), zeros(x.size(1), {x.dtype()}));
  Sizes taken(static_cast<size_t>(experts), 0);
  for (int64_t j = 0; j < o.top_k; ++j) {
    for (int64_t s = 0; s < tokens; ++s) {
      const int64_t e = best[static_cast<size_t>(s)][static_cast<size_t>(j)];
      if (taken[static_cast<size_t>(e)]++ >= capacity) continue;
      Tensor all = zeros({}, {x.dtype()});
      for (int64_t i = 0; i < o.top_k; ++i)
        all = all + scores[{s, best[static_cast<size_t>(s)][static_cast<size_t>(i)]}];
      const Tensor weight = o.normalize ? scores[{s, e}] / all : Tensor(scores[{s, e}]);
      out[static_cast<size_t>(s)] = out[static_cast<size_t>(s)] + weight * expert(x[s], moe.up[e], moe.down[e], o.kind);
    }
  }
  Tensor y = stack(out);
  if (o.shared_experts > 0) y = y + expert(x, moe.shared_up, moe.shared_down, o.kind);
  return y;
}

std::vector<nn::MoEOptions> every_kind() {
  std::vector<nn::MoEOptions> out;
  for (const auto scores : {nn::RouterScores::softmax, nn::RouterScores::sigmoid}) {
    for (const auto kind : {nn::ExpertKind::swiglu, nn::ExpertKind::gelu}) {
      for (const bool normalize : {true, false}) {
        out.push_back({.top_k = 2, .scores = scores, .normalize = normalize, .kind = kind});
      }
    }
  }
  out.push_back({.top_k = 1, .shared_experts = 2});
  out.push_back({.top_k = 2, .capacity_factor = 0.6});
  out.push_back({.top_k = 3, .scores = nn::RouterScores::sigmoid, .expert_bias = true});
  return out;
}

TEST(MoE, EqualsLoopsOverTokensAndChoicesWithGradients) {
  for (const nn::MoEOptions& options : every_kind()) {
    manual_seed(3);
    nn::MoE moe(6, 5, 4, options);
    moe.to(f64);
    if (options.expert_bias) moe.expert_bias.copy_(tensor({0.3, -0.2, 0.1, 0.0}));
    const Tensor x = randn({9, 6}, {.dtype = f64}).requires_grad_(), g = randn({9, 6}, {.dtype = f64});
    SCOPED_TRACE(moe.text());
    std::vector<Tensor> leaves = moe.parameters();
    leaves.push_back(x);
    const Tensor y = moe(x), expected = by_loops(moe, x);
    expect_near(y, expected, 1e-12);
    const auto gradients = [&](const Tensor& of) {
      return grad(std::vector<Tensor>{of}, leaves, std::vector<Tensor>{g}, {.allow_unused = true});
    };
    const auto actual = gradients(y), wanted = gradients(expected);
    for (size_t i = 0; i < leaves.size(); ++i) {
      expect_near(actual[i], wanted[i].defined() ? wanted[i] : zeros_like(leaves[i]), 1e-11);
    }
  }
}

TEST(MoE, GradientsEqualDifferences) {
  for (const nn::MoEOptions& options : every_kind()) {
    manual_seed(5);
    nn::MoE moe(3, 2, 4, options);
    moe.to(f64);
    SCOPED_TRACE(moe.text());
    const Tensor x = randn({5, 3}, {.dtype = f64}).requires_grad_();
    std::vector<Tensor> leaves = moe.parameters();
    leaves.push_back(x);
    const auto function = [&](std::span<const Tensor>) {
      const nn::MoEOutput out = moe.forward_with_losses(x);
      return std::vector<Tensor>{out.output, out.balance_loss, out.z_loss};
    };
    EXPECT_NO_THROW(gradcheck(function, leaves));
  }
}

TEST(MoE, OfOneExpertIsAnMlp) {
  for (const auto kind : {nn::ExpertKind::swiglu, nn::ExpertKind::gelu}) {
    const nn::MoE moe(8, 16, 1, {.top_k = 1, .kind = kind});
    const Tensor x = randn({2, 7, 8});
    expect_near(moe(x), expert(x, moe.up[0], moe.down[0], kind), 1e-6);
    const nn::MoEOutput out = moe.forward_with_losses(x);
    EXPECT_NEAR(out.balance_loss.item<double>(), 1, 1e-6);
    EXPECT_EQ(out.counts.to_vector<int64_t>(), (Sizes{14}));
  }
}

TEST(MoE, WorksWithOneTo256ExpertsAndWithoutTokens) {
  for (const int64_t experts : {1, 2, 3, 64, 65, 128, 256}) {
    const nn::MoE moe(4, 3, experts, {.top_k = std::min<int64_t>(experts, 8)});
    const Tensor x = randn({5, 4});
    expect_near(moe(x), by_loops(moe, x), 1e-5);
    EXPECT_EQ(moe(zeros({0, 4})).shape(), (Dims{0, 4}));
    const nn::MoEOutput none = moe.forward_with_losses(zeros({0, 4}));
    EXPECT_EQ(none.balance_loss.item<double>(), 0);
    EXPECT_EQ(none.z_loss.item<double>(), 0);
  }
}

TEST(MoE, LossesEqualTheirFormulas) {
  const nn::MoE moe(6, 4, 5, {.top_k = 2});
  const Tensor x = randn({30, 6});
  const nn::MoEOutput out = moe.forward_with_losses(x);
  const Tensor logits = linear(x, moe.router), p = mean(softmax(logits, -1), {0});
  const Tensor chosen = topk(logits, 2, -1).indices;
  Tensor f = bincount(chosen.reshape({-1}), {}, 5).to(f32);
  EXPECT_EQ(out.counts.to_vector<int64_t>(), f.to(i64).to_vector<int64_t>());
  EXPECT_NEAR(out.balance_loss.item<double>(), sum(f / 60 * p).item<double>() * 5, 1e-5);
  EXPECT_NEAR(out.z_loss.item<double>(), mean(square(logsumexp(logits, {-1}))).item<double>(), 1e-5);
  expect_near(out.output, moe(x), 0);
}

TEST(MoE, BalanceLossIsOneWhereExpertsAreChosenAlikeAndAsManyWhereOneIsAlwaysChosen) {
  nn::MoE moe(4, 2, 4, {.top_k = 1});
  {
    const NoGradGuard unrecorded;
    moe.router.copy_(eye(4) * 100);
  }
  EXPECT_NEAR(moe.forward_with_losses(eye(4)).balance_loss.item<double>(), 1, 1e-5);
  const Tensor same = eye(4).select(0, 2).unsqueeze(0).expand({9, 4});
  EXPECT_NEAR(moe.forward_with_losses(same).balance_loss.item<double>(), 4, 1e-5);
}

TEST(MoE, ABiasThatIsUpdatedBalancesARouterThatPrefersOne) {
  manual_seed(11);
  nn::MoE moe(4, 2, 4, {.top_k = 1, .scores = nn::RouterScores::sigmoid, .expert_bias = true});
  {
    const NoGradGuard unrecorded;
    moe.router.copy_(randn({4, 4}) * 0.2);
  }
  const Tensor x = randn({400, 4}) + 1;
  const auto most = [&] { return max(moe.forward_with_losses(x).counts).item<int64_t>(); };
  const int64_t before = most();
  for (int i = 0; i < 300; ++i) moe.update_expert_bias(moe.forward_with_losses(x).counts, 0.01);
  EXPECT_GT(before, 180);
  EXPECT_LT(most(), 140);
}

TEST(MoE, ABiasMovesUpWhereFewTokensCameAndDownWhereManyDid) {
  nn::MoE moe(4, 2, 4, {.expert_bias = true});
  moe.update_expert_bias(tensor({1, 5, 3, 3}), 0.25);
  EXPECT_EQ(values(moe.expert_bias), (Doubles{0.25, -0.25, 0, 0}));
  EXPECT_THROW(moe.update_expert_bias(tensor({1, 2})), ShapeError);
  nn::MoE without(4, 2, 4);
  EXPECT_THROW(without.update_expert_bias(tensor({1, 5, 3, 3})), ValueError);
}

TEST(MoE, WeightsAreSavedAndLoadedWithTheirOptions) {
  const TemporaryFolder folder;
  const std::string path = folder / "moe";
  const nn::MoE moe(4, 6, 5, {.top_k = 3, .kind = nn::ExpertKind::gelu, .shared_experts = 1, .expert_bias = true});
  io::save_model(path, moe);
  const nn::AnyModule loaded = io::load_model(path);
  const Tensor x = randn({3, 4});
  EXPECT_EQ(values(loaded(x)), values(moe(x)));
}

TEST(MoE, In16BitsRoutesInF32) {
  nn::MoE moe(8, 4, 6, {.top_k = 2, .shared_experts = 1});
  const Tensor x = randn({20, 8}).to(bf16);
  moe.to(bf16);
  nn::MoE wide = nn::clone(moe);
  wide.to(f32);
  const nn::MoEOutput out = moe.forward_with_losses(x), expected = wide.forward_with_losses(x.to(f32));
  EXPECT_EQ(out.output.dtype(), bf16);
  EXPECT_EQ(out.balance_loss.dtype(), f32);
  EXPECT_EQ(out.counts.to_vector<int64_t>(), expected.counts.to_vector<int64_t>());
  EXPECT_EQ(out.z_loss.item<double>(), expected.z_loss.item<double>());
  expect_near(out.output.to(f32), expected.output, 0.02);
}

TEST(MoE, UnderAutocastComputesExpertsIn16BitsAndTheRouterInF32) {
  const nn::MoE moe(8, 4, 6);
  const Tensor x = randn({20, 8});
  const nn::MoEOutput exact = moe.forward_with_losses(x);
  const AutocastGuard lower(bf16);
  const nn::MoEOutput out = moe.forward_with_losses(x);
  EXPECT_EQ(out.z_loss.item<double>(), exact.z_loss.item<double>());
  EXPECT_EQ(out.counts.to_vector<int64_t>(), exact.counts.to_vector<int64_t>());
  expect_near(out.output.to(f32), exact.output, 0.02);
}

TEST(MoE, CostEqualsThatOfTheChosenExperts) {
  const nn::Summary one = nn::summary(nn::MoE(8, 16, 4, {.top_k = 1}), zeros({10, 8}));
  const nn::Summary two = nn::summary(nn::MoE(8, 16, 4, {.top_k = 2, .capacity_factor = 1}), zeros({10, 8}));
  EXPECT_EQ(two.total().multiply_adds - one.total().multiply_adds, 10 * (8 * 32 + 16 * 8));
}

TEST(MoE, RefusesOptionsAndShapesThatDoNotFit) {
  EXPECT_THROW(nn::MoE(4, 4, 2, {.top_k = 3}), ValueError);
  EXPECT_THROW(nn::MoE(4, 4, 2, {.top_k = 0}), ValueError);
  EXPECT_THROW(nn::MoE(4, 4, 0), ValueError);
  EXPECT_THROW(nn::MoE(-4, 4, 2), ValueError);
  EXPECT_THROW(nn::MoE(4, -4, 2), ValueError);
  EXPECT_THROW(nn::MoE(4, 4, 2, {.capacity_factor = 0}), ValueError);
  EXPECT_THROW(nn::MoE(4, 4, 2, {.shared_experts = -1}), ValueError);
  const nn::MoE moe(4, 4, 2);
  EXPECT_THROW(moe(zeros({3, 5})), ShapeError);
  EXPECT_THROW(moe(zeros({})), ShapeError);
  EXPECT_THROW(moe(zeros({3, 4}, {.dtype = f64})), DTypeError);
}

struct Trained {
  std::vector<std::string> warnings;
  bool router_learns;
};
Trained trained(int64_t experts, const nn::MoEOptions& options, Location where = {}) {
  const CollectedWarnings collected;
  nn::MoE moe(8, 4, experts, options, where);
  moe(randn({20, 8})).square().sum().backward();
  return {collected.texts, abs(moe.router.grad()).sum().item<float>() > 1e-4F};
}

TEST(MoE, OneNormalizedWeightWarnsThatTheRouterGetsNoGradient) {
  const Trained cut_off = trained(4, {.top_k = 1});
  EXPECT_FALSE(cut_off.router_learns);
  ASSERT_EQ(cut_off.warnings.size(), 1u);
  EXPECT_NE(cut_off.warnings[0].find("[nn::MoE] one normalized weight is always 1"), std::string::npos);
  EXPECT_NE(cut_off.warnings[0].find("normalize = false, or a top_k above 1"), std::string::npos);
  EXPECT_EQ(trained(4, {.top_k = 1, .scores = nn::RouterScores::sigmoid}).warnings.size(), 1u);
  EXPECT_EQ(trained(1, {.top_k = 1}).warnings.size(), 0u);  // there is nothing to choose
  for (const auto scores : {nn::RouterScores::softmax, nn::RouterScores::sigmoid}) {
    for (const nn::MoEOptions& o : {nn::MoEOptions{.top_k = 1, .scores = scores, .normalize = false},
                                    nn::MoEOptions{.top_k = 2, .scores = scores}}) {
      const Trained fine = trained(4, o);
      EXPECT_TRUE(fine.router_learns && fine.warnings.empty());
    }
  }
}

TEST(MoE, TrainingAGateOfOneNormalizedWeightWarns) {
  const CollectedWarnings collected;
  const Tensor logits = randn({5, 4});
  (void)moe_topk_gate(logits, {}, 1, true);
  EXPECT_EQ(collected.texts.size(), 0u);
  const Tensor trained = logits.clone().requires_grad_(true);
  (void)moe_topk_gate(trained, {}, 1, false);
  (void)moe_topk_gate(trained, {}, 2, true);
  EXPECT_EQ(collected.texts.size(), 0u);
  (void)moe_topk_gate(trained, {}, 1, true);
  ASSERT_EQ(collected.texts.size(), 1u);
  EXPECT_NE(collected.texts[0].find("[moe_topk_gate] one normalized weight is always 1"), std::string::npos);
}

TEST(MoE, CarriesItsLossesWithTheirWeights) {
  const nn::MoEOptions options{.top_k = 2, .balance_weight = 0.25, .z_weight = 0.125};
  manual_seed(3);
  nn::MoE carrying(6, 5, 4, options);
  nn::MoE plain(6, 5, 4, {.top_k = 2});
  plain.load_state_dict(carrying.state_dict());
  const Tensor x = randn({9, 6}, f32), target = randn({9, 6}, f32);
  const auto [y, balance, z, counts] = plain.forward_with_losses(x);
  (mse_loss(y, target) + 0.25 * balance + 0.125 * z).backward();
  mse_loss(carrying(x), target).backward();
  expect_near(carrying.router.grad(), plain.router.grad(), 1e-6);
  expect_near(carrying.up.grad(), plain.up.grad(), 1e-6);

  carrying.zero_grad();
  for (int k = 0; k < 4; ++k) {
    const nn::AuxiliaryLossScale scale(0.5), half(0.5);
    (mse_loss(carrying(x), target) / 4).backward();
  }
  expect_near(carrying.router.grad(), plain.router.grad(), 1e-6);

  carrying.eval();
  carrying.zero_grad();
  (0 * sum(carrying(x))).backward();
  EXPECT_EQ(max(abs(carrying.router.grad())).item<double>(), 0);
  EXPECT_THROW(nn::MoE(6, 5, 4, {.balance_weight = -1}), ValueError);
  EXPECT_THROW(nn::MoE(6, 5, 4, {.z_weight = std::nan("")}), ValueError);
}

TEST(AuxiliaryLoss, IsAddedToTheLossOfBackward) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = nn::add_auxiliary_loss(3 * x, sum(x * x), 0.5);
  EXPECT_EQ(values(y), (Doubles{3, 6}));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{4, 5}));
  const Tensor inner = tensor({1.0, 2.0}).requires_grad_();
  const auto through = [](const Tensor& t) { return nn::add_auxiliary_loss(t * t, sum(t * t * t)); };
  const Tensor first = grad({sum(through(inner))}, {inner}, {}, {.create_graph = true})[0];  // 2t + 3t²
  EXPECT_EQ(values(grad({sum(first)}, {inner})[0]), (Doubles{8, 14}));
  const Tensor constant = tensor({1.0});
  EXPECT_EQ(nn::add_auxiliary_loss(x, constant).impl(), x.impl());
  EXPECT_THROW(nn::add_auxiliary_loss(x, x), ShapeError);
  EXPECT_THROW(nn::add_auxiliary_loss(x, tensor(1)), DTypeError);
}

}  // namespace
}  // namespace weft
