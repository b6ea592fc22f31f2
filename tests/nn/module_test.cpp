#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.hpp"

#include <weft/autograd/mode.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<nn::NamedTensor>& list) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : list) out.push_back(name);
  return out;
}

struct Inner : nn::Layer<Inner> {
  nn::Parameter scale{ones(3)};
  nn::Buffer count{zeros({}, i64)};
  Inner() {
    register_parameter("scale", scale);
    register_buffer("count", count);
  }
  Tensor forward(const Tensor& x) const { return x * scale; }
};

struct Outer : nn::Layer<Outer> {
  nn::Linear first{4, 3};
  std::vector<Inner> inner = std::vector<Inner>(2);
  nn::Parameter shift{zeros(3)};
  Outer() {
    register_parameter("shift", shift);
    register_module("first", first);
    for (size_t i = 0; i < inner.size(); ++i) register_module("inner" + std::to_string(i), inner[i]);
  }
  Tensor forward(const Tensor& x) const { return inner[1](inner[0](first(x))) + shift; }
};

TEST(Module, NamesFollowTheTree) {
  const Outer net;
  EXPECT_THAT(names(net.named_parameters()),
              ElementsAre("shift", "first.weight", "first.bias", "inner0.scale", "inner1.scale"));
  EXPECT_THAT(names(net.named_buffers()), ElementsAre("inner0.count", "inner1.count"));
  EXPECT_EQ(net.parameter_count(), 3 + 12 + 3 + 3 + 3);
  EXPECT_EQ(net.children().size(), 3u);
  EXPECT_EQ(net.named_children()[0].first, "first");
}

TEST(Module, MembersAndRegisteredTensorsAreTheSame) {
  const Outer net;
  EXPECT_EQ(net.parameters()[1].impl(), net.first.weight.impl());
  EXPECT_TRUE(net.first.weight.requires_grad());
  EXPECT_TRUE(net.first.weight.is_leaf());
  EXPECT_FALSE(net.inner[0].count.requires_grad());
}

TEST(Module, CopiesShareParametersAndMode) {
  Outer net;
  Outer copy = net;
  EXPECT_TRUE(copy.same_as(net));
  EXPECT_EQ(copy.first.weight.impl(), net.first.weight.impl());
  copy.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_FALSE(net.inner[1].is_training());
  net.train();
  EXPECT_TRUE(copy.is_training());
}

TEST(Module, CloneSharesNothing) {
  Outer net;
  Outer copy = net.clone();
  EXPECT_FALSE(copy.same_as(net));
  ASSERT_EQ(names(copy.named_parameters()), names(net.named_parameters()));
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    EXPECT_FALSE(copy.parameters()[i].shares_storage(net.parameters()[i]));
    EXPECT_EQ(copy.parameters()[i].to_vector<float>(), net.parameters()[i].to_vector<float>());
    EXPECT_TRUE(copy.parameters()[i].requires_grad());
  }
  EXPECT_EQ(copy.parameters()[1].impl(), copy.first.weight.impl());
  EXPECT_EQ(copy.parameters()[4].impl(), copy.inner[1].scale.impl());
  copy.eval();
  EXPECT_TRUE(net.is_training());
  EXPECT_FALSE(copy.inner[0].is_training());
  {
    NoGradGuard no_grad;
    copy.shift.fill_(7);
  }
  EXPECT_EQ(net.shift.to_vector<float>()[0], 0);
  const Tensor x = ones({2, 4});
  EXPECT_FLOAT_EQ(copy(x).to_vector<float>()[0], net(x).to_vector<float>()[0] + 7);
}

struct Tied : nn::Layer<Tied> {
  nn::Linear a{3, 3, false}, b{3, 3, false};
  Tied() {
    b = a;
    register_module("a", a);
    register_module("b", b);
  }
  Tensor forward(const Tensor& x) const { return b(a(x)); }
};

TEST(Module, TiedParametersStayTied) {
  Tied net;
  EXPECT_THAT(names(net.named_parameters()), ElementsAre("a.weight"));
  Tied copy = net.clone();
  EXPECT_EQ(copy.a.weight.impl(), copy.b.weight.impl());
  EXPECT_NE(copy.a.weight.impl(), net.a.weight.impl());
  copy.to(f64);
  EXPECT_EQ(copy.b.weight.dtype(), f64);
  EXPECT_EQ(copy.parameters().size(), 1u);
}

TEST(Module, ToMovesInPlaceForEveryHolder) {
  Outer net;
  const Outer copy = net;
  const Tensor held = net.first.weight;
  net(ones({1, 4})).sum().backward();
  ASSERT_TRUE(held.grad().defined());
  const std::vector<double> values = held.to_vector<double>();
  net.to(f64);
  EXPECT_EQ(held.dtype(), f64);
  EXPECT_EQ(copy.first.weight.dtype(), f64);
  EXPECT_EQ(held.grad().dtype(), f64);
  EXPECT_EQ(held.to_vector<double>(), values);
  EXPECT_EQ(net.inner[0].count.dtype(), i64);
  EXPECT_TRUE(held.is_leaf());
  net.zero_grad();
  EXPECT_FALSE(held.grad().defined());
  net(ones({1, 4}, f64)).sum().backward();
  EXPECT_EQ(held.grad().dtype(), f64);
}

TEST(Module, MovingIsSeenByGraphsThatSavedTheOldValue) {
  nn::Linear layer(2, 2);
  const Tensor x = ones({1, 2}).requires_grad_();
  const Tensor y = layer(x).sum();
  layer.to(f64);
  EXPECT_THROW(y.backward(), Error);
}

TEST(Module, ToRefusesIntegers) {
  Outer net;
  EXPECT_THROW(net.to(i64), DTypeError);
  EXPECT_THROW(net.to(f8_e5m2), DTypeError);
  EXPECT_EQ(net.shift.dtype(), f32);
}

TEST(Module, ToMetaKeepsShapes) {
  Outer net;
  net.to(Device("meta"));
  EXPECT_EQ(net.first.weight.device(), Device("meta"));
  EXPECT_EQ(net.first.weight.shape(), Dims({3, 4}));
}

TEST(Module, ApplyReachesEveryModule) {
  Outer net;
  int calls = 0;
  net.apply([&](nn::Module&) { ++calls; });
  EXPECT_EQ(calls, 4);
}

struct Wrong : nn::Module {
  nn::Parameter p{ones(1)};
  void twice() { register_parameter("p", p), register_parameter("p", p); }
  void dotted() { register_parameter("a.b", p); }
  void nameless() { register_parameter("", p); }
  void itself() { register_module("me", *this); }
};

TEST(Module, WrongNamesAreRefused) {
  EXPECT_THAT(message_of<ValueError>([] { Wrong().twice(); }), HasSubstr("\"p\" is taken"));
  EXPECT_THROW(Wrong().dotted(), ValueError);
  EXPECT_THROW(Wrong().nameless(), ValueError);
  EXPECT_THROW(Wrong().itself(), ValueError);
  EXPECT_THROW(nn::Parameter{ones(2, i64)}, ValueError);
  EXPECT_THROW(nn::Parameter{Tensor()}, Error);
}

TEST(Module, StateDictRoundTrip) {
  Outer a, b;
  const nn::StateDict state = a.state_dict();
  EXPECT_EQ(state.size(), 7u);
  EXPECT_FALSE(state.at("shift").requires_grad());
  const nn::LoadReport report = b.load_state_dict(state);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() && report.converted.empty());
  EXPECT_EQ(b.first.weight.to_vector<float>(), a.first.weight.to_vector<float>());
  EXPECT_FALSE(b.first.weight.shares_storage(a.first.weight));
}

TEST(Module, AFailedLoadChangesNothing) {
  Outer net;
  const std::vector<float> before = net.first.weight.to_vector<float>();
  nn::StateDict state = Outer().state_dict();
  state["shift"] = zeros(4);
  state["more"] = zeros(1);
  state.erase("first.bias");
  const std::string shapes = message_of<ShapeError>([&] { net.load_state_dict(state, false); });
  EXPECT_THAT(shapes, HasSubstr("shift [4] for [3]"));
  EXPECT_THAT(shapes, HasSubstr("missing: first.bias; unexpected: more"));
  state["shift"] = zeros(3, f64);
  EXPECT_THAT(message_of<ValueError>([&] { net.load_state_dict(state); }), HasSubstr("strict = false"));
  EXPECT_EQ(net.first.weight.to_vector<float>(), before);
  const nn::LoadReport report = net.load_state_dict(state, false);
  EXPECT_THAT(report.missing, ElementsAre("first.bias"));
  EXPECT_THAT(report.unexpected, ElementsAre("more"));
  EXPECT_THAT(report.converted, ElementsAre("shift"));
  EXPECT_NE(net.first.weight.to_vector<float>(), before);
}

TEST(Module, ErrorsNameThePlaceOfTheCall) {
  const nn::Linear layer(3, 2);
  const int line = __LINE__ + 1;
  const std::string message = message_of<ShapeError>([&] { layer(ones({2, 5})); });
  EXPECT_THAT(message, HasSubstr("module_test.cpp:" + std::to_string(line)));
}

}  // namespace
}  // namespace weft
