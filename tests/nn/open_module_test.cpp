// Modules put together from outside, member by member.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.hpp"

#include <weft/nn/layers.hpp>
#include <weft/nn/open_module.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/tensor/warning.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const std::vector<nn::NamedTensor>& list) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : list) out.push_back(name);
  return out;
}

TEST(OpenModule, HoldsTheTensorsThatItIsGiven) {
  nn::OpenModule net("Net");
  const Tensor weight = nn::OpenModule::own(ones(3)).requires_grad_();
  net.set_parameter("weight", weight);
  net.set_buffer("seen", zeros({}, i64));
  net.set_module("layer", nn::Linear(3, 2));
  EXPECT_THAT(names(net.named_parameters()), ElementsAre("weight", "layer.weight", "layer.bias"));
  EXPECT_THAT(names(net.named_buffers()), ElementsAre("seen"));
  EXPECT_EQ(net.parameter("weight").impl(), weight.impl());
  EXPECT_FALSE(net.parameter("seen").defined() || net.buffer("weight").defined() || net.child("weight").has_value());
  EXPECT_TRUE(net.child("layer").has_value());
  EXPECT_EQ(net.class_name(), "Net");
  EXPECT_THAT(net.text(), HasSubstr("Net(\n  (layer): Linear(in_features=3"));
}

TEST(OpenModule, ANameHasOneMember) {
  nn::OpenModule net("Net");
  net.set_parameter("a", ones(1));
  net.set_parameter("b", ones(2));
  net.set_parameter("a", ones(3));
  EXPECT_THAT(net.parameter_names(), ElementsAre("a", "b"));
  EXPECT_EQ(net.parameter("a").numel(), 3);
  net.set_module("a", nn::ReLU());
  EXPECT_THAT(net.parameter_names(), ElementsAre("b"));
  net.set_buffer("a", ones(1));
  EXPECT_TRUE(net.children().empty());
  EXPECT_TRUE(net.remove("a"));
  EXPECT_FALSE(net.remove("a"));
  EXPECT_THAT(net.buffer_names(), IsEmpty());
  EXPECT_THROW(net.set_buffer("a.b", ones(1)), ValueError);
  EXPECT_THROW(net.set_parameter("", ones(1)), ValueError);
  EXPECT_THROW(net.set_parameter("c", Tensor()), Error);
  EXPECT_THROW(net.set_module("self", net), ValueError);
}

TEST(OpenModule, MovesItsOwnTensorsInPlaceAndReplacesOthers) {
  nn::OpenModule net("Net");
  const Tensor weight = nn::OpenModule::own(ones(3)).requires_grad_();
  const Tensor view = weight.detach()[0];
  const Tensor plain = ones(2);
  net.set_parameter("weight", weight);
  net.set_buffer("plain", plain);
  sum(weight * weight).backward();
  net.to(f64);
  EXPECT_EQ(weight.dtype(), f64);
  EXPECT_EQ(weight.grad().dtype(), f64);
  EXPECT_EQ(view.item<float>(), 1);
  EXPECT_EQ(plain.dtype(), f32);
  EXPECT_EQ(net.buffer("plain").dtype(), f64);
  net.to(f32);
  EXPECT_EQ(net.buffer("plain").dtype(), f32);
}

TEST(OpenModule, BuffersThatAreNotSavedAreNoState) {
  nn::OpenModule net("Net");
  net.set_buffer("kept", ones(1));
  net.set_buffer("scratch", ones(1), false);
  EXPECT_TRUE(net.is_saved("kept"));
  EXPECT_FALSE(net.is_saved("scratch"));
  EXPECT_EQ(net.buffers().size(), 2u);
  EXPECT_EQ(net.state_dict().size(), 1u);
  const nn::LoadReport report = net.load_state_dict({{"kept", zeros(1)}, {"scratch", zeros(1)}}, false);
  EXPECT_THAT(report.unexpected, ElementsAre("scratch"));
  EXPECT_EQ(net.buffer("scratch").item<float>(), 1);
}

TEST(OpenModule, ASharedTensorIsLoadedUnderAnyOfItsNames) {
  nn::OpenModule net("Net");
  const Tensor weight = nn::OpenModule::own(ones(3));
  net.set_parameter("first", weight);
  net.set_parameter("second", weight);
  EXPECT_EQ(net.state_dict().size(), 1u);
  EXPECT_TRUE(net.load_state_dict({{"second", zeros(3)}}).missing.empty());
  EXPECT_EQ(weight.sum().item<float>(), 0);
  EXPECT_TRUE(net.load_state_dict({{"first", ones(3)}, {"second", 2 * ones(3)}}).unexpected.empty());
  EXPECT_EQ(weight.sum().item<float>(), 6);
  EXPECT_THAT(net.load_state_dict({}, false).missing, ElementsAre("first"));
}

TEST(OpenModule, ChangesAModuleOfAnyClass) {
  nn::Linear layer(2, 2);
  nn::OpenModule open(layer, "Projection");
  EXPECT_EQ(layer.class_name(), "Projection");
  EXPECT_TRUE(open.same_as(layer));
  open.set_training(false);
  EXPECT_FALSE(layer.is_training());
  open.set_extra_repr("2 to 2");
  EXPECT_EQ(layer.text(), "Projection(2 to 2)");
}

// Weights computed from the caller's tensors do not count as unregistered.
struct Made : nn::Layer<Made> {
  nn::Linear inner{2, 2};
  Made() { WEFT_REGISTER(inner); }
  Tensor forward(const Tensor& x) const { return nn::Sequential(inner)(x); }
};

TEST(OpenModule, AModuleMadeOfRegisteredOnesGivesNoWarning) {
  int warnings = 0;
  const WarningHandler before = set_warning_handler([&](const Warning&) { ++warnings; });
  Made()(ones({1, 2}));
  set_warning_handler(before);
  EXPECT_EQ(warnings, 0);
}

TEST(Layers, AnEmbeddingsPaddingStaysAtZero) {
  nn::Embedding table(4, 2, 3);
  EXPECT_EQ(sum(abs(table.weight.detach()[3])).item<float>(), 0);
  sum(table(tensor({0, 3}))).backward();
  EXPECT_EQ(sum(table.weight.grad()[3]).item<float>(), 0);
  EXPECT_EQ(sum(table.weight.grad()[0]).item<float>(), 2);
  EXPECT_EQ(table.text(), "Embedding(4, 2, padding_idx=3)");
  EXPECT_EQ(nn::Embedding(4, 2, -1).text(), "Embedding(4, 2, padding_idx=3)");
  EXPECT_THROW(nn::Embedding(4, 2, 4), ValueError);
  EXPECT_THROW(nn::Embedding(4, 2, -5), ValueError);
  EXPECT_EQ(nn::Embedding(4, 2, {.padding_idx = -2}).text(), "Embedding(4, 2, padding_idx=2)");
  const nn::Embedding plain(4, 2), narrow(1000, 8, {}, 0.1);
  EXPECT_EQ(plain.text(), "Embedding(4, 2)");
  EXPECT_NEAR(narrow.weight.detach().std().item<double>(), 0.1, 0.01);
}

// A third argument in PyTorch's order has PyTorch's meaning, or does not compile.
TEST(Layers, PositionalArgumentsAreInPyTorchsOrder) {
  const nn::Embedding table(10, 3, 0);
  EXPECT_EQ(sum(abs(table.weight.detach()[0])).item<float>(), 0);
  EXPECT_EQ(sum(table.weight.detach() != 0).item<int64_t>(), 27);
  static_assert(!std::constructible_from<nn::Embedding, int, int, double>);
  static_assert(!std::constructible_from<nn::Embedding, int, int, float, int>);
  static_assert(!std::constructible_from<nn::Embedding, int, int, int, int>);
  static_assert(!std::constructible_from<nn::RNNCell, int, int, bool, const char*>);
}

TEST(Layers, ALayerNormMayGoWithoutBias) {
  const nn::LayerNorm norm(3, 1e-5, true, false);
  EXPECT_TRUE(norm.weight.defined());
  EXPECT_FALSE(norm.bias.defined());
  EXPECT_EQ(norm.parameters().size(), 1u);
  EXPECT_THAT(norm.text(), HasSubstr("elementwise_affine=True, bias=False"));
}

}  // namespace
}  // namespace weft
