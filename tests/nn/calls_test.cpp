// Calls of modules: any arguments and results, with hooks; members that nobody registered.
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collected_warnings.hpp"

#include <weft/autograd/mode.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/warning.hpp>

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Doubles = std::vector<double>;

Tensor number(double v) { return tensor(v, f64); }

struct Batch {
  Tensor x, y;
  double weight = 1;
  auto tensors() { return std::tie(x, y); }
};
struct Encoded {
  Tensor mean;
  std::optional<Tensor> deviation;
  auto tensors() { return std::tie(mean, deviation); }
};

struct Encoder : nn::Layer<Encoder> {
  Encoded forward(const Batch& b) const { return {b.x * b.weight, b.y + 1.0}; }
};
struct SumOf : nn::Layer<SumOf> {
  Tensor forward(const std::vector<Tensor>& list) const {
    Tensor total = number(0);
    for (const Tensor& t : list) total = total + t;
    return total;
  }
};
struct Repeat : nn::Layer<Repeat> {
  std::map<std::string, Tensor> forward(int64_t count, const Tensor& x) const {
    return {{"once", x}, {"times", x * static_cast<double>(count)}};
  }
};
struct Counting : nn::Layer<Counting> {
  int calls = 0;
  Tensor forward(const Tensor& x) {
    ++calls;
    return x;
  }
};
struct Generic : nn::Layer<Generic> {
  Tensor forward(const Tensor& a, const Tensor& b) const { return a - b; }
  Tensor forward(const Tensor& a) const { return a; }
};

template <class... T>
Doubles values(const T&... t) {
  return {t.template item<double>()...};
}
Doubles values(std::span<const Tensor> list) {
  Doubles out;
  for (const Tensor& t : list) out.push_back(t.item<double>());
  return out;
}

TEST(ModuleCalls, TakeAnyArgumentsAndReturnAnything) {
  const Encoded e = Encoder()(Batch{number(2), number(3), 10});
  EXPECT_EQ(values(e.mean, *e.deviation), (Doubles{20, 4}));
  EXPECT_EQ(SumOf()(std::vector{number(1), number(2)}).item<double>(), 3);
  EXPECT_EQ(Repeat()(3, number(5)).at("times").item<double>(), 15);
  EXPECT_EQ(Generic()(number(5), number(3)).item<double>(), 2);
  EXPECT_EQ(Generic()(number(5)).item<double>(), 5);
  Counting counting;
  (void)counting(number(1));
  EXPECT_EQ(counting.calls, 1);
}

TEST(ModuleCalls, TakeAnIndexedTensor) {
  const Tensor x = tensor({1.0, 5.0}, f64);
  EXPECT_EQ(Generic()(x[1], x[0]).item<double>(), 4);
  Generic hooked;
  Doubles seen;
  hooked.register_forward_pre_hook([&](const nn::ForwardEvent& e) { seen = values(e.inputs); });
  EXPECT_EQ(hooked(x[1], x[0]).item<double>(), 4);
  EXPECT_EQ(seen, (Doubles{5, 1}));
}

TEST(ModuleCalls, HooksSeeAndReplaceTensorsInStructs) {
  Encoder m;
  m.register_forward_pre_hook([](const nn::ForwardEvent& e) {
    EXPECT_EQ(values(e.inputs), (Doubles{2, 3}));
    return std::vector{e.inputs[0] * 2.0, Tensor()};
  });
  m.register_forward_hook([](const nn::ForwardEvent& e) {
    EXPECT_EQ(values(e.outputs), (Doubles{40, 4}));
    return std::vector{Tensor(), e.outputs[1] * 100.0};
  });
  const Batch batch{number(2), number(3), 10};
  const Encoded e = m(batch);
  EXPECT_EQ(values(e.mean, *e.deviation), (Doubles{40, 400}));
  EXPECT_EQ(batch.x.item<double>(), 2);
}

TEST(ModuleCalls, HooksSeeTensorsInListsMapsAndOptionals) {
  SumOf sum;
  sum.register_forward_pre_hook([](const nn::ForwardEvent& e) {
    EXPECT_EQ(e.inputs.size(), 3u);
    return std::vector{Tensor(), Tensor(), e.inputs[2] * 10.0};
  });
  EXPECT_EQ(sum(std::vector{number(1), number(2), number(3)}).item<double>(), 33);
  Repeat repeat;
  Doubles seen;
  repeat.register_forward_hook([&](const nn::ForwardEvent& e) { seen = values(e.outputs); });
  (void)repeat(3, number(5));
  EXPECT_EQ(seen, (Doubles{5, 15}));
  struct Tuples : nn::Layer<Tuples> {
    std::tuple<Tensor, std::array<Tensor, 2>, int> forward(std::optional<Tensor> x, std::pair<Tensor, int> y) const {
      return {*x, {y.first, *x + y.first}, y.second};
    }
  } tuples;
  tuples.register_forward_pre_hook([&](const nn::ForwardEvent& e) { seen = values(e.inputs); });
  tuples.register_forward_hook([&](const nn::ForwardEvent& e) {
    for (const double v : values(e.outputs)) seen.push_back(v);
  });
  EXPECT_EQ(std::get<2>(tuples(number(7), std::pair(number(8), 9))), 9);
  EXPECT_EQ(seen, (Doubles{7, 8, 7, 8, 15}));
}

TEST(ModuleCalls, BackwardHooksSeeGradientsOfStructs) {
  Encoder m;
  const Tensor x = number(2).requires_grad_(), y = number(3).requires_grad_();
  Doubles in, out;
  m.register_backward_hook([&](const GradEvent& e) { in = values(e.incoming), out = values(e.outgoing); });
  const Encoded e = m(Batch{x, y, 10});
  (e.mean * 2.0 + *e.deviation * 3.0).backward();
  EXPECT_EQ(in, (Doubles{2, 3}));
  EXPECT_EQ(out, (Doubles{20, 3}));
}

TEST(ModuleCalls, AHookThatWantsATensorWhereThereIsNone) {
  struct Count : nn::Layer<Count> {
    int64_t forward(const Tensor& x) const { return x.numel(); }
  } count;
  int calls = 0;
  const HookHandle event = count.register_forward_hook([&](const nn::ForwardEvent& e) { calls += e.outputs.empty(); });
  EXPECT_EQ(count(ones(3)), 3);
  EXPECT_EQ(calls, 1);
  count.register_forward_hook([](const Tensor&) {});
  try {
    (void)count(ones(3));
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("no tensors among the outputs"), HasSubstr("calls_test.cpp:")));
  }
}

TEST(ModuleCalls, WhereTheArgumentsFitIsAQuestionToTheCompiler) {
  static_assert(nn::detail::ForwardTakes<const nn::Linear>);
  static_assert(!nn::detail::ForwardTakes<const nn::Linear, Tensor>);
  static_assert(nn::detail::ForwardTakes<Counting> && !nn::detail::ForwardTakes<const Counting>);
  static_assert(!nn::detail::TensorLayer<Encoder> && nn::detail::TensorLayer<nn::Linear>);
}

// ---- forgotten members ----

class ForgottenMembers : public testing::Test {
 protected:
  CollectedWarnings collected;
  std::vector<std::string>& texts = collected.texts;
};

struct Forgetful : nn::Layer<Forgetful> {
  nn::Linear known{2, 2}, forgotten{2, 2};
  Forgetful() { WEFT_REGISTER(known); }
  static constexpr int line = __LINE__ + 1;
  Tensor forward(const Tensor& x) const { return forgotten(known(x)); }
};

TEST_F(ForgottenMembers, AreNamedOnceWithTheLineOfTheCall) {
  const Forgetful net;
  for (int i = 0; i < 3; ++i) (void)net(ones({1, 2}));
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("[Forgetful] a Linear is called in forward that no module has registered"),
                              HasSubstr("6 elements"), HasSubstr("WEFT_REGISTER(its name)"),
                              HasSubstr("calls_test.cpp:" + std::to_string(Forgetful::line))));
}

TEST_F(ForgottenMembers, AreFoundInVectorsToo) {
  struct Stack : nn::Layer<Stack> {
    std::vector<nn::Linear> layers{nn::Linear(2, 2), nn::Linear(2, 2)};
    Tensor forward(Tensor x) const {
      for (const nn::Linear& layer : layers) x = layer(x);
      return x;
    }
  };
  (void)Stack()(ones({1, 2}));
  EXPECT_EQ(texts.size(), 1u);
}

TEST_F(ForgottenMembers, AreNotThoseThatReplaceARegisteredMember) {
  struct Replaced : nn::Layer<Replaced> {
    nn::Linear known{2, 2};
    Replaced() { WEFT_REGISTER(known); }
    Tensor forward(const Tensor& x) const { return known(x); }
  } net;
  (void)net(ones({1, 2}));
  EXPECT_THAT(texts, ElementsAre());
  net.known = nn::Linear(2, 2);
  (void)net(ones({1, 2}));
  EXPECT_THAT(texts, ElementsAre());
}

TEST_F(ForgottenMembers, ModulesWithoutParametersMayBeUnregistered) {
  struct Student : nn::Layer<Student> {
    nn::Linear own{2, 2};
    const nn::Linear& teacher;
    nn::Linear frozen{2, 2};
    explicit Student(const nn::Linear& t) : teacher(t) {
      WEFT_REGISTER(own);
      frozen.requires_grad_(false);
    }
    Tensor forward(const Tensor& x) const {
      const Tensor y = own(frozen(nn::ReLU()(x)));
      const NoGradGuard unrecorded;
      return y - teacher(x);
    }
  };
  const nn::Linear teacher(2, 2);
  (void)Student(teacher)(ones({1, 2}));
  (void)nn::Sequential(nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 2)))(ones({1, 2}));
  (void)nn::ModuleList<nn::Linear>{nn::Linear(2, 2)}[0](ones({1, 2}));
  EXPECT_THAT(texts, ElementsAre());
}

struct Everything : nn::Layer<Everything> {
  nn::Linear hidden{2, 2};
  nn::Parameter scale{ones(2)};
  nn::Buffer seen{zeros(1)};
  nn::ModuleList<nn::Linear> more{{2, 2}};
  Everything() {
    WEFT_REGISTER(hidden,  //
                  scale, seen, more);
  }
  Tensor forward(const Tensor& x) const { return hidden(x) * scale; }
};

TEST(Register, TakesEveryKindOfMemberUnderItsName) {
  const Everything net;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net.state_dict()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("hidden.bias", "hidden.weight", "more.0.bias", "more.0.weight", "scale", "seen"));
  EXPECT_EQ(net.buffers().size(), 1u);
}

}  // namespace
}  // namespace weft
