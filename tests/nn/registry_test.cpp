#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include <weft/io/model.hpp>
#include <weft/nn/draft_heads.hpp>
#include <weft/nn/quantize.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

using nn::AnyModule;
using nn::Config;
using nn::ModuleDescription;
using nn::ModuleRegistry;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A layer and its input; empty for layers without a single tensor input.
struct Sample {
  AnyModule module;
  Tensor input = {};
};

template <int dims>
void add_for_dims(std::vector<Sample>& out) {
  const Tensor x = randn(dims == 1 ? Dims{2, 4, 9} : dims == 2 ? Dims{2, 4, 9, 8} : Dims{2, 4, 6, 7, 8});
  out.push_back({nn::MaxPool<dims>(2, {.stride = 1, .padding = 1, .ceil_mode = true}), x});
  out.push_back({AnyModule::wrap(nn::MaxUnpool<dims>(2, {.padding = 0}))});
  out.push_back({nn::AvgPool<dims>(3, {.count_include_pad = false}), x});
  out.push_back({nn::LPPool<dims>(2, 2), abs(x)});
  out.push_back({nn::AdaptiveAvgPool<dims>(3), x});
  out.push_back({nn::AdaptiveMaxPool<dims>(3), x});
  if constexpr (dims > 1) {
    out.push_back({AnyModule::wrap(nn::FractionalMaxPool<dims>(2, {.output_ratio = {0.5}}))});
  }
  out.push_back({nn::detail::EdgePad<dims, Padding::constant>(1), x});
  out.push_back({nn::detail::EdgePad<dims, Padding::reflect>(2), x});
  out.push_back({nn::detail::EdgePad<dims, Padding::replicate>(1), x});
  out.push_back({nn::detail::EdgePad<dims, Padding::circular>(1), x});
  out.push_back({nn::ConstantPad<dims>(1, 2.5), x});
  out.push_back({nn::ChannelDropout<dims>(0.25), x});
}

template <class Conv, class Transposed, class Batch, class Instance>
void add_networks(std::vector<Sample>& out, const Tensor& x) {
  out.push_back({Conv(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2, .padding_mode = Padding::reflect}), x});
  out.push_back({Conv(4, 6, 3, {.padding = "same", .bias = false}), x});
  out.push_back({Transposed(4, 6, 3, {.stride = 2, .output_padding = 1}), x});
  out.push_back({Batch(4, {.momentum = std::nullopt}), x});
  out.push_back({Instance(4, {.affine = true}), x});
}

std::vector<Sample> layer_samples() {
  const Tensor x = randn({3, 4});
  const Tensor image = randn({2, 4, 6, 6}), indices = tensor({{1, 2}, {0, 4}});
  std::vector<Sample> out;
  const auto add = [&](auto layer, const Tensor& input) { out.push_back({std::move(layer), input}); };
  add(nn::ReLU(), x), add(nn::ReLU6(), x), add(nn::SELU(), x), add(nn::SiLU(), x), add(nn::Mish(), x);
  add(nn::Tanh(), x), add(nn::Sigmoid(), x), add(nn::LogSigmoid(), x), add(nn::Hardsigmoid(), x);
  add(nn::Hardswish(), x), add(nn::Softsign(), x), add(nn::Tanhshrink(), x);
  add(nn::GELU(Approximate::tanh), x), add(nn::ELU(0.5), x), add(nn::CELU(0.5), x), add(nn::LeakyReLU(0.2), x);
  add(nn::Softplus(2, 3), x), add(nn::Softshrink(0.1), x), add(nn::Hardshrink(0.1), x), add(nn::Hardtanh(-2, 0.5), x);
  add(nn::Threshold(0, -0.0), x), add(nn::RReLU(0.1, 0.2), x), add(nn::GLU(1), x), add(nn::Softmax(-1), x);
  add(nn::LogSoftmax(0), x), add(nn::PReLU(4, 0.1), x);
  add(nn::Linear(4, 5), x), add(nn::Linear(4, 5, false), x);
  out.push_back({AnyModule::wrap(nn::Bilinear(3, 4, 2, false))});
  add(nn::Embedding(5, 3, 2), indices), add(nn::Embedding(5, 3), indices);
  add(nn::EmbeddingBag(5, 3, {.mode = BagMode::max, .padding_idx = -1}), indices);
  add(nn::EmbeddingBag(5, 3, {.max_norm = 1.5}), indices);
  add(nn::LayerNorm({4}, 1e-3), x), add(nn::LayerNorm({6, 6}, 1e-5, true, false), image);
  add(nn::LayerNorm({4}, 1e-5, false), x);
  add(nn::RMSNorm({4}), x), add(nn::RMSNorm({4}, 1e-3, false), x);
  add(nn::SelfAttention(4, 2, {.causal = false, .dropout = 0.1}), randn({2, 5, 4}));
  out.push_back({AnyModule::wrap(nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .proj_size = 2}))});
  out.push_back({AnyModule::wrap(nn::GRU(3, 4, {.bias = false, .bidirectional = true}))});
  out.push_back({AnyModule::wrap(nn::RNN(3, 4, {.relu = true, .dropout = 0.5}))});
  out.push_back({AnyModule::wrap(nn::LSTMCell(3, 4))});
  add(nn::GRUCell(4, 3), x), add(nn::RNNCell(4, 3, false, true), x);
  out.push_back({AnyModule::wrap(nn::MultiheadAttention(4, 2, {.add_bias_kv = true, .kdim = 3}))});
  const nn::TransformerLayerOptions small{.dim_feedforward = 6, .activation = nn::TransformerActivation::gelu};
  add(nn::TransformerEncoderLayer(4, 2, small), randn({5, 2, 4}));
  add(nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, small), 2, true), randn({5, 2, 4}));
  out.push_back({AnyModule::wrap(nn::TransformerDecoderLayer(4, 2, small))});
  out.push_back({AnyModule::wrap(nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, small), 2))});
  out.push_back({AnyModule::wrap(nn::Transformer(4, 2, {1, 1, small}))});
  add(nn::TransformerBlock(4, 2, {.hidden = 7, .bias = false}), randn({2, 5, 4}));
  add(nn::MoE(4, 5, 6, {.top_k = 3, .scores = nn::RouterScores::sigmoid, .normalize = false}), randn({2, 5, 4}));
  add(nn::MoE(4, 5, 3,
              {.kind = nn::ExpertKind::gelu, .shared_experts = 2, .capacity_factor = 1.5, .expert_bias = true}),
      randn({2, 5, 4}));
  add(nn::QuantizedLinear(4, 3, {.bits = 4, .group_size = 2}), x), add(nn::Fp8Linear(4, 3, false), x);
  add(nn::GroupNorm(2, 4, 1e-3, false), image), add(nn::LocalResponseNorm(3, 1e-3), image);
  add_networks<nn::Conv1d, nn::ConvTranspose1d, nn::BatchNorm1d, nn::InstanceNorm1d>(out, randn({2, 4, 9}));
  add_networks<nn::Conv2d, nn::ConvTranspose2d, nn::BatchNorm2d, nn::InstanceNorm2d>(out, image);
  add_networks<nn::Conv3d, nn::ConvTranspose3d, nn::BatchNorm3d, nn::InstanceNorm3d>(out, randn({2, 4, 5, 6, 5}));
  add_for_dims<1>(out), add_for_dims<2>(out), add_for_dims<3>(out);
  const Tensor tokens = randint(0, 9, {2, 5});
  add(nn::CausalLM({.vocabulary = 9, .width = 8, .layers = 2, .heads = 2}), tokens);
  add(nn::CausalLM({.vocabulary = 9,
                    .width = 8,
                    .layers = 1,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_dim = 4,
                    .hidden = 6,
                    .context = 7,
                    .rope = {.theta = 50, .scaling = RopeScaling::yarn, .factor = 2, .original_length = 4},
                    .qkv_bias = true,
                    .qk_norm = true,
                    .tied = true,
                    .window = 3}),
      tokens);
  add(nn::CausalLM({.vocabulary = 9,
                    .width = 8,
                    .layers = 1,
                    .heads = 2,
                    .positions = nn::CausalLMPositions::learned,
                    .norm = nn::CausalLMNorm::layer,
                    .mlp = nn::CausalLMMlp::gelu,
                    .out_bias = true,
                    .mlp_bias = true}),
      tokens);
  add(nn::DraftHeads(4, 2), x);
  add(nn::Identity(), x), add(nn::Dropout(0.3), x), add(nn::AlphaDropout(0.3), x), add(nn::FeatureAlphaDropout(0.3), x);
  add(nn::Flatten(0, 1), image), add(nn::Unflatten(1, {2, 2}), x);
  add(nn::Upsample({.scale_factor = {2}, .mode = Interpolation::bilinear, .align_corners = true}), image);
  add(nn::Upsample({.size = {3, 4}}), image);
  add(nn::PixelShuffle(2), image), add(nn::PixelUnshuffle(2), image), add(nn::ChannelShuffle(2), image);
  add(nn::Unfold(2, {.stride = 2}), image), add(nn::Fold({4, 4}, 2, {.stride = 2}), randn({1, 8, 4}));
  out.push_back({AnyModule::wrap(nn::CosineSimilarity(0, 1e-3))});
  out.push_back({AnyModule::wrap(nn::PairwiseDistance(1, 1e-3, true))});
  add(nn::Sequential(nn::Linear(4, 3), nn::ReLU(), nn::Sequential(nn::Linear(3, 2))), x);
  add(nn::Sequential(), x);
  out.push_back({AnyModule::wrap(nn::ModuleList<>{nn::Linear(2, 2), nn::Tanh()})});
  out.push_back({AnyModule::wrap(nn::ModuleDict<>{{"b", nn::Linear(2, 2)}, {"a", nn::Tanh()}})});
  return out;
}

std::vector<Sample> loss_samples() {
  std::vector<Sample> out;
  const auto add = [&](auto loss) { out.push_back({AnyModule::wrap(std::move(loss))}); };
  const Tensor weight = ones(3);
  add(nn::CrossEntropyLoss({.weight = weight, .ignore_index = 2, .label_smoothing = 0.1}));
  add(nn::NLLLoss({.reduction = LossReduction::sum})), add(nn::MSELoss()), add(nn::L1Loss());
  add(nn::HuberLoss({.delta = 2})), add(nn::SmoothL1Loss({.beta = 2}));
  add(nn::BCEWithLogitsLoss({.pos_weight = weight})), add(nn::BCELoss()), add(nn::KLDivLoss({.log_target = true}));
  add(nn::GaussianNLLLoss({.full = true})), add(nn::PoissonNLLLoss({.log_input = false}));
  add(nn::CosineEmbeddingLoss({.margin = 0.5})), add(nn::HingeEmbeddingLoss()), add(nn::MarginRankingLoss());
  add(nn::SoftMarginLoss()), add(nn::MultiMarginLoss({.p = 2})), add(nn::MultiLabelMarginLoss());
  add(nn::MultiLabelSoftMarginLoss()), add(nn::TripletMarginLoss({.p = 1, .swap = true}));
  add(nn::CTCLoss({.blank = 1, .reduction = LossReduction::none}));
  return out;
}

TEST(ModuleRegistry, EveryLayerIsBuiltFromItsDescriptionAndComputesTheSame) {
  std::set<std::string> seen;
  std::vector<Sample> samples = layer_samples();
  for (Sample& loss : loss_samples()) samples.push_back(std::move(loss));
  for (const Sample& sample : samples) {
    seen.insert(sample.module.class_name());
    const std::string text = io::to_json(sample.module);
    SCOPED_TRACE(text);
    AnyModule copy = io::from_json(text);
    EXPECT_EQ(io::to_json(copy), text);
    EXPECT_EQ(copy.text(), sample.module.text());
    copy.load_state_dict(sample.module.state_dict());
    if (!sample.input.defined()) continue;
    manual_seed(3);
    const Tensor expected = sample.module(sample.input);
    manual_seed(3);
    EXPECT_EQ(bytes_of(copy(sample.input)), bytes_of(expected));
  }
  for (const std::string& type : ModuleRegistry::standard().types()) EXPECT_TRUE(seen.contains(type)) << type;
}

// A module of the user's own, in its second version: "hidden" was "size", and "scale" is new.
struct Net : nn::Layer<Net> {
  explicit Net(int64_t hidden_) : first(3, hidden_), second(hidden_, 2), scale(ones(2)) {
    WEFT_REGISTER(first, second, scale);
    set_config({{"hidden", hidden_}});
  }
  Tensor forward(const Tensor& x) const { return second(tanh(first(x))) * scale; }
  nn::Linear first, second;
  nn::Parameter scale;
};

Net make_net(const Config& config) { return Net(config.get<int64_t>("hidden")); }

ModuleRegistry with_net(int64_t version = 1) {
  ModuleRegistry registry = ModuleRegistry::standard();
  registry.add<Net>("Net", make_net, version);
  return registry;
}

TEST(ModuleRegistry, BuildsAUsersModuleWithDtypesFrozenParametersAndTraining) {
  const Net net(4);
  net.first.weight.requires_grad_(false);
  nn::Module(net.second).to(DType::bf16);
  nn::Module(net.second).eval();
  const ModuleRegistry registry = with_net();
  const ModuleDescription description = registry.describe(net);
  const AnyModule copy = registry.build(description);
  EXPECT_EQ(io::to_json(copy, registry), io::to_json(net, registry));
  const Net& as_net = copy.as<Net>();
  EXPECT_FALSE(as_net.first.weight.requires_grad());
  EXPECT_TRUE(as_net.first.bias.requires_grad());
  EXPECT_EQ(as_net.second.weight.dtype(), DType::bf16);
  EXPECT_FALSE(as_net.second.is_training());
  EXPECT_TRUE(as_net.is_training());
  EXPECT_NE(as_net.first.weight.data_ptr(), net.first.weight.data_ptr());
}

TEST(ModuleRegistry, AnUnknownTypeIsAKeyErrorWithItsPath) {
  const nn::Sequential net(nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 3), Net(2)));
  const std::string text = io::to_json(net);
  EXPECT_THAT(message_of<KeyError>([&] { (void)io::from_json(text); }),
              AllOf(HasSubstr("1.1"), HasSubstr("no type \"Net\"")));
  EXPECT_EQ(io::to_json(io::from_json(text, with_net()), with_net()), text);
}

TEST(ModuleRegistry, ASharedModuleIsOneModuleAgain) {
  const nn::Linear shared(3, 3);
  const nn::Sequential net(shared, nn::Tanh(), shared);
  const std::string text = io::to_json(net);
  EXPECT_THAT(text, HasSubstr("\"shared_with\": \"0\""));
  const AnyModule copy = io::from_json(text);
  EXPECT_EQ(copy.parameters().size(), 2u);
  EXPECT_EQ(io::to_json(copy), text);
  const auto& layers = copy.as<nn::Sequential>();
  EXPECT_TRUE(layers[0].same_as(layers[2]));
}

ModuleDescription changed(const nn::Module& module, const std::function<void(ModuleDescription&)>& change) {
  ModuleDescription description = with_net().describe(module);
  change(description);
  return description;
}

std::string refusal(const nn::Module& module, const std::function<void(ModuleDescription&)>& change) {
  return message_of<FormatError>([&] { (void)with_net().build(changed(module, change)); });
}

TEST(ModuleRegistry, ADescriptionThatTheClassDoesNotFitIsRefusedWithItsPath) {
  const nn::Sequential net(nn::Linear(3, 4), Net(4));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].config.remove("in_features"); }),
              AllOf(HasSubstr("0: no Linear can be made"), HasSubstr("there is no option \"in_features\"")));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].config.set("in_features", "3"); }),
              HasSubstr("option \"in_features\": expected an integer, got '3'"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].config.set("in_features", -1); }), HasSubstr("at least 0"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].config.set("colour", 1); }),
              HasSubstr("0: a Linear has no option \"colour\""));
  EXPECT_THAT(refusal(net,
                      [](auto& d) {
                        d.children[0].parameters[0].shape = {4, 5};
                      }),
              HasSubstr("0.weight: it is described as [4, 5], and is [4, 3]"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].parameters.pop_back(); }),
              HasSubstr("\"bias\" is not described"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].parameters[1].name = "b"; }), HasSubstr("it has no \"b\""));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].parameters[0].dtype = DType::i32; }), HasSubstr("int32"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[0].parameters[0].tied_to = "x"; }), HasSubstr("tied"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[1].children[1].type = "Tanh"; }),
              HasSubstr("1.second: it is described as a Tanh, and is a Linear"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[1].children.pop_back(); }),
              HasSubstr("\"second\" is not described"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[1].children[0].config.set("out_features", 5); }),
              HasSubstr("1.first: option \"out_features\" is 5, and would be 4"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[1].shared_with = "9"; }), HasSubstr("no module \"9\" to share"));
  EXPECT_THAT(refusal(net, [](auto& d) { d.children[1].name = "5"; }), HasSubstr("it has no \"5\""));
}

TEST(ModuleRegistry, UnlistedOptionsAcceptAnyValue) {
  const AnyModule net = ModuleRegistry::standard().build(
      {.type = "Sequential",
       .children = {{.name = "0", .type = "Linear", .config = {{"in_features", 2}, {"out_features", 3}}},
                    {.name = "1", .type = "Softplus", .config = {{"beta", 2}}},
                    {.name = "2", .type = "AvgPool1d", .config = {{"kernel_size", 3}, {"stride", {}}}}}});
  EXPECT_EQ(net(ones({1, 2})).shape(), Dims({1, 1}));
}

// ---- migrations ----

ModuleRegistry second_version() {
  ModuleRegistry registry = with_net(2);
  registry.add_migration("Net", 1, [](ModuleDescription& d) {
    d.config.rename("size", "hidden");
    d.children[0].name = "first";
    d.parameters.push_back({.name = "scale", .shape = {2}});
  });
  return registry;
}

ModuleDescription first_version() {
  return {.type = "Net",
          .config = {{"size", 4}},
          .children = {{.name = "input", .type = "Linear"}, {.name = "second", .type = "Linear"}}};
}

TEST(ModuleRegistry, AMigrationLeadsToTheNextVersion) {
  const ModuleRegistry registry = second_version();
  const ModuleDescription now = registry.migrated(first_version());
  EXPECT_EQ(now.version, 2);
  EXPECT_EQ(registry.build(now).as<Net>().first.weight.shape(), Dims({4, 3}));
}

TEST(ModuleRegistry, SeveralMigrationsOfOneVersionAndOfOneTypeRunInOrder) {
  std::string order;
  ModuleRegistry registry = ModuleRegistry::standard();
  registry.add<Net>("Net", make_net, 4);
  for (int64_t from : {1, 2, 3}) {
    for (const char* name : {"a", "b"}) {
      registry.add_migration("Net", from, [&order, from, name](ModuleDescription& d) {
        EXPECT_EQ(d.version, from);
        order += std::to_string(from) + name;
      });
    }
  }
  EXPECT_EQ(registry.migrated({.type = "Net"}).version, 4);
  EXPECT_EQ(order, "1a1b2a2b3a3b");
  order.clear();
  EXPECT_EQ(registry.migrated({.type = "Net", .version = 3}).version, 4);
  EXPECT_EQ(order, "3a3b");
}

TEST(ModuleRegistry, AMigrationMayReplaceTheTypeAndContinuesWithIt) {
  ModuleRegistry registry = second_version();
  registry.add_migration("OldNet", 7, [](ModuleDescription& d) {
    d.type = "Net";
    d.version = 1;
    d.config.set("size", d.config.get<int64_t>("width"));
    d.config.remove("width");
  });
  ModuleDescription old = first_version();
  old.type = "OldNet";
  old.version = 7;
  old.config = {{"width", 6}};
  EXPECT_EQ(registry.build(registry.migrated(old)).as<Net>().first.weight.shape(), Dims({6, 3}));
}

TEST(ModuleRegistry, AMigrationReachesModulesBelowAndTheirArrays) {
  // kernel_size was a list of 32-bit integers.
  ModuleRegistry registry;
  registry.add_container("Sequential", [](const Config&, const ModuleRegistry::Children& children) -> AnyModule {
    nn::Sequential all;
    for (const auto& [name, child] : children) all.append(child);
    return all;
  });
  registry.add<nn::MaxPool2d>(
      "MaxPool2d", [](const Config& c) { return nn::MaxPool2d(c.get<Dims>("kernel_size")); }, 2);
  registry.add_migration("MaxPool2d", 1, [](ModuleDescription& d) {
    d.config.set("kernel_size", d.config.find("kernel_size")->as(nn::Attribute::Type::i64s));
  });
  const ModuleDescription old{
      .type = "Sequential",
      .children = {{.name = "0", .type = "MaxPool2d", .config = {{"kernel_size", std::vector<int32_t>{2, 3}}}}}};
  const ModuleDescription now = registry.migrated(old);
  EXPECT_EQ(*now.children[0].config.find("kernel_size"), nn::Attribute(Dims{2, 3}));
  EXPECT_EQ(registry.build(now)(ones({1, 1, 4, 6})).shape(), Dims({1, 1, 2, 2}));
}

TEST(ModuleRegistry, VersionsThatLeadNowhereAreVersionErrors) {
  const auto refusal_of = [](const ModuleRegistry& registry, int64_t version) {
    return message_of<VersionError>([&] { (void)registry.migrated({.type = "Net", .version = version}); });
  };
  EXPECT_THAT(refusal_of(with_net(2), 3), HasSubstr("Net of version 3 is newer than 2"));
  EXPECT_THAT(refusal_of(with_net(2), 1), HasSubstr("Net of version 1 has no migration to 2"));
  EXPECT_THAT(refusal_of(with_net(2), 0), HasSubstr("was written while it was still changing"));
  EXPECT_EQ(with_net(2).migrated({.type = "Net", .version = 0}, true).version, 2);
  EXPECT_EQ(with_net(0).migrated({.type = "Net", .version = 0}).version, 0);
  ModuleRegistry circle = with_net(3);
  circle.add_migration("Net", 1, [](ModuleDescription& d) { d.version = 2; });
  circle.add_migration("Net", 2, [](ModuleDescription& d) { d.version = 1; });
  EXPECT_THAT(refusal_of(circle, 1), HasSubstr("no end of migrations"));
}

TEST(ModuleRegistry, RejectsInvalidRegistrations) {
  ModuleRegistry registry = with_net();
  EXPECT_THROW(registry.add<Net>("Net", make_net), ValueError);
  EXPECT_THROW(registry.add<Net>("", make_net), ValueError);
  EXPECT_THROW(registry.add<Net>("Other", make_net, -1), ValueError);
  EXPECT_THROW(registry.add_migration("Net", 0, [](ModuleDescription&) {}), ValueError);
  EXPECT_THROW(registry.add_migration("Net", 1, nullptr), ValueError);
  EXPECT_FALSE(ModuleRegistry::standard().contains("Net"));
  ModuleRegistry copy = registry;
  copy.add<Net>("Copied", make_net);
  EXPECT_FALSE(registry.contains("Copied"));
}

TEST(ModuleRegistry, TreesBeyondTwoHundredLevelsAreRefused) {
  nn::Sequential deep;
  for (int i = 0; i < 250; ++i) {
    nn::Sequential outer;
    outer.append(deep);
    deep = outer;
  }
  EXPECT_THROW((void)ModuleRegistry::standard().describe(deep), ValueError);
}

TEST(AnyModule, CallingAModuleOfOtherArgumentsRaises) {
  const AnyModule loss = AnyModule::wrap(nn::MSELoss());
  EXPECT_EQ(loss.as<nn::MSELoss>()(ones(2), zeros(2)).item<float>(), 1);
  EXPECT_THAT(message_of<ValueError>([&] { loss(ones(2)); }),
              AllOf(HasSubstr("a MSELoss is not called with one tensor alone"), HasSubstr("registry_test.cpp")));
}

}  // namespace
}  // namespace weft
