// ModuleList, ModuleDict, Sequential, the tree of modules and how it prints.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.hpp"

#include <weft/autograd/mode.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string printed(const nn::Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

std::vector<std::string> parameter_names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : module.named_parameters()) out.push_back(name);
  return out;
}

TEST(Sequential, ReturnsLayersByIndex) {
  const nn::Sequential net(nn::Linear(2, 4), nn::Tanh(), nn::Linear(4, 1, false));
  EXPECT_EQ(net.size(), 3u);
  EXPECT_FALSE(net.empty());
  nn::Linear& first = net[0].as<nn::Linear>();
  EXPECT_EQ(first.weight.impl(), net.parameters()[0].impl());
  EXPECT_EQ(net[-1].as<nn::Linear>().weight.shape(), Dims({1, 4}));
  Tensor x = ones({3, 2});
  const std::vector<float> expected = net(x).to_vector<float>();
  for (const nn::AnyModule& layer : net) x = layer(x);
  EXPECT_EQ(x.to_vector<float>(), expected);
  EXPECT_THAT(message_of<IndexError>([&] { net[3]; }), HasSubstr("[nn::Sequential] there is no module 3 of 3"));
  EXPECT_THAT(message_of<IndexError>([&] { net[-4]; }), HasSubstr("containers_test.cpp:"));
  EXPECT_THAT(message_of<ValueError>([&] { net[1].as<nn::Linear>(); }), HasSubstr("module: expected Linear, got Tanh"));
}

TEST(Sequential, GrowsByAppend) {
  nn::Sequential net;
  net.append(nn::Linear(2, 3)).append([](const Tensor& x) { return x * 2; }).append(nn::Sequential(nn::Linear(3, 1)));
  EXPECT_THAT(parameter_names(net), ElementsAre("0.weight", "0.bias", "2.0.weight", "2.0.bias"));
  EXPECT_EQ(net(ones({5, 2})).shape(), Dims({5, 1}));
}

TEST(Sequential, HooksOfALayerRunOnceInItsCalls) {
  const nn::Sequential net(nn::Linear(2, 2), [](const Tensor& x) { return x + 1.0; });
  int calls = 0;
  net[0].register_forward_hook([&](const Tensor&) { ++calls; });
  net[1].register_forward_hook([&](const Tensor&) { calls += 10; });
  (void)net(ones({1, 2}));
  EXPECT_EQ(calls, 11);
}

TEST(Sequential, CopiesShareAndClonesDoNot) {
  const nn::Sequential net(nn::Linear(2, 2), nn::Linear(2, 2));
  const nn::Sequential copy = net, clone = net.clone();
  EXPECT_EQ(copy[0].as<nn::Linear>().weight.impl(), net[0].as<nn::Linear>().weight.impl());
  EXPECT_NE(clone[0].as<nn::Linear>().weight.impl(), net[0].as<nn::Linear>().weight.impl());
  EXPECT_EQ(clone[0].as<nn::Linear>().weight.impl(), clone.parameters()[0].impl());
}

struct Deep : nn::Layer<Deep> {
  nn::ModuleList<nn::Linear> layers{{2, 3}, {3, 4}};
  nn::ModuleDict<> heads{{"mean", nn::Linear(4, 1)}, {"size", nn::Sequential(nn::Linear(4, 1), nn::Sigmoid())}};
  Deep() { WEFT_REGISTER(layers, heads); }
  Tensor forward(Tensor x, const std::string& head) const {
    for (const nn::Linear& layer : layers) x = tanh(layer(x));
    return heads[head](x);
  }
};

TEST(ModuleList, RegistersByPosition) {
  Deep net;
  EXPECT_THAT(parameter_names(net.layers), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_EQ(net.layers[-1].weight.shape(), Dims({4, 3}));
  net.layers.append(nn::Linear(4, 4));
  EXPECT_EQ(net.layers.size(), 3u);
  EXPECT_THAT(parameter_names(net), testing::Contains("layers.2.bias"));
  EXPECT_THAT(message_of<IndexError>([&] { net.layers[3]; }), HasSubstr("[nn::ModuleList] there is no module 3 of 3"));
  const nn::ModuleList<> mixed{nn::Linear(2, 2), nn::ReLU()};
  EXPECT_EQ(mixed[1](tensor({-1.0})).item<float>(), 0);
  EXPECT_EQ(nn::ModuleList(std::vector(3, nn::Linear(1, 1))).size(), 3u);
}

TEST(ModuleDict, RegistersByNameInOrder) {
  Deep net;
  EXPECT_THAT(net.heads.keys(), ElementsAre("mean", "size"));
  EXPECT_TRUE(net.heads.contains("mean"));
  EXPECT_FALSE(net.heads.contains("else"));
  EXPECT_THAT(message_of<IndexError>([&] { net.heads["else"]; }),
              HasSubstr("there is no module \"else\"\n  there are: mean, size"));
  EXPECT_THROW(net.heads.insert("mean", nn::Linear(1, 1)), ValueError);
  EXPECT_EQ(net.heads.size(), 2u);
  net.heads.insert("third", nn::Linear(4, 2));
  EXPECT_EQ(net(ones({5, 2}), "third").shape(), Dims({5, 2}));
  EXPECT_THAT(parameter_names(net), testing::Contains("heads.size.0.weight"));
}

TEST(ModuleContainers, AreClonedWithTheirModule) {
  const Deep net;
  const Deep copy = net.clone();
  const Tensor x = ones({1, 2});
  const float before = copy(x, "mean").item<float>();
  {
    const NoGradGuard unrecorded;
    for (const Tensor& p : net.parameters()) p.zero_();
  }
  EXPECT_EQ(net(x, "mean").item<float>(), 0);
  EXPECT_EQ(copy(x, "mean").item<float>(), before);
  EXPECT_EQ(copy.layers[0].weight.impl(), copy.parameters()[0].impl());
}

TEST(ModuleTree, NamesAllModulesOnceParentsFirst) {
  const Deep net;
  std::vector<std::string> names;
  for (const auto& [name, module] : net.named_modules()) names.push_back(name + ":" + module.class_name());
  EXPECT_THAT(names,
              ElementsAre(":Deep", "layers:ModuleList", "layers.0:Linear", "layers.1:Linear", "heads:ModuleDict",
                          "heads.mean:Linear", "heads.size:Sequential", "heads.size.0:Linear", "heads.size.1:Sigmoid"));
  EXPECT_EQ(net.modules().size(), 9u);
  EXPECT_TRUE(net.modules()[0].same_as(net));
  EXPECT_EQ(net.children().size(), 2u);
  EXPECT_EQ(net.named_children()[1].first, "heads");
  nn::Linear shared(2, 2);
  EXPECT_EQ(nn::Sequential(shared, shared).modules().size(), 2u);
}

// The output of PyTorch 2.15 for the same modules.
TEST(ModuleText, IsPyTorchs) {
  EXPECT_EQ(printed(nn::Sequential(nn::Linear(2, 16), nn::Tanh(), nn::Dropout(0.1), nn::GELU(Approximate::tanh),
                                   nn::Linear(16, 1, false))),
            "Sequential(\n"
            "  (0): Linear(in_features=2, out_features=16, bias=True)\n"
            "  (1): Tanh()\n"
            "  (2): Dropout(p=0.1, inplace=False)\n"
            "  (3): GELU(approximate='tanh')\n"
            "  (4): Linear(in_features=16, out_features=1, bias=False)\n"
            ")");
  EXPECT_EQ(printed(nn::Sequential()), "Sequential()");
  EXPECT_EQ(printed(nn::LayerNorm({4, 64})), "LayerNorm((4, 64), eps=1e-05, elementwise_affine=True, bias=True)");
  EXPECT_EQ(printed(nn::LayerNorm(8, 1e-5, false)), "LayerNorm((8,), eps=1e-05, elementwise_affine=False, bias=False)");
  EXPECT_EQ(printed(nn::RMSNorm(8)), "RMSNorm((8,), eps=None, elementwise_affine=True)");
  EXPECT_EQ(printed(nn::RMSNorm(8, 1e-6)), "RMSNorm((8,), eps=1e-06, elementwise_affine=True)");
  EXPECT_EQ(printed(nn::Embedding(5, 3)), "Embedding(5, 3)");
  EXPECT_EQ(printed(nn::ModuleList<>{nn::Linear(2, 2), nn::Linear(2, 2), nn::ReLU()}),
            "ModuleList(\n"
            "  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
            "  (2): ReLU()\n"
            ")");
}

TEST(ModuleText, NestsAndNamesTheUsersClasses) {
  struct Local : nn::Layer<Local> {
    nn::Sequential body{nn::Linear(1, 1), [](const Tensor& x) { return x; }};
    Local() {
      WEFT_REGISTER(body);
      set_extra_repr("depth=1");
    }
    Tensor forward(const Tensor& x) const { return body(x); }
  };
  EXPECT_EQ(printed(Local()),
            "Local(\n"
            "  depth=1\n"
            "  (body): Sequential(\n"
            "    (0): Linear(in_features=1, out_features=1, bias=True)\n"
            "    (1): Function()\n"
            "  )\n"
            ")");
  EXPECT_EQ(nn::ModuleList<nn::Linear>().class_name(), "ModuleList");
  EXPECT_THAT(printed(nn::TransformerBlock(8, 2)), HasSubstr("\n  (attention): SelfAttention(\n    (qkv): Linear("));
}

TEST(Containers, MovedFromContainersKeepTheirLayers) {
  nn::Sequential net(nn::Linear(2, 2));
  const Tensor x = randn({1, 2}), y = net(x);
  const nn::Sequential moved = std::move(net);
  EXPECT_TRUE(equal(net(x), y) && equal(moved(x), y));  // NOLINT(bugprone-use-after-move)
  nn::ModuleList<nn::Linear> list{nn::Linear(2, 2)};
  const nn::ModuleList<nn::Linear> other = std::move(list);
  EXPECT_EQ(list.size(), other.size());  // NOLINT(bugprone-use-after-move)
  nn::ModuleDict<> heads{{"a", nn::Linear(2, 2)}};
  const nn::ModuleDict<> others = std::move(heads);
  EXPECT_TRUE(heads.contains("a") && others.contains("a"));  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace weft
