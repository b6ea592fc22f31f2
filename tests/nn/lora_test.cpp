#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <weft/io/model.hpp>
#include <weft/nn/open_module.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A small model of two blocks with a head tied to its embedding.
struct Decoder : nn::Layer<Decoder> {
  nn::Embedding token;
  nn::Sequential blocks;
  nn::Linear head;

  explicit Decoder(int64_t width = 8, int64_t vocabulary = 11)
      : token(vocabulary, width), head(width, vocabulary, false) {
    blocks.append(nn::TransformerBlock(width, 2));
    blocks.append(nn::TransformerBlock(width, 2));
    nn::OpenModule(head, "Linear").set_parameter("weight", token.weight);
    head.weight = token.weight;
    WEFT_REGISTER(token, blocks, head);
  }
  Tensor forward(const Tensor& tokens) const { return head(blocks(token(tokens))); }
};

Tensor tokens() { return tensor({{1, 4, 2}, {7, 0, 10}}); }

// Adapters with a nonzero B.
void stir(const nn::Module& model, double deviation = 0.3) {
  const NoGradGuard unrecorded;
  for (const nn::LoraLayer& layer : nn::lora_layers(model)) layer.b.normal_(0, deviation);
}

struct Example {
  nn::LoRALinear layer{2, 2, {.r = 1, .alpha = 2, .bias = false}};
  Example() {
    const NoGradGuard unrecorded;
    layer.weight.copy_(tensor({{1.0, 0.0}, {0.0, 1.0}}));
    const nn::LoraLayer own = nn::lora_layers(layer)[0];
    own.a.copy_(tensor({{1.0, 2.0}}));
    own.b.copy_(tensor({{0.5}, {-1.0}}));
  }
};

TEST(LoRALinear, WorkedExample) {
  const Example e;
  const Tensor x = tensor({1.0, 1.0}).requires_grad_();
  const Tensor y = e.layer(x);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{4, -5}));
  y.sum().backward();
  const nn::LoraLayer own = nn::lora_layers(e.layer)[0];
  EXPECT_EQ(own.a.grad().to_vector<double>(), (std::vector<double>{-1, -1}));
  EXPECT_EQ(own.b.grad().to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, -1}));
  nn::merge_lora(e.layer);
  // W is [in, out] in the formula, and its transpose in the layer.
  EXPECT_EQ(e.layer.weight.t().contiguous().to_vector<double>(), (std::vector<double>{2, -2, 2, -3}));
}

TEST(LoRALinear, StartsAsItsBaseBitForBit) {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    nn::Linear base(7, 5);
    base.to(dtype);
    nn::Linear adapted = base.clone();
    nn::apply_lora(adapted, {.r = 3, .dropout = 0.5, .targets = {""}});
    const Tensor x = randn({4, 7}, dtype);
    EXPECT_EQ(bytes_of(adapted(x)), bytes_of(base(x))) << name(dtype);
    EXPECT_EQ(adapted(x).dtype(), dtype);
  }
}

TEST(LoRALinear, InitialValuesAreInTheirRange) {
  const nn::LoRALinear layer(100, 60, {.r = 16});
  const nn::LoraLayer own = nn::lora_layers(layer)[0];
  const std::vector<double> a = own.a.to_vector<double>();
  const auto [least, most] = std::ranges::minmax(a);
  EXPECT_GE(least, -0.1);
  EXPECT_LE(most, 0.1);
  EXPECT_GT(most - least, 0.19);
  EXPECT_EQ(own.b.abs().sum().item<double>(), 0);
  EXPECT_EQ(own.a.shape(), Dims({16, 100}));
  EXPECT_EQ(own.b.shape(), Dims({60, 16}));
  EXPECT_FALSE(layer.weight.requires_grad());
  EXPECT_FALSE(layer.bias.requires_grad());
  EXPECT_TRUE(own.a.requires_grad() && own.b.requires_grad());
}

TEST(LoRALinear, ScaleFollowsAlphaAndRank) {
  const auto scale = [](const nn::LoraOptions& o) { return nn::lora_layers(nn::LoRALinear(4, 4, o))[0].scale; };
  EXPECT_EQ(scale({.r = 4}), 1);
  EXPECT_EQ(scale({.r = 4, .alpha = 8}), 2);
  EXPECT_EQ(scale({.r = 4, .alpha = 8, .rslora = true}), 4);
  EXPECT_EQ(scale({.r = 9, .rslora = true}), 3);
}

TEST(LoRALinear, RejectsInvalidOptions) {
  EXPECT_THROW(nn::LoRALinear(2, 2, {.r = 0}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.r = -3}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.alpha = std::nan("")}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.dropout = 1}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.lora_plus_scale = 0}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.enable = {false, false}}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.enable = {true, false, true}}), ValueError);
  EXPECT_THROW(nn::LoRALinear(2, 2, {.dtype = i64}), ValueError);
}

// Gradients by the formulas of the paper, with dropout's mask from repeated draws.
TEST(LoRALinear, GradientsAreTheFormulas) {
  manual_seed(3);
  nn::LoRALinear layer(6, 4, {.r = 2, .alpha = 5, .dropout = 0.4});
  layer.to(f64);
  stir(layer);
  const nn::LoraLayer own = nn::lora_layers(layer)[0];
  const Tensor x = randn({3, 6}, f64).requires_grad_(), g = randn({3, 4}, f64);
  const GeneratorState state = default_generator().state();
  const Tensor y = layer(x);
  y.backward(g);
  default_generator().set_state(state);
  const Tensor mask = dropout(ones({3, 6}, f64), 0.4);
  const NoGradGuard unrecorded;
  const double s = own.scale;
  const Tensor in = x * mask, u = matmul(in, own.a.t()), gb = matmul(g, own.b);
  EXPECT_TRUE(allclose(y, linear(x, layer.weight, layer.bias) + s * matmul(u, own.b.t()), 1e-12));
  EXPECT_TRUE(allclose(own.b.grad(), s * matmul(g.t(), u), 1e-12));
  EXPECT_TRUE(allclose(own.a.grad(), s * matmul(gb.t(), in), 1e-12));
  EXPECT_TRUE(allclose(x.grad(), matmul(g, layer.weight) + s * mask * matmul(gb, own.a), 1e-12));
}

TEST(LoRALinear, GradcheckToTheSecondOrder) {
  for (const std::vector<bool>& enable : {std::vector<bool>{}, {true, false, true}}) {
    nn::LoRALinear layer(4, 6, {.r = 2, .alpha = 3, .enable = enable});
    layer.to(f64);
    stir(layer);
    const nn::LoraLayer own = nn::lora_layers(layer)[0];
    const Tensor x = randn({2, 4}, f64).requires_grad_();
    const auto f = [&](std::span<const Tensor> in) { return square(layer(in[0])).sum(); };
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
    const auto loss = [&] { return square(layer(x)).sum(); };
    const std::vector<Tensor> gradients = grad(std::vector{loss()}, std::vector{own.a, own.b});
    for (const auto& [factor, gradient] : {std::pair{own.a, gradients[0]}, std::pair{own.b, gradients[1]}}) {
      const NoGradGuard unrecorded;
      const Tensor flat = factor.detach().flatten(), difference = zeros_like(flat);
      for (int64_t i = 0; i < flat.numel(); ++i) {
        const Tensor place = flat.narrow(0, i, 1);
        const double step = 1e-6, high = (place.add_(step), loss().item<double>());
        const double low = (place.sub_(2 * step), loss().item<double>());
        place.add_(step);
        difference.narrow(0, i, 1).fill_((high - low) / (2 * step));
      }
      EXPECT_TRUE(allclose(gradient.flatten(), difference, 1e-5, 1e-7));
    }
  }
}

TEST(LoRALinear, NoTensorOfTheWeightsSizeIsMade) {
  constexpr int64_t width = 2048;
  const int threads = num_threads();
  set_num_threads(1);  // each may take memory of its own for a panel
  nn::LoRALinear layer(width, width, {.r = 2});
  stir(layer);
  const Tensor x = randn({4, width}).requires_grad_();
  layer(x).sum().backward();  // whatever is made once
  reset_peak();
  const size_t before = memory_stats().allocated;
  layer(x).sum().backward();
  const size_t peak = memory_stats().peak_allocated - before;
  set_num_threads(threads);
  EXPECT_LT(peak, size_t{width} * width * 4 / 4) << "of " << width * width * 4 << " bytes that W has";
}

TEST(Lora, MergeAndUnmergeAreIdempotentAndRestoreBits) {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const nn::LoraBase base : {nn::LoraBase::cpu, nn::LoraBase::disk}) {
      nn::LoRALinear layer(33, 17, {.r = 3, .alpha = 4, .base = base});
      layer.to(dtype);
      stir(layer, 5);
      const std::string bits = bytes_of(layer.weight);
      const nn::LoraLayer own = nn::lora_layers(layer)[0];
      const Tensor x = randn({2, 33}, dtype);
      nn::merge_lora(layer);
      const std::string merged = bytes_of(layer.weight);
      nn::merge_lora(layer);
      EXPECT_EQ(bytes_of(layer.weight), merged);
      EXPECT_TRUE(nn::is_lora_merged(layer));
      nn::unmerge_lora(layer);
      EXPECT_EQ(bytes_of(layer.weight), bits) << name(dtype);
      nn::unmerge_lora(layer);
      EXPECT_EQ(bytes_of(layer.weight), bits);
      EXPECT_FALSE(nn::is_lora_merged(layer));
    }
  }
}

TEST(Lora, MergedAndUnloadedItIsAPlainModel) {
  nn::Sequential model(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 4)),
      plain(nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 4));
  nn::apply_lora(model, {.r = 2, .targets = {"0$", "2$"}});
  stir(model, 3);
  model.eval();
  const Tensor x = randn({5, 6}), adapted = model(x);
  nn::merge_and_unload_lora(model);
  EXPECT_TRUE(nn::lora_layers(model).empty());
  EXPECT_TRUE(allclose(model(x), adapted, 1e-5, 1e-6));
  plain.load_state_dict(model.state_dict());
  EXPECT_TRUE(equal(plain(x), model(x)));
  EXPECT_EQ(nn::apply_lora(model, {.r = 3, .targets = {"0$"}}).size(), 1u) << "and it can be adapted anew";
  EXPECT_TRUE(equal(plain(x), model(x)));
  EXPECT_THROW(nn::merge_and_unload_lora(plain), ValueError);
}

TEST(Lora, TheMergedWeightIsTheSumRoundedOnce) {
  nn::Linear layer(20, 12);
  layer.to(bf16);
  nn::apply_lora(layer, {.r = 4, .alpha = 7, .targets = {""}});
  stir(layer);
  const nn::LoraLayer own = nn::lora_layers(layer)[0];
  EXPECT_EQ(own.a.dtype(), f32) << "adapters of 16-bit weights are float32";
  const NoGradGuard unrecorded;
  const Tensor wanted = (layer.weight.to(f32) + matmul(own.b, own.a) * own.scale).to(bf16);
  nn::merge_lora(layer);
  EXPECT_EQ(bytes_of(layer.weight), bytes_of(wanted));
}

TEST(Lora, RecomputedWeightsDriftByOneUnitAtMost) {
  for (const DType dtype : {f32, bf16}) {
    nn::LoRALinear layer(50, 40, {.r = 2, .base = nn::LoraBase::recompute});
    layer.to(dtype);
    stir(layer, 40);  // far more than W: most bits are lost in the sum
    const Tensor before = layer.weight.detach().clone();
    nn::merge_lora(layer);
    nn::unmerge_lora(layer);
    const Tensor wide = before.to(f64), off = abs(layer.weight.detach().to(f64) - wide);
    // Neighbours differ by at most 2^-23 or 2^-7, relatively.
    const double unit = dtype == f32 ? std::exp2(-23) : std::exp2(-7);
    EXPECT_TRUE((off <= wide.abs() * unit).all().item<bool>()) << name(dtype);
    EXPECT_LT(nn::lora_layers(layer)[0].b.numel(), layer.weight.numel());
  }
}

TEST(Lora, MergedCallsEqualTheSumAndCostNoAdapter) {
  Decoder model;
  nn::apply_lora(model, {.r = 2, .targets = {"qkv$", "up$", "down$"}});
  stir(model);
  model.eval();
  const Tensor apart = model(tokens());
  nn::merge_lora(model);
  const NoGradGuard unrecorded;
  EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5));
}

TEST(Lora, TrainingWhileMergedIsAnError) {
  const Example e;
  nn::merge_lora(e.layer);
  const Tensor x = ones(2);
  EXPECT_THAT(message_of<ValueError>([&] { e.layer(x); }), HasSubstr("merged layer is called in training"));
  {
    const NoGradGuard unrecorded;
    EXPECT_EQ(e.layer(x).to_vector<double>(), (std::vector<double>{4, -5}));
  }
  nn::Module(e.layer).eval();
  EXPECT_EQ(e.layer(x).to_vector<double>(), (std::vector<double>{4, -5}));
}

TEST(Lora, EvalMergesAndTrainTakesApartWhereAsked) {
  nn::LoRALinear layer(5, 4, {.r = 2, .merge_on_eval = true});
  stir(layer);
  const std::string bits = bytes_of(layer.weight);
  layer.eval();
  EXPECT_TRUE(nn::is_lora_merged(layer));
  EXPECT_NE(bytes_of(layer.weight), bits);
  layer.train();
  EXPECT_FALSE(nn::is_lora_merged(layer));
  EXPECT_EQ(bytes_of(layer.weight), bits);
}

TEST(Lora, ApplyReturnsAdaptedLayers) {
  nn::Sequential model(nn::TransformerBlock(8, 2), nn::Tanh(), nn::Linear(8, 3));
  EXPECT_THAT(nn::apply_lora(model, {.r = 2, .targets = {"attention\\.", "^2$"}}),
              ElementsAre("0.attention.qkv", "0.attention.proj", "2"));
  EXPECT_THAT(nn::apply_lora(model, {.r = 2, .targets = {""}}), ElementsAre("0.up", "0.down"))
      << "those that have an adapter, and adapters, are passed over";
  EXPECT_THROW(nn::apply_lora(model, {.targets = {""}}), ValueError);
  EXPECT_THROW(nn::apply_lora(model, {.targets = {"nowhere"}}), ValueError);
  EXPECT_THROW(nn::apply_lora(model, {.targets = {"("}}), ValueError);
  EXPECT_THROW(nn::apply_lora(model, {}), ValueError);
}

TEST(Lora, AnAdapterThatNoForwardWouldReadIsRefused) {
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 6});
  EXPECT_THAT(message_of<ValueError>([&] { nn::apply_lora(layer, {.targets = {"out_proj|linear1"}}); }),
              HasSubstr("\"self_attn.out_proj\" takes no adapter"));
  EXPECT_TRUE(nn::lora_layers(layer).empty());
  EXPECT_THAT(nn::apply_lora(layer, {.targets = {"linear"}}), ElementsAre("linear1", "linear2"));
}

TEST(Lora, ARefusedApplyChangesNothing) {
  nn::Sequential model(nn::Linear(8, 6), nn::Linear(6, 8));
  const std::string before = model.text();
  EXPECT_THROW(nn::apply_lora(model, {.targets = {""}, .enable = {true, false, true, false}}), ValueError)
      << "six outputs have no four parts";
  EXPECT_EQ(model.text(), before);
  EXPECT_TRUE(model[0].as<nn::Linear>().weight.requires_grad());
}

TEST(Lora, OnlyAdaptersTrain) {
  Decoder model;
  nn::apply_lora(model, {.r = 2, .targets = {"qkv$"}});
  const auto trained = [&] {
    std::vector<std::string> out;
    for (const auto& [name, p] : model.named_parameters()) {
      if (p.requires_grad()) out.push_back(name);
    }
    return out;
  };
  nn::mark_only_lora_trainable(model);
  EXPECT_THAT(trained(), ElementsAre("blocks.0.attention.qkv.lora_A.weight", "blocks.0.attention.qkv.lora_B.weight",
                                     "blocks.1.attention.qkv.lora_A.weight", "blocks.1.attention.qkv.lora_B.weight"));
  EXPECT_EQ(nn::lora_parameters(model).size(), 4u);
  nn::mark_only_lora_trainable(model, nn::LoraBias::lora_only);
  EXPECT_EQ(trained().size(), 6u);
  nn::mark_only_lora_trainable(model, nn::LoraBias::all);
  EXPECT_GT(trained().size(), 10u);
  EXPECT_THROW(nn::mark_only_lora_trainable(nn::Linear(2, 2)), ValueError);

  nn::mark_only_lora_trainable(model);
  const nn::StateDict before = model.state_dict();
  std::map<std::string, std::string> bits;
  for (const auto& [name, value] : before) bits[name] = bytes_of(value);
  optim::AdamW optimizer(nn::lora_parameters(model), {.lr = 0.1});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    square(model(tokens())).mean().backward();
    optimizer.step();
  }
  for (const auto& [name, value] : model.state_dict()) {
    EXPECT_EQ(bytes_of(value) != bits[name], name.ends_with("lora_A.weight") || name.ends_with("lora_B.weight"))
        << name;
  }
}

TEST(Lora, TheRateOfBIsItsOwn) {
  nn::LoRALinear layer(4, 4, {.r = 2, .lora_plus_scale = 16});
  const auto groups = nn::lora_parameter_groups(layer, 1e-3);
  ASSERT_EQ(groups.size(), 2u);
  const nn::LoraLayer own = nn::lora_layers(layer)[0];
  EXPECT_EQ(groups[0].lr, 1e-3);
  EXPECT_EQ(groups[1].lr, 1.6e-2);
  EXPECT_EQ(groups[0].parameters.size(), 1u);
  EXPECT_EQ(groups[0].parameters[0].impl(), own.a.impl());
  EXPECT_EQ(groups[1].parameters[0].impl(), own.b.impl());
  EXPECT_EQ(nn::lora_parameter_groups(nn::LoRALinear(4, 4, {.r = 2}), 1e-3).size(), 1u);

  optim::SGD optimizer(groups[0].parameters, {.lr = groups[0].lr});
  optimizer.add_group(groups[1].parameters, {.lr = groups[1].lr});
  own.a.set_grad(ones(own.a.shape()));
  own.b.set_grad(ones(own.b.shape()));
  optimizer.step();
  EXPECT_FLOAT_EQ(own.b.detach().flatten().to_vector<float>()[0], -1.6e-2F);
}

TEST(Lora, TiedWeightsAreAdaptedOnce) {
  Decoder model;
  EXPECT_EQ(model.head.weight.impl(), model.token.weight.impl());
  EXPECT_THAT(nn::apply_lora(model, {.r = 2, .targets = {"token", "head"}}), ElementsAre("token"));
  EXPECT_EQ(nn::lora_layers(model).size(), 1u);
  stir(model);
  model.eval();
  const Tensor apart = model(tokens());
  const nn::LoraLayer own = nn::lora_layers(model)[0];
  const NoGradGuard unrecorded;
  const Tensor w = model.token.weight + own.scale * matmul(own.b, own.a);
  EXPECT_TRUE(allclose(model.token(tokens()), embedding(w, tokens()), 1e-5, 1e-6));
  const Tensor h = randn({3, 8});
  EXPECT_TRUE(allclose(model.head(h), linear(h, w), 1e-4, 1e-5)) << "the head computes with the tables' adapter";
  const std::string bits = bytes_of(model.token.weight);
  nn::merge_lora(model);
  EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5)) << "merged once, not twice";
  nn::unmerge_lora(model);
  EXPECT_EQ(bytes_of(model.token.weight), bits);
}

TEST(Lora, DisabledPartsStayAsTheyAreBitForBit) {
  nn::Linear base(6, 12);
  nn::Linear layer = base.clone();
  nn::apply_lora(layer, {.r = 2, .targets = {""}, .enable = {true, false, true}});
  stir(layer);
  const nn::LoraLayer own = nn::lora_layers(layer)[0];
  EXPECT_EQ(own.a.shape(), Dims({4, 6}));
  EXPECT_EQ(own.b.shape(), Dims({8, 2}));
  const NoGradGuard unrecorded;
  const Tensor x = randn({5, 6}), y = layer(x), plain = base(x);
  EXPECT_EQ(bytes_of(y.narrow(1, 4, 4)), bytes_of(plain.narrow(1, 4, 4)));
  for (const auto& [part, k] : {std::pair{0, 0}, {2, 1}}) {
    const Tensor delta = matmul(matmul(x, own.a.narrow(0, 2 * k, 2).t()), own.b.narrow(0, 4 * k, 4).t());
    EXPECT_TRUE(allclose(y.narrow(1, 4 * part, 4), plain.narrow(1, 4 * part, 4) + delta, 1e-5, 1e-6));
  }
  nn::merge_lora(layer);
  EXPECT_EQ(bytes_of(layer.weight.narrow(0, 4, 4)), bytes_of(base.weight.narrow(0, 4, 4)));
  EXPECT_TRUE(allclose(layer(x), y, 1e-5, 1e-6));
}

TEST(Lora, StateHoldsTheUnmergedWeightAndAFlag) {
  nn::Sequential model(nn::Linear(6, 5), nn::Linear(5, 3));
  nn::apply_lora(model, {.r = 2, .targets = {""}});
  stir(model);
  const nn::StateDict apart = model.state_dict();
  std::map<std::string, std::string> bits;
  for (const auto& [name, value] : apart) bits[name] = bytes_of(value);
  nn::merge_lora(model);
  const nn::StateDict merged = model.state_dict();
  for (const auto& [name, value] : merged) {
    if (name.ends_with("lora_merged")) EXPECT_TRUE(value.item<bool>());
    else EXPECT_EQ(bytes_of(value), bits[name]) << name;
  }

  nn::Sequential other(nn::Linear(6, 5), nn::Linear(5, 3));
  nn::apply_lora(other, {.r = 2, .targets = {""}});
  other.load_state_dict(merged);
  EXPECT_TRUE(nn::is_lora_merged(other));
  EXPECT_EQ(bytes_of(other[0].as<nn::Linear>().weight), bytes_of(model[0].as<nn::Linear>().weight));
  nn::unmerge_lora(other);
  EXPECT_EQ(bytes_of(other[0].as<nn::Linear>().weight), bits["0.weight"]);
}

TEST(Lora, LoadingIntoAMergedModelChangesItsBase) {
  nn::LoRALinear layer(4, 3, {.r = 2});
  stir(layer);
  nn::merge_lora(layer);
  const Tensor fresh = randn({3, 4});
  layer.load_state_dict({{"weight", fresh}}, false);
  EXPECT_TRUE(nn::is_lora_merged(layer));
  EXPECT_NE(bytes_of(layer.weight), bytes_of(fresh));
  nn::unmerge_lora(layer);
  EXPECT_EQ(bytes_of(layer.weight), bytes_of(fresh));
}

TEST(Lora, TheBasesOwnStateFitsTheAdaptedModel) {
  nn::Sequential base(nn::Linear(6, 5), nn::Linear(5, 3)), model = base.clone();
  nn::apply_lora(model, {.r = 2, .targets = {"1"}});
  const nn::LoadReport report = model.load_state_dict(base.state_dict(), false);
  EXPECT_TRUE(report.unexpected.empty());
  EXPECT_THAT(report.missing, testing::UnorderedElementsAre("1.lora_A.weight", "1.lora_B.weight", "1.lora_merged"));
}

TEST(Lora, ClonesHaveAdaptersOfTheirOwn) {
  Decoder model;
  nn::apply_lora(model, {.r = 2, .targets = {"token", "qkv$"}});
  stir(model);
  model.eval();
  const Decoder copy = model.clone();
  EXPECT_EQ(bytes_of(copy(tokens())), bytes_of(model(tokens())));
  stir(model);
  EXPECT_NE(bytes_of(copy(tokens())), bytes_of(model(tokens())));
  const std::string bits = bytes_of(copy.token.weight);
  nn::merge_lora(model);
  EXPECT_FALSE(nn::is_lora_merged(copy));
  EXPECT_EQ(bytes_of(copy.token.weight), bits);
  nn::merge_lora(copy);
  EXPECT_NE(bytes_of(copy.token.weight), bits);
  EXPECT_EQ(nn::lora_layers(copy).size(), nn::lora_layers(model).size());
}

TEST(Lora, AdaptedModelsAreSavedAndLoadedAsAWhole) {
  const TemporaryFolder folder;
  nn::Sequential model(nn::TransformerBlock(8, 2), nn::Linear(8, 3));
  nn::apply_lora(model, {.r = 2, .alpha = 6, .rslora = true, .targets = {"qkv$"}, .enable = {true, false, true}});
  nn::apply_lora(model, {.r = 3, .lora_plus_scale = 2, .targets = {"^1$"}});
  stir(model);
  nn::mark_only_lora_trainable(model);
  nn::merge_lora(model);
  io::save_model(folder / "m", model);
  const nn::AnyModule loaded = io::load_model(folder / "m");
  EXPECT_TRUE(nn::is_lora_merged(loaded));
  nn::unmerge_lora(loaded);
  nn::unmerge_lora(model);
  const auto layers = nn::lora_layers(loaded);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_TRUE(layers[0].options.rslora);
  EXPECT_THAT(layers[0].options.enable, ElementsAre(true, false, true));
  EXPECT_EQ(layers[1].options.lora_plus_scale, 2);
  EXPECT_EQ(nn::lora_parameters(loaded).size(), 4u) << "what is frozen stays so";
  const Tensor x = randn({1, 4, 8});
  EXPECT_EQ(bytes_of(loaded(x)), bytes_of(model(x)));
}

TEST(Lora, AdaptersAreNamedAsPeftNamesThem) {
  Decoder model;
  nn::apply_lora(model, {.r = 2, .targets = {"token", "^blocks\\.0\\.up$"}});
  stir(model);
  const nn::StateDict state = nn::lora_state_dict(model);
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name + value.shape().text());
  EXPECT_THAT(names, ElementsAre("base_model.model.blocks.0.up.lora_A.weight[2, 8]",
                                 "base_model.model.blocks.0.up.lora_B.weight[32, 2]",
                                 "base_model.model.token.lora_embedding_A[2, 11]",
                                 "base_model.model.token.lora_embedding_B[8, 2]"));
  Decoder other;
  nn::apply_lora(other, {.r = 2, .targets = {"token", "^blocks\\.0\\.up$"}});
  nn::load_lora_state_dict(other, state);
  for (const auto& [name, value] : nn::lora_state_dict(other)) EXPECT_EQ(bytes_of(value), bytes_of(state.at(name)));
}

TEST(Lora, AnotherRankIsAnErrorThatListsNames) {
  nn::Sequential model(nn::Linear(6, 5), nn::Linear(5, 3)), other = model.clone();
  nn::apply_lora(model, {.r = 2, .targets = {""}});
  stir(model);
  nn::apply_lora(other, {.r = 3, .targets = {""}});
  const std::string before = bytes_of(nn::lora_layers(other)[0].a);
  const std::string said = message_of<ShapeError>([&] { nn::load_lora_state_dict(other, nn::lora_state_dict(model)); });
  EXPECT_THAT(said, HasSubstr("base_model.model.0.lora_A.weight [2, 6] for [3, 6]"));
  EXPECT_THAT(said, HasSubstr("base_model.model.1.lora_B.weight"));
  EXPECT_EQ(bytes_of(nn::lora_layers(other)[0].a), before);
  nn::Sequential one(nn::Linear(6, 5), nn::Linear(5, 3));
  nn::apply_lora(one, {.r = 2, .targets = {"0"}});
  EXPECT_THAT(message_of<ValueError>([&] { nn::load_lora_state_dict(one, nn::lora_state_dict(model)); }),
              HasSubstr("base_model.model.1.lora_A.weight is not there"));
  EXPECT_THAT(message_of<ValueError>([&] { nn::load_lora_state_dict(model, nn::lora_state_dict(one)); }),
              HasSubstr("is missing"));
}

TEST(Lora, LoadedAdaptersAreMergedAnewWhereTheyWere) {
  nn::LoRALinear layer(4, 3, {.r = 2}), other(4, 3, {.r = 2});
  stir(other);
  const std::string bits = bytes_of(layer.weight);
  nn::merge_lora(layer);
  nn::load_lora_state_dict(layer, nn::lora_state_dict(other));
  EXPECT_TRUE(nn::is_lora_merged(layer));
  EXPECT_NE(bytes_of(layer.weight), bits);
  nn::unmerge_lora(layer);
  EXPECT_EQ(bytes_of(layer.weight), bits);
}

TEST(Lora, MixedPrecisionAndNarrowBases) {
  nn::Linear base(16, 8);
  base.to(bf16);
  nn::apply_lora(base, {.r = 2, .targets = {""}});
  stir(base);
  const nn::LoraLayer own = nn::lora_layers(base)[0];
  base(randn({3, 16}, bf16)).to(f32).sum().backward();
  EXPECT_EQ(own.a.grad().dtype(), f32);

  nn::LoRALinear wide(16, 8, {.r = 2, .dropout = 0.1});
  stir(wide);
  const AutocastGuard mixed(AutocastOptions{.dtype = bf16});
  const Tensor y = wide(randn({3, 16}));
  EXPECT_EQ(y.dtype(), bf16);
  y.to(f32).sum().backward();
  EXPECT_EQ(nn::lora_layers(wide)[0].b.grad().dtype(), f32);
}

TEST(Lora, ModulesMoveWithTheirAdapters) {
  nn::LoRALinear layer(4, 3, {.r = 2});
  stir(layer);
  layer.to(f64);
  EXPECT_EQ(nn::lora_layers(layer)[0].a.dtype(), f64);
  EXPECT_EQ(layer(randn({2, 4}, f64)).dtype(), f64);
  nn::merge_lora(layer);
  layer.to(f32);
  nn::unmerge_lora(layer);
  EXPECT_EQ(layer.weight.dtype(), f32);
}

TEST(Lora, ALayerIsShownWithItsAdapter) {
  const nn::LoRALinear layer(4, 3, {.r = 2});
  EXPECT_EQ(layer.text(),
            "Linear(\n  in_features=4, out_features=3, bias=True\n"
            "  (lora_A): Linear(in_features=4, out_features=2, bias=False)\n"
            "  (lora_B): Linear(in_features=2, out_features=3, bias=False)\n)");
}

}  // namespace
}  // namespace weft
