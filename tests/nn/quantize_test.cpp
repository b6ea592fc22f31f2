#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/model.hpp>
#include <weft/nn/open_module.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using Names = std::vector<std::string>;

struct Mlp : nn::Layer<Mlp> {
  nn::Linear up{40, 64}, down{64, 8, false};
  Mlp() { WEFT_REGISTER(up, down); }
  Tensor forward(const Tensor& x) const { return down(relu(up(x))); }
};

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>(); }

TEST(Quantize, ReplacesTheWeightsThatATargetFindsAndNoOthers) {
  manual_seed(1);
  Mlp model;
  const Tensor x = randn({3, 40}), before = model(x);
  EXPECT_THAT(nn::quantize(model, {.targets = {"^up$"}}), ElementsAre("up"));
  EXPECT_EQ(model.up.class_name(), "QuantizedLinear");
  EXPECT_EQ(model.down.class_name(), "Linear");
  Names names;
  for (const auto& [name, tensor] : model.state_dict()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("down.weight", "up.bias", "up.codes", "up.scale"));
  EXPECT_EQ(model.parameter_count(), 64 + 64 * 8);
  EXPECT_EQ(model.up.weight.shape(), (Dims{0, 40}));
  EXPECT_EQ(model.state_dict().at("up.codes").dtype(), i8);
  const double error = largest_difference(model(x), before);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.02);
}

TEST(Quantize, SkipsWeightsThatAttentionReads) {
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0});
  const Tensor x = randn({3, 2, 8}), before = layer(x);
  EXPECT_EQ(nn::quantize(layer), (std::vector<std::string>{"linear1", "linear2"}));
  EXPECT_LT((layer(x) - before).abs().max().item<double>(), 0.2);
  const nn::MultiheadAttention attention(8, 2);
  EXPECT_THROW(nn::quantize(attention), ValueError);
  EXPECT_THROW(nn::convert_to_fp8(attention), ValueError);
}

TEST(Quantize, EqualsTheOp) {
  manual_seed(2);
  for (const bool symmetric : {true, false}) {
    nn::Linear layer(40, 6);
    const QuantizedWeight w = quantize_weight(layer.weight, {4, 8, symmetric});
    const Tensor bias = layer.bias.detach().clone(), x = randn({5, 40});
    nn::quantize(layer, {.bits = 4, .group_size = 8, .symmetric = symmetric});
    const Tensor expected = quantized_linear(x, w.codes, w.scale, {w.zero, bias, 4, 8});
    EXPECT_EQ(layer(x).to_vector<float>(), expected.to_vector<float>());
    const Tensor half = layer(x.to(bf16));
    EXPECT_EQ(half.dtype(), bf16);
    const AutocastGuard mixed(AutocastOptions{.dtype = bf16});
    EXPECT_EQ(layer(x).to_vector<float>(), half.to_vector<float>());
  }
}

TEST(Quantize, LeavesWeightsThatAreTiedToATableAlone) {
  nn::Embedding table(11, 8);
  nn::Linear head(8, 11, false);
  nn::OpenModule(head, "Linear").set_parameter("weight", table.weight);
  head.weight = table.weight;
  struct Tied : nn::Layer<Tied> {
    nn::Embedding table;
    nn::Linear head;
    Tied(const nn::Embedding& t, const nn::Linear& h) : table(t), head(h) { WEFT_REGISTER(table, head); }
    Tensor forward(const Tensor& tokens) const { return head(table(tokens)); }
  } model(table, head);
  const Tensor tokens = tensor({1, 4}), before = model(tokens);
  nn::quantize(model);
  EXPECT_EQ(table.weight.shape(), (Dims{11, 8}));
  EXPECT_LT(largest_difference(model(tokens), before), 0.2);
}

TEST(Quantize, StateIsSavedAndLoadedIntoAModelThatWasQuantisedAlike) {
  manual_seed(3);
  Mlp model, other;
  const nn::QuantizeOptions options{.bits = 4, .group_size = 16, .symmetric = false};
  nn::quantize(model, options);
  nn::quantize(other, options);
  const Tensor x = randn({3, 40});
  EXPECT_NE(model(x).to_vector<float>(), other(x).to_vector<float>());
  other.load_state_dict(model.state_dict());
  EXPECT_EQ(model(x).to_vector<float>(), other(x).to_vector<float>());
  Mlp plain;
  EXPECT_THROW(plain.load_state_dict(model.state_dict()), ValueError);
}

TEST(Quantize, AModelOfLayersIsSavedWithItsFormatsAndBuiltAgain) {
  manual_seed(4);
  nn::Sequential model(nn::Linear(40, 16), nn::ReLU(), nn::Linear(16, 4, false));
  nn::quantize(model, {.targets = {"0"}, .bits = 4, .group_size = 8});
  nn::convert_to_fp8(model, {"2"});
  const TemporaryFolder folder;
  io::save_model(folder.path() / "model", model);
  const nn::AnyModule loaded = io::load_model(folder.path() / "model");
  const Tensor x = randn({3, 40});
  EXPECT_EQ(loaded(x).to_vector<float>(), model(x).to_vector<float>());
  EXPECT_EQ(loaded.text(), model.text());
}

TEST(Quantize, ClonesShareNothing) {
  nn::Linear layer(8, 4);
  nn::quantize(layer);
  nn::Linear copy = layer.clone();
  const Tensor x = randn({2, 8}), before = copy(x);
  const NoGradGuard unrecorded;
  layer.state_dict().at("scale").fill_(0);
  EXPECT_EQ(copy(x).to_vector<float>(), before.to_vector<float>());
  EXPECT_NE(layer(x).to_vector<float>(), before.to_vector<float>());
}

TEST(Quantize, RefusesAndThenNothingWasChanged) {
  Mlp model;
  EXPECT_THROW(nn::quantize(model, {.targets = {"nothing"}}), ValueError);
  EXPECT_THROW(nn::quantize(model, {.targets = {"("}}), ValueError);
  EXPECT_THROW(nn::quantize(model, {.bits = 5}), ValueError);
  {
    const NoGradGuard unrecorded;
    model.down.weight.fill_(NAN);
  }
  EXPECT_THROW(nn::quantize(model), ValueError);
  EXPECT_EQ(model.up.class_name(), "Linear");
  EXPECT_EQ(model.up.weight.shape(), (Dims{64, 40}));
  Mlp twice;
  nn::quantize(twice);
  EXPECT_THROW(nn::quantize(twice), ValueError);
  EXPECT_THROW(nn::convert_to_fp8(twice), ValueError);
}

TEST(QuantizedLinear, PassesGradientsToItsInput) {
  manual_seed(5);
  nn::QuantizedLinear layer(12, 5, {.bits = 8, .group_size = 4});
  const Tensor x = randn({3, 12}).requires_grad_();
  layer(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(layer.bias.grad().defined());
}

// ---- 8-bit floats ---------------------------------------------------------------------------------------------------

TEST(Fp8Linear, IsCloseToALinearForwardAndBackward) {
  manual_seed(6);
  for (const DType dtype : {f32, bf16}) {
    for (const auto& [rows, in, out] :
         std::vector<std::array<int64_t, 3>>{{5, 40, 24}, {150, 260, 130}, {128, 128, 128}}) {
      nn::Linear plain(in, out);
      nn::Linear low = plain.clone();
      EXPECT_EQ(nn::convert_to_fp8(low).size(), 1u);
      const Tensor data = randn({2, rows, in}).to(dtype), g = randn({2, rows, out}).to(dtype);
      const Tensor x = data.clone().requires_grad_(), y = data.to(f32).requires_grad_();
      const Tensor result = low(x), expected = plain(y);
      EXPECT_EQ(result.dtype(), dtype);
      EXPECT_EQ(low.weight.dtype(), f32);
      result.backward(g);
      expected.backward(g.to(f32));
      const auto error = [](const Tensor& a, const Tensor& b) {
        return (norm(a.to(f32) - b) / norm(b)).item<double>();
      };
      EXPECT_LT(error(result, expected), 0.05);
      EXPECT_LT(error(x.grad(), y.grad()), 0.05);
      EXPECT_LT(error(low.weight.grad(), plain.weight.grad()), 0.05);
      EXPECT_LT(error(low.bias.grad(), plain.bias.grad()), 0.01);
      EXPECT_GT(error(result, expected), 1e-4) << "nothing was computed in 8-bit floats";
      EXPECT_EQ(low.weight.grad().dtype(), f32);
    }
  }
}

TEST(Fp8Linear, KeepsCodesOfItsInputForBackwardAndNotTheInput) {
  const nn::Fp8Linear layer(16, 8);
  Tensor x = randn({4, 16});
  const Tensor y = layer(x);
  {
    const NoGradGuard unrecorded;
    x.fill_(0);
  }
  y.sum().backward();
  EXPECT_GT(norm(layer.weight.grad()).item<double>(), 0);
}

TEST(Fp8Linear, ComputesOnlyTheGradientsThatAreWanted) {
  nn::Fp8Linear layer(16, 8);
  layer.weight.requires_grad_(false);
  const Tensor x = randn({4, 16}).requires_grad_();
  layer(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(layer.weight.grad().defined());
  EXPECT_THROW(layer(x).sum().backward({}, {.create_graph = true}), NotImplementedError);
}

TEST(Fp8Linear, SavesAndLoadsAsALinear) {
  nn::Linear plain(16, 8);
  nn::Fp8Linear low(16, 8);
  low.load_state_dict(plain.state_dict());
  EXPECT_EQ(low.weight.to_vector<float>(), plain.weight.to_vector<float>());
  EXPECT_THROW(low(randn({2, 15})), ShapeError);
  EXPECT_EQ(low(zeros({0, 16})).shape(), (Dims{0, 8}));
}

}  // namespace
}  // namespace weft
