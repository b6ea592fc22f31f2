#include <cmath>

#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto left = a.to_vector<double>(), right = b.to_vector<double>();
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], right[i], tolerance) << "element " << i;
}

TEST(Linear, MultipliesByTheTransposedWeight) {
  nn::Linear layer(2, 3);
  layer.load_state_dict({{"weight", tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})}, {"bias", tensor({0.5, 0.0, -1.0})}});
  EXPECT_EQ(layer(tensor({{1.0, 10.0}})).to_vector<float>(), (std::vector<float>{21.5, 43, 64}));
  EXPECT_EQ(layer(ones({4, 5, 2})).shape(), Dims({4, 5, 3}));
}

TEST(Linear, StartsWithinPyTorchsBounds) {
  manual_seed(3);
  const nn::Linear layer(100, 200);
  for (const Tensor& p : layer.parameters()) {
    EXPECT_LE(max(p).item<float>(), 0.1f);
    EXPECT_GE(min(p).item<float>(), -0.1f);
    EXPECT_GT(max(p).item<float>(), 0.09f);
  }
  EXPECT_FALSE(nn::Linear(2, 2, false).bias.defined());
  EXPECT_EQ(nn::Linear(2, 2, false).parameters().size(), 1u);
}

TEST(Linear, SameSeedSameWeights) {
  manual_seed(5);
  const nn::Linear a(7, 3);
  manual_seed(5);
  const nn::Linear b(7, 3);
  EXPECT_EQ(a.weight.to_vector<float>(), b.weight.to_vector<float>());
}

TEST(Layers, SizesAreChecked) {
  EXPECT_THROW(nn::Linear(-1, 2), ValueError);
  EXPECT_THROW(nn::Embedding(2, -3), ValueError);
  EXPECT_THROW(nn::Dropout(1.5), ValueError);
  EXPECT_THROW(nn::Dropout(NAN), ValueError);
  EXPECT_THROW(nn::SelfAttention(10, 3), ValueError);
  EXPECT_THROW(nn::TransformerBlock(8, 0), ValueError);
  EXPECT_EQ(nn::Linear(0, 2)(ones({3, 0})).shape(), Dims({3, 2}));
}

TEST(EmbeddingBag, SumsRowsOfBagsAsItsOp) {
  nn::EmbeddingBag bags(5, 3, {.mode = BagMode::sum, .padding_idx = -1});
  EXPECT_EQ(bags.text(), "EmbeddingBag(5, 3, mode='sum', padding_idx=4)");
  EXPECT_TRUE(equal(bags.weight.detach()[4], zeros({3})));
  const Tensor rows = tensor<int64_t>({0, 1, 4, 2}), offsets = tensor<int64_t>({0, 3}), factors = rand({4});
  EXPECT_TRUE(equal(bags(rows.view({2, 2})),
                    embedding_bag(rows.view({2, 2}), bags.weight, {.mode = BagMode::sum, .padding_idx = 4})));
  EXPECT_TRUE(equal(bags(rows, offsets),
                    embedding_bag(rows, bags.weight, {.offsets = offsets, .mode = BagMode::sum, .padding_idx = 4})));
  const Tensor weighed = bags(rows, offsets, factors);
  EXPECT_TRUE(equal(
      weighed,
      embedding_bag(rows, bags.weight,
                    {.offsets = offsets, .mode = BagMode::sum, .per_sample_weights = factors, .padding_idx = 4})));
  weighed.sum().backward();
  EXPECT_TRUE(equal(bags.weight.grad()[4], zeros({3})));
  EXPECT_THROW(nn::EmbeddingBag(5, 3, {.padding_idx = 5}), ValueError);
  EXPECT_THROW(nn::EmbeddingBag(5, -3), ValueError);
  EXPECT_THROW(nn::EmbeddingBag(5, 3, {.max_norm = -1})(rows.view({2, 2})), ValueError);
}

TEST(Embedding, PicksRows) {
  const nn::Embedding table(5, 3);
  const Tensor picked = table(tensor({{4, 0}, {4, 1}}));
  EXPECT_EQ(picked.shape(), Dims({2, 2, 3}));
  EXPECT_EQ(picked.select(0, 0).select(0, 0).to_vector<float>(), table.weight.select(0, 4).to_vector<float>());
  EXPECT_THROW(table(tensor({5})), IndexError);
}

TEST(Norms, HaveUnitRows) {
  const Tensor x = randn({4, 64}) * 3 + 1;
  const Tensor y = nn::LayerNorm(64)(x);
  expect_near(mean(y, 1), zeros(4), 1e-5);
  expect_near(var(y, 1, 0), ones(4), 1e-3);
  const Tensor r = nn::RMSNorm(64)(x);
  expect_near(mean(r * r, 1), ones(4), 1e-3);
  EXPECT_EQ(nn::LayerNorm(64, 1e-5, false).parameters().size(), 0u);
}

TEST(Dropout, ObeysTheMode) {
  nn::Dropout layer(0.5);
  const Tensor x = ones(1000);
  const double kept = sum(layer(x)).item<double>() / 1000;
  EXPECT_NEAR(kept, 1, 0.2);
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Sequential, CallsInOrderAndNamesByPosition) {
  nn::Sequential net(
      nn::Linear(2, 4), nn::ReLU(), [](const Tensor& x) { return x * 2; }, nn::Linear(4, 1, false));
  EXPECT_EQ(net.size(), 4u);
  std::vector<std::string> names;
  for (const auto& [name, p] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "3.weight"}));
  EXPECT_EQ(net(ones({5, 2})).shape(), Dims({5, 1}));
  EXPECT_EQ(nn::Sequential()(ones(3)).to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(Sequential, CloneSharesNothing) {
  nn::Sequential net(nn::Linear(2, 2), nn::Dropout(0.9));
  nn::Sequential copy = net.clone();
  const Tensor x = ones({1, 2});
  net.eval();
  copy.eval();
  const auto before = copy(x).to_vector<float>();
  {
    NoGradGuard no_grad;
    for (const Tensor& p : net.parameters()) p.zero_();
  }
  EXPECT_EQ(net(x).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(copy(x).to_vector<float>(), before);
}

TEST(Activations, AreTheOps) {
  const Tensor x = tensor({-1.0, 0.5, 2.0});
  expect_near(nn::ReLU()(x), relu(x), 0);
  expect_near(nn::SiLU()(x), silu(x), 0);
  expect_near(nn::Tanh()(x), tanh(x), 0);
  expect_near(nn::Sigmoid()(x), sigmoid(x), 0);
  expect_near(nn::GELU()(x), gelu(x), 0);
  expect_near(nn::GELU(Approximate::tanh)(x), gelu(x, Approximate::tanh), 0);
}

TEST(TransformerBlock, KeepsShapeAndCausality) {
  manual_seed(7);
  const nn::TransformerBlock block(16, 4);
  const NoGradGuard no_grad;
  const Tensor x = randn({2, 6, 16});
  const Tensor y = block(x);
  EXPECT_EQ(y.shape(), x.shape());
  const Tensor changed = x.clone();
  changed.select(1, 5).fill_(3);
  const Tensor z = block(changed);
  expect_near(z.narrow(1, 0, 5), y.narrow(1, 0, 5), 1e-6);
  EXPECT_GT(max(abs(z - y)).item<float>(), 0.1f);
}

TEST(TransformerBlock, WithoutCausalitySeesAll) {
  const nn::TransformerBlock block(8, 2, {.causal = false});
  const NoGradGuard no_grad;
  const Tensor x = randn({1, 4, 8});
  const Tensor y = block(x);
  const Tensor changed = x.clone();
  changed.select(1, 3).fill_(3);
  EXPECT_GT(max(abs(block(changed) - y).select(1, 0)).item<float>(), 0);
}

TEST(TransformerBlock, NamesAndGradients) {
  const nn::TransformerBlock block(8, 2, {.hidden = 12, .dropout = 0.1});
  std::vector<std::string> names;
  for (const auto& [name, p] : block.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"norm1.weight", "norm1.bias", "attention.qkv.weight", "attention.qkv.bias",
                                             "attention.proj.weight", "attention.proj.bias", "norm2.weight",
                                             "norm2.bias", "up.weight", "up.bias", "down.weight", "down.bias"}));
  EXPECT_EQ(block.up.weight.shape(), Dims({12, 8}));
  block(randn({2, 3, 8})).sum().backward();
  for (const auto& [name, p] : block.named_parameters()) {
    ASSERT_TRUE(p.grad().defined()) << name;
    EXPECT_EQ(p.grad().shape(), p.shape()) << name;
  }
  EXPECT_THROW(block.attention(ones({2, 8})), ShapeError);
  EXPECT_THROW(block.attention(ones({2, 3, 9})), ShapeError);
}

}  // namespace
}  // namespace weft
