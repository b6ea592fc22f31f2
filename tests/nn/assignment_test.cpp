// Assigning to a registered member replaces it in the module, in its copies and in all that the registry gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collected_warnings.hpp"
#include "message_of.hpp"

#include <weft/nn/batch_norm.hpp>
#include <weft/nn/lora.hpp>
#include <weft/nn/open_module.hpp>
#include <weft/nn/parameter_list.hpp>
#include <weft/nn/parametrize.hpp>
#include <weft/nn/quantize.hpp>
#include <weft/nn/registry.hpp>
#include <weft/nn/summary.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/optim/optimizers.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : module.named_parameters()) out.push_back(name);
  return out;
}

std::vector<std::string> saved_names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : module.state_dict()) out.push_back(name);
  return out;
}

struct Net : nn::Layer<Net> {
  nn::Linear body{4, 4}, fc{4, 3};
  nn::Parameter scale{ones(3)};
  nn::Buffer shift{zeros(3)};
  nn::Parameter gate;
  Net() { WEFT_REGISTER(body, fc, scale, shift, gate); }
  Tensor forward(const Tensor& x) const {
    const Tensor y = fc(body(x)) * scale + shift;
    return gate.defined() ? y * gate : y;
  }
};

struct Gpt : nn::Layer<Gpt> {
  nn::Embedding token{5, 4};
  nn::Linear body{4, 4}, head{4, 5, false};
  Gpt() { WEFT_REGISTER(token, body, head); }
  Tensor forward(const Tensor& x) const { return head(body(token(x))); }
};

bool agree(const Tensor& a, const Tensor& b) { return equal(a, b); }

// ---- tying ----

TEST(Assignment, OfAnotherMembersParameterTiesThem) {
  Gpt net;
  net.head.weight = net.token.weight;
  EXPECT_THAT(names(net), ElementsAre("token.weight", "body.weight", "body.bias"));
  EXPECT_THAT(saved_names(net), ElementsAre("body.bias", "body.weight", "token.weight"));
  EXPECT_EQ(nn::ModuleRegistry::standard().describe(net).children[2].parameters[0].tied_to, "token.weight");
  EXPECT_EQ(net.parameter_count(), 20 + 16 + 4);

  const Tensor x = tensor<int64_t>({0, 3});
  net(x).sum().backward();
  const Tensor both = net.token.weight.grad();
  ASSERT_TRUE(both.defined());
  EXPECT_EQ(net.head.weight.grad().impl(), both.impl());
  EXPECT_GT(both[4].abs().sum().item<float>(), 0);  // of the head alone
  net.zero_grad();
  EXPECT_FALSE(net.head.weight.grad().defined());

  net.to(f64);
  EXPECT_EQ(net.head.weight.impl(), net.token.weight.impl());
  EXPECT_EQ(net.head.weight.dtype(), f64);
  EXPECT_EQ(net(x).dtype(), f64);

  Gpt other;
  other.head.weight = other.token.weight;
  other.to(f64);
  other.load_state_dict(net.state_dict());
  EXPECT_EQ(other.head.weight.impl(), other.token.weight.impl());
  EXPECT_TRUE(agree(other(x), net(x)));

  const Gpt copy = net.clone();
  EXPECT_EQ(copy.head.weight.impl(), copy.token.weight.impl());
  EXPECT_NE(copy.head.weight.impl(), net.head.weight.impl());
  EXPECT_EQ(copy.parameters().size(), 3u);
}

TEST(Assignment, TiedClonesAreTiedOnTheirOwn) {
  Gpt net;
  Gpt copy = net.clone();
  copy.head.weight = copy.token.weight;
  EXPECT_EQ(copy.parameters().size(), 3u);
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_NE(net.head.weight.impl(), net.token.weight.impl());
}

TEST(Assignment, OfAModuleSharesIt) {
  Net net;
  struct Pair : nn::Layer<Pair> {
    nn::Linear a{2, 2}, b{2, 2};
    Pair() { WEFT_REGISTER(a, b); }
    Tensor forward(const Tensor& x) const { return b(a(x)); }
  } pair;
  pair.b = pair.a;
  EXPECT_THAT(names(pair), ElementsAre("a.weight", "a.bias"));
  EXPECT_EQ(nn::ModuleRegistry::standard().describe(pair).children[1].shared_with, "a");
  pair.b.weight = nn::Parameter(eye(2));
  EXPECT_EQ(pair.a.weight.impl(), pair.b.weight.impl());
  EXPECT_EQ(pair.parameters()[0].impl(), pair.a.weight.impl());
}

// ---- replacing ----

class Replacing : public testing::Test {
 protected:
  CollectedWarnings collected;
};

TEST_F(Replacing, AModuleReachesTheRegistryAndItsCopies) {
  Net net;
  const Net copy = net;
  net.eval();
  net.fc = nn::Linear(4, 2);
  net.scale = ones(2);
  net.shift = zeros(2);
  EXPECT_THAT(names(net), ElementsAre("scale", "body.weight", "body.bias", "fc.weight", "fc.bias"));
  EXPECT_EQ(net.parameters()[3].impl(), net.fc.weight.impl());
  EXPECT_EQ(net.state_dict().at("fc.weight").shape(), Dims({2, 4}));
  EXPECT_THAT(net.text(), HasSubstr("out_features=2"));
  EXPECT_THAT(nn::summary(net, randn({1, 4})).text(), HasSubstr("[1, 2]"));
  const Tensor x = randn({3, 4});
  const Tensor y = net(x);
  EXPECT_EQ(y.shape(), Dims({3, 2}));
  EXPECT_TRUE(agree(copy(x), y));
  EXPECT_EQ(copy.fc.weight.impl(), net.fc.weight.impl());
  EXPECT_EQ(copy.shift.impl(), net.shift.impl());

  net.train();
  EXPECT_TRUE(copy.fc.is_training());
  net.eval();
  EXPECT_FALSE(net.fc.is_training());
  net.to(f64);
  EXPECT_EQ(net(x.to(f64)).dtype(), f64);
  EXPECT_EQ(copy(x.to(f64)).dtype(), f64);
  net.requires_grad_(false);
  EXPECT_FALSE(copy.fc.weight.requires_grad());
  EXPECT_THAT(collected.texts, ElementsAre());
}

TEST_F(Replacing, AModuleOfACopyReachesTheFirst) {
  Net net;
  Net copy = net;
  copy.fc = nn::Linear(4, 3);
  copy.fc.weight = zeros({3, 4});
  EXPECT_EQ(net.fc.weight.impl(), copy.fc.weight.impl());
  EXPECT_TRUE(agree(net(ones({1, 4})), copy(ones({1, 4}))));
  EXPECT_EQ(net.parameters()[3].impl(), copy.fc.weight.impl());
}

TEST_F(Replacing, AnOptimizerMadeAfterwardsTrainsTheNewTensor) {
  Net net;
  net.fc.weight = nn::Parameter(zeros({3, 4}));
  optim::SGD opt(net.parameters(), {.lr = 0.1});
  net(ones({2, 4})).sum().backward();
  opt.step();
  EXPECT_GT(net.fc.weight.abs().sum().item<float>(), 0);
}

TEST_F(Replacing, KeepsTheFlagsOfTheNewTensor) {
  Net net;
  nn::Parameter frozen(zeros({3, 4}));
  frozen.requires_grad_(false);
  net.fc.weight = frozen;
  EXPECT_FALSE(net.parameters()[3].requires_grad());
  net.fc.weight = zeros({3, 4});
  EXPECT_TRUE(net.parameters()[3].requires_grad());
}

TEST_F(Replacing, AnUndefinedOneTakesTheMemberAwayAndBack) {
  Net net;
  const Net copy = net;
  net.scale = {};
  EXPECT_THAT(names(net), ElementsAre("body.weight", "body.bias", "fc.weight", "fc.bias"));
  EXPECT_FALSE(copy.scale.defined());
  net.body.bias = {};
  EXPECT_EQ(net.body(ones({1, 4})).shape(), Dims({1, 4}));
  net.gate = ones(3);
  net.scale = ones(3);
  net.body.bias = zeros(4);
  EXPECT_THAT(names(net),
              ElementsAre("scale", "gate", "body.weight", "body.bias", "fc.weight", "fc.bias"));  // as registered
  EXPECT_EQ(copy.gate.impl(), net.gate.impl());
  net.shift = {};
  EXPECT_EQ(net.buffers().size(), 0u);
  net.shift = zeros(3);
  EXPECT_THAT(saved_names(net), testing::Contains("shift"));
}

TEST_F(Replacing, HandlesOfAParameterAreTheirOwn) {
  Net net;
  const auto before = net.fc.weight;
  auto handle = net.fc.weight;
  nn::Linear layer = net.fc;
  net.fc.weight = zeros({3, 4});
  EXPECT_NE(before.impl(), net.fc.weight.impl());
  EXPECT_EQ(layer.weight.impl(), net.fc.weight.impl());  // a copy of the module, not of a tensor
  handle = ones({3, 4});
  EXPECT_EQ(net.fc.weight.sum().item<float>(), 0);
  layer = nn::Linear(4, 3);
  EXPECT_EQ(net.fc.weight.sum().item<float>(), 0);
  net.fc.weight = before;
  EXPECT_EQ(net.parameters()[3].impl(), before.impl());
  EXPECT_EQ(net.fc.weight.impl(), before.impl());
}

TEST_F(Replacing, AWholeNetLeavesTheOldOneAlone) {
  Net a, b;
  const Net first = a;
  a = b;
  a.fc = nn::Linear(4, 3);
  a.scale = zeros(3);
  EXPECT_EQ(b.fc.weight.impl(), a.fc.weight.impl());
  EXPECT_EQ(b.scale.impl(), a.scale.impl());
  EXPECT_NE(first.fc.weight.impl(), a.fc.weight.impl());
  EXPECT_EQ(first.parameters()[3].impl(), first.fc.weight.impl());
}

TEST_F(Replacing, WorksWhereAModuleWasMoved) {
  std::vector<Net> nets;
  for (int i = 0; i < 5; ++i) nets.emplace_back();
  nets.erase(nets.begin());
  for (Net& net : nets) {
    net.fc.weight = zeros({3, 4});
    net.body = nn::Linear(4, 4);
    EXPECT_EQ(net.parameters()[3].impl(), net.fc.weight.impl());
    EXPECT_EQ(net.parameters()[1].impl(), net.body.weight.impl());
  }
}

TEST_F(Replacing, MembersThatAreSwappedOrMovedFromStayMembers) {
  Net a, b;
  const Tensor of_a = a.fc.weight, of_b = b.fc.weight;
  std::swap(a.fc.weight, b.fc.weight);
  EXPECT_EQ(a.parameters()[3].impl(), of_b.impl());
  EXPECT_EQ(b.parameters()[3].impl(), of_a.impl());
  std::swap(a.fc, b.fc);
  EXPECT_EQ(a.fc.weight.impl(), of_a.impl());
  EXPECT_EQ(a.parameters()[3].impl(), of_a.impl());
  EXPECT_EQ(b.parameters()[3].impl(), of_b.impl());
  const nn::Parameter taken = std::move(a.fc.weight);
  EXPECT_EQ(a.fc.weight.impl(), taken.impl());
  const Net moved = std::move(a);
  a.fc.weight = zeros({3, 4});
  EXPECT_EQ(moved.fc.weight.impl(), a.parameters()[3].impl());
}

TEST_F(Replacing, InClassesThatAreNotCalled) {
  struct Pair : nn::Module {
    nn::Linear a{2, 2};
    nn::Parameter b{ones(2)};
    Pair() { WEFT_REGISTER(a, b); }
  } pair;
  Pair copy = pair;
  copy.a = nn::Linear(2, 2);
  pair.b = zeros(2);
  EXPECT_EQ(pair.a.weight.impl(), copy.a.weight.impl());
  EXPECT_EQ(copy.b.impl(), pair.parameters()[0].impl());
  const Pair own = nn::clone(pair);
  pair.b = ones(2);
  EXPECT_EQ(own.parameters()[0].impl(), own.b.impl());
  EXPECT_EQ(own.b.sum().item<float>(), 0);
}

TEST_F(Replacing, IsFoundBelowAReplacedModule) {
  struct Outer : nn::Layer<Outer> {
    Net net;
    Outer() { WEFT_REGISTER(net); }
    Tensor forward(const Tensor& x) const { return net(x); }
  } outer;
  const Outer copy = outer;
  outer.net = Net();
  outer.net.fc = nn::Linear(4, 3);
  outer.net.scale = zeros(3);
  EXPECT_EQ(copy.net.fc.weight.impl(), outer.net.fc.weight.impl());
  EXPECT_EQ(copy.net.scale.impl(), outer.net.scale.impl());
  EXPECT_EQ(outer.parameters()[0].impl(), outer.net.scale.impl());
  EXPECT_EQ(outer.parameters()[3].impl(), outer.net.fc.weight.impl());
}

TEST_F(Replacing, InReadyLayers) {
  nn::TransformerBlock block(8, 2);
  block.up = nn::Linear(8, 16);
  block.down = nn::Linear(16, 8);
  block.attention.qkv.bias = {};
  nn::BatchNorm1d norm(3);
  norm.running_mean = ones(3);
  norm.eval();
  EXPECT_EQ(norm(ones({2, 3})).abs().sum().item<float>(), 0);
  EXPECT_EQ(norm.state_dict().at("running_mean").sum().item<float>(), 3);
  EXPECT_EQ(block(randn({1, 3, 8})).shape(), Dims({1, 3, 8}));
  EXPECT_EQ(block.state_dict().at("up.weight").shape(), Dims({16, 8}));
  EXPECT_FALSE(block.state_dict().contains("attention.qkv.bias"));
  EXPECT_THAT(collected.texts, ElementsAre());
}

// ---- containers ----

TEST_F(Replacing, ElementsOfASequential) {
  nn::Sequential net(nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 3));
  const nn::Sequential copy = net;
  net[-1] = nn::Linear(4, 2);
  net[1] = [](const Tensor& x) { return x * 2; };
  EXPECT_EQ(net.state_dict().at("2.weight").shape(), Dims({2, 4}));
  EXPECT_EQ(copy(ones({1, 4})).shape(), Dims({1, 2}));
  net[0].as<nn::Linear>().weight = zeros({4, 4});
  EXPECT_EQ(net.parameters()[0].sum().item<float>(), 0);
  EXPECT_EQ(net.parameters()[0].impl(), copy[0].as<nn::Linear>().weight.impl());
  net.append(nn::Linear(2, 7));
  EXPECT_EQ(copy(ones({1, 4})).shape(), Dims({1, 7}));
  net[0] = nn::Linear(4, 4);
  EXPECT_EQ(net.parameters()[0].impl(), copy[0].as<nn::Linear>().weight.impl());
  EXPECT_THAT(message_of<ValueError>([&] { net[0].as<nn::Linear>() = nn::Linear(4, 4); }),
              HasSubstr("net[0] = nn::Linear(8, 2)"));
  EXPECT_EQ(net.parameters()[0].impl(), net[0].as<nn::Linear>().weight.impl());

  nn::Sequential own = net.clone();
  own[0] = nn::Linear(4, 4);
  EXPECT_NE(own.parameters()[0].impl(), net.parameters()[0].impl());
  EXPECT_EQ(own.parameters()[0].impl(), own[0].as<nn::Linear>().weight.impl());
  EXPECT_EQ(net.parameters()[0].impl(), net[0].as<nn::Linear>().weight.impl());
  EXPECT_THAT(message_of<ValueError>([&] { net[0] = net; }), HasSubstr("cannot hold itself"));
  EXPECT_THAT(collected.texts, ElementsAre());
}

TEST_F(Replacing, ElementsOfListsAndDictionaries) {
  nn::ModuleList<nn::Linear> list{nn::Linear(4, 4), nn::Linear(4, 3)};
  const nn::ModuleList<nn::Linear> copy = list;
  list[1] = nn::Linear(4, 2);
  list[0].bias = {};
  EXPECT_THAT(names(list), ElementsAre("0.weight", "1.weight", "1.bias"));
  EXPECT_EQ(list.parameters()[1].shape(), Dims({2, 4}));
  EXPECT_EQ(copy[1].weight.impl(), list[1].weight.impl());
  for (int i = 0; i < 8; ++i) list.append(nn::Linear(2, 2));
  EXPECT_EQ(copy.size(), 10u);
  list[1].weight = list[0].weight;
  EXPECT_THAT(names(list)[1], "1.bias");
  nn::ModuleList<nn::Linear> own = nn::clone(list);
  own[0] = nn::Linear(4, 9);
  EXPECT_EQ(own.parameters()[0].shape(), Dims({9, 4}));
  EXPECT_EQ(list.parameters()[0].shape(), Dims({4, 4}));

  nn::ModuleDict<nn::Linear> dict{{"a", nn::Linear(4, 4)}, {"b", nn::Linear(4, 3)}};
  dict["b"] = nn::Linear(4, 2);
  EXPECT_EQ(dict.state_dict().at("b.weight").shape(), Dims({2, 4}));
  nn::ModuleDict<> any{{"a", nn::Linear(4, 4)}};
  any["a"] = nn::Linear(4, 2);
  EXPECT_EQ(any.state_dict().at("a.weight").shape(), Dims({2, 4}));

  nn::ParameterList parameters{ones(2), ones(3)};
  const nn::ParameterList same = parameters;
  parameters[1] = zeros(5);
  for (int i = 0; i < 8; ++i) parameters.append(ones(1));
  parameters[0] = parameters[1];
  EXPECT_EQ(parameters.parameters()[0].shape(), Dims({5}));
  EXPECT_EQ(parameters.parameters().size(), 9u);
  EXPECT_EQ(same[0].impl(), parameters[0].impl());
  EXPECT_THAT(collected.texts, ElementsAre());
}

TEST_F(Replacing, AContainerThatIsAMember) {
  struct Stack : nn::Layer<Stack> {
    nn::ModuleList<nn::Linear> blocks{nn::Linear(4, 4)};
    nn::Sequential head{nn::Linear(4, 3)};
    nn::AnyModule last{nn::ReLU()};
    Stack() { WEFT_REGISTER(blocks, head, last); }
    Tensor forward(const Tensor& x) const { return last(head(blocks[0](x))); }
  } net;
  const Stack copy = net;
  net.blocks = nn::ModuleList<nn::Linear>{nn::Linear(4, 5), nn::Linear(1, 1)};
  net.head = nn::Sequential(nn::Linear(5, 6), nn::Tanh());
  net.head[0] = nn::Linear(5, 7);
  net.last = nn::Linear(7, 8);
  EXPECT_EQ(copy(ones({1, 4})).shape(), Dims({1, 8}));
  EXPECT_THAT(names(net), ElementsAre("blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
                                      "head.0.weight", "head.0.bias", "last.weight", "last.bias"));
  EXPECT_EQ(net.parameters()[4].shape(), Dims({7, 5}));
  const Stack own = net.clone();
  EXPECT_EQ(own(ones({1, 4})).shape(), Dims({1, 8}));
  EXPECT_NE(own.parameters()[4].impl(), net.parameters()[4].impl());
  EXPECT_THAT(collected.texts, ElementsAre());
}

// ---- refusals ----

TEST(Assignment, IsRefusedWhereSomethingElseComputesTheTensor) {
  Net net;
  nn::weight_norm(net.fc);
  const std::vector<std::string> before = names(net);
  EXPECT_THAT(message_of<ValueError>([&] {
                net.fc.weight = zeros({3, 4});
              }),
              testing::AllOf(HasSubstr("\"weight\" is parametrized"), HasSubstr("set_parametrized_tensor")));
  EXPECT_EQ(names(net), before);
  nn::remove_parametrizations(net.fc, "weight");
  net.fc.weight = zeros({3, 4});
  EXPECT_EQ(net.fc.state_dict().at("weight").sum().item<float>(), 0);

  nn::apply_lora(net, {.r = 1, .targets = {"body"}});
  EXPECT_THAT(message_of<ValueError>([&] { net.body.weight = zeros({4, 4}); }), HasSubstr("adapted by LoRA"));
  EXPECT_NO_THROW(net.body.bias = zeros(4));
  nn::QuantizedLinear quantized(4, 4);
  EXPECT_THAT(message_of<ValueError>([&] { quantized.weight = zeros({4, 4}); }), HasSubstr("quantized"));
}

TEST(Assignment, OfALayerTakesItsParametrizations) {
  Net net;
  nn::Linear adapted(4, 3);
  nn::apply_lora(nn::Sequential(adapted), {.r = 1, .targets = {"0"}});
  net.fc = adapted;
  net.fc = adapted;
  Net copy = net;
  copy = net;
  EXPECT_EQ(nn::lora_layers(net).size(), 1u);
  EXPECT_EQ(copy.fc.weight.impl(), adapted.weight.impl());
  net.fc = nn::Linear(4, 3);
  EXPECT_EQ(nn::lora_layers(copy).size(), 0u);
}

TEST(Assignment, ThroughAnOpenModuleReachesTheClass) {
  Net net;
  nn::OpenModule open(net, "Net");
  const nn::Parameter scale(zeros(3));
  open.set_parameter("scale", scale);
  EXPECT_EQ(net.scale.impl(), scale.impl());
  EXPECT_EQ(net.parameters()[0].impl(), scale.impl());
  EXPECT_TRUE(open.remove("scale"));
  EXPECT_FALSE(net.scale.defined());
  open.set_buffer("shift", ones(3));
  EXPECT_EQ(net.shift.sum().item<float>(), 3);
  EXPECT_THAT(message_of<ValueError>([&] { open.set_buffer("gate", ones(3)); }), HasSubstr("computes in C++"));
  EXPECT_THAT(message_of<ValueError>([&] { open.set_module("fc", nn::Linear(4, 3)); }),
              HasSubstr("\"fc\" is a module"));
  EXPECT_NO_THROW(open.set_module("fc", net.fc));
  const Tensor plain = zeros(3);  // which `to` replaces
  open.set_buffer("shift", plain);
  open.set_buffer("again", plain);
  open.to(f64);
  EXPECT_EQ(net.shift.dtype(), f64);
  EXPECT_EQ(open.buffer("again").impl(), net.shift.impl());
  EXPECT_EQ(plain.dtype(), f32);
  open.set_parameter("more", scale);
  EXPECT_EQ(open.parameter("more").impl(), scale.impl());
}

}  // namespace
}  // namespace weft
