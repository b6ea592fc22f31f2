// Losses as layers: each is its function, with weights that move and are saved with the module.
#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include "../message_of.hpp"

namespace weft {
namespace {

class Losses : public testing::Test {
 protected:
  Tensor x = randn({4, 3}), y = rand({4, 3}), z = randn({4, 3});
  Tensor classes = tensor<int64_t>({0, 2, 1, 2}), signs = tensor<float>({1, -1, 1, -1});
};

template <class Layer, class... Inputs>
void expect_same(const Layer& layer, const Tensor& wanted, const Inputs&... inputs) {
  EXPECT_TRUE(equal(layer(inputs...), wanted)) << layer.text();
}

TEST_F(Losses, AreTheirFunctions) {
  constexpr auto sum = LossReduction::sum;
  expect_same(nn::CrossEntropyLoss({.label_smoothing = 0.1}), cross_entropy(x, classes, {.label_smoothing = 0.1}), x,
              classes);
  expect_same(nn::NLLLoss({.reduction = sum}), nll_loss(x, classes, {.reduction = sum}), x, classes);
  expect_same(nn::MSELoss(), mse_loss(x, y), x, y);
  expect_same(nn::L1Loss({.reduction = sum}), l1_loss(x, y, {.reduction = sum}), x, y);
  expect_same(nn::HuberLoss({.delta = 0.3}), huber_loss(x, y, {.delta = 0.3}), x, y);
  expect_same(nn::SmoothL1Loss({.beta = 0.3}), smooth_l1_loss(x, y, {.beta = 0.3}), x, y);
  expect_same(nn::BCEWithLogitsLoss(), binary_cross_entropy_with_logits(x, y), x, y);
  expect_same(nn::BCELoss({.weight = y}), binary_cross_entropy(sigmoid(x), y, {.weight = y}), sigmoid(x), y);
  expect_same(nn::KLDivLoss({.log_target = true}), kl_div(x, z, {.log_target = true}), x, z);
  expect_same(nn::PoissonNLLLoss({.full = true}), poisson_nll_loss(x, y, {.full = true}), x, y);
  expect_same(nn::HingeEmbeddingLoss({.margin = 2}), hinge_embedding_loss(x, y, {.margin = 2}), x, y);
  expect_same(nn::SoftMarginLoss(), soft_margin_loss(x, y), x, y);
  expect_same(nn::MultiMarginLoss({.p = 2}), multi_margin_loss(x, classes, {.p = 2}), x, classes);
  const Tensor labels = tensor<int64_t>({0, 1, -1, 2, -1, 0, 1, -1, -1, 0, 1, 2}).view({4, 3});
  expect_same(nn::MultiLabelMarginLoss(), multilabel_margin_loss(x, labels), x, labels);
  expect_same(nn::MultiLabelSoftMarginLoss(), multilabel_soft_margin_loss(x, y), x, y);
}

TEST_F(Losses, OfThreeTensorsAndFourAreTheirFunctions) {
  expect_same(nn::GaussianNLLLoss({.full = true}), gaussian_nll_loss(x, z, y, {.full = true}), x, z, y);
  expect_same(nn::CosineEmbeddingLoss({.margin = 0.2}), cosine_embedding_loss(x, z, signs, {.margin = 0.2}), x, z,
              signs);
  expect_same(nn::MarginRankingLoss({.margin = 0.2}), margin_ranking_loss(x, z, sign(y), {.margin = 0.2}), x, z,
              sign(y));
  expect_same(nn::TripletMarginLoss({.swap = true}), triplet_margin_loss(x, y, z, {.swap = true}), x, y, z);
  const auto distance = [](const Tensor& a, const Tensor& b) { return abs(a - b).sum(-1); };
  expect_same(nn::TripletMarginWithDistanceLoss(distance, {.margin = 2}),
              triplet_margin_with_distance_loss(x, y, z, distance, {.margin = 2}), x, y, z);
  const Tensor chances = log_softmax(randn({5, 2, 4}), 2), targets = tensor<int64_t>({1, 2, 3, 1}).view({2, 2});
  const Tensor times = tensor<int64_t>({5, 4}), lengths = tensor<int64_t>({2, 1});
  expect_same(nn::CTCLoss({.zero_infinity = true}), ctc_loss(chances, targets, times, lengths, {.zero_infinity = true}),
              chances, targets, times, lengths);
}

TEST_F(Losses, HoldTheirWeightsAsBuffers) {
  nn::CrossEntropyLoss loss({.weight = tensor<float>({1, 2, 3})});
  ASSERT_EQ(loss.state_dict().size(), 1u);
  EXPECT_EQ(loss.state_dict().begin()->first, "weight");
  EXPECT_TRUE(loss.parameters().empty());
  loss.to(f64);
  expect_same(loss, cross_entropy(x.to(f64), classes, {.weight = tensor<double>({1, 2, 3}, f64)}), x.to(f64), classes);
  const nn::CrossEntropyLoss apart = loss.clone();
  loss.load_state_dict({{"weight", tensor<double>({3, 2, 1}, f64)}});
  expect_same(loss, cross_entropy(x.to(f64), classes, {.weight = tensor<double>({3, 2, 1}, f64)}), x.to(f64), classes);
  expect_same(apart, cross_entropy(x.to(f64), classes, {.weight = tensor<double>({1, 2, 3}, f64)}), x.to(f64), classes);
  EXPECT_EQ(nn::BCEWithLogitsLoss({.pos_weight = ones({3})}).state_dict().begin()->first, "pos_weight");
  EXPECT_TRUE(nn::MSELoss().state_dict().empty());
  EXPECT_EQ(loss.text(), "CrossEntropyLoss()");
}

TEST_F(Losses, AnErrorNamesTheFunctionAndTheLineOfTheCall) {
  const std::string words = message_of<IndexError>([&] { nn::CrossEntropyLoss()(x, classes + 5); });
  EXPECT_NE(words.find("[cross_entropy]"), std::string::npos) << words;
  EXPECT_NE(words.find("losses_test.cpp"), std::string::npos) << words;
}

TEST_F(Losses, CarryGradients) {
  const Tensor leaf = x.clone().requires_grad_();
  nn::CrossEntropyLoss()(leaf, classes).backward();
  EXPECT_TRUE(allclose(leaf.grad(), (softmax(x, 1) - one_hot(classes, 3)) / 4));
}

}  // namespace
}  // namespace weft
