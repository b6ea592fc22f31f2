// Checkpointing: the same bits with less kept.
#include "hooks/values.hpp"

#include <cmath>

namespace weft {
namespace {

using Checkpoint = LiveCount;

Tensor leaf() { return tensor({0.5, -1.0, 2.0}, f64).requires_grad_(); }

TEST_F(Checkpoint, GradientsOfInputsAndParametersAreBitwiseThose) {
  const Tensor x = leaf(), w = leaf();
  const auto f = [&](const Tensor& t) { return tanh(exp(t * w) + t); };
  f(x).sum().backward();
  const Doubles dx = values(x.grad()), dw = values(w.grad());
  x.set_grad({});
  w.set_grad({});
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        ++runs;
        return f(t);
      },
      x);
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(values(x.grad()), dx);
  EXPECT_EQ(values(w.grad()), dw);
}

TEST_F(Checkpoint, KeepsOnlyTheInputs) {
  const Tensor x = ones({256}).requires_grad_();
  const int64_t at_start = detail::live_tensors();
  const auto deep = [](Tensor t) {
    for (int i = 0; i < 20; ++i) t = exp(t * 0.1);
    return t;
  };
  const Tensor plain = deep(x);
  const int64_t kept = detail::live_tensors() - at_start;
  const size_t bytes_before = memory_stats().allocated;
  const Tensor y = checkpoint(deep, x);
  EXPECT_LE(memory_stats().allocated - bytes_before, size_t{2 * 1024});
  EXPECT_GE(kept, 20);
  y.sum().backward();
}

TEST_F(Checkpoint, ReplaysTheRandomState) {
  const Tensor x = ones({1000}).requires_grad_();
  manual_seed(7);
  const Tensor y = checkpoint([](const Tensor& t) { return dropout(t, 0.5) * 3.0; }, x);
  const Doubles forward = values(y);
  (void)rand({10});  // others draw in between
  const GeneratorState before = default_generator().state();
  y.sum().backward();
  EXPECT_EQ(default_generator().state(), before);
  EXPECT_EQ(values(x.grad()), forward);  // x = 1: the gradient is the mask, scaled
}

TEST_F(Checkpoint, TakesSeveralInputsAndReturnsAnything) {
  const Tensor a = leaf(), b = leaf(), constant = tensor({1.0, 2.0, 3.0}, f64);
  const auto [sum, product] =
      checkpoint([](const Tensor& s, const Tensor& t, const Tensor& c) { return std::pair(s + t * c, exp(s) * t); }, a,
                 b, constant);
  (sum + product).sum().backward();
  EXPECT_NEAR(values(b.grad())[1], 2 + std::exp(-1.0), 1e-12);
}

TEST_F(Checkpoint, WorksWithCreateGraph) {
  const Tensor x = tensor({0.5}, f64).requires_grad_();
  const Tensor y = checkpoint([](const Tensor& t) { return exp(t * t); }, x);
  const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
  const double e = std::exp(0.25);
  EXPECT_NEAR(first.item<double>(), e, 1e-12);
  EXPECT_NEAR(grad({first}, {x})[0].item<double>(), e * (2 + 4 * 0.25), 1e-12);
}

TEST_F(Checkpoint, RunsOncePerBackwardOfARetainedGraph) {
  const Tensor x = leaf();
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        ++runs;
        return exp(exp(t));
      },
      x);
  const Tensor loss = y.sum();
  loss.backward({.retain_graph = true});
  loss.backward();
  EXPECT_EQ(runs, 3);
}

TEST_F(Checkpoint, Nests) {
  const Tensor x = leaf();
  const auto inner = [](const Tensor& t) { return exp(tanh(t)); };
  (inner(inner(x)) * x).sum().backward();
  const Doubles plain = values(x.grad());
  x.set_grad({});
  checkpoint([&](const Tensor& t) { return checkpoint(inner, checkpoint(inner, t)) * t; }, x).sum().backward();
  EXPECT_EQ(values(x.grad()), plain);
}

TEST_F(Checkpoint, GradcheckPasses) {
  const auto f = [](std::span<const Tensor> in) {
    return checkpoint([](const Tensor& a, const Tensor& b) { return tanh(a * b) + exp(a); }, in[0], in[1]);
  };
  const Tensor a = leaf(), b = leaf();
  const std::vector<Tensor> inputs{a, b};
  EXPECT_TRUE(gradcheck(f, inputs));
  EXPECT_TRUE(gradgradcheck(f, inputs));
}

TEST_F(Checkpoint, IsAPlainCallWhereNothingIsRecorded) {
  const NoGradGuard unrecorded;
  EXPECT_FALSE(checkpoint([](const Tensor& t) { return exp(t); }, leaf()).requires_grad());
}

TEST_F(Checkpoint, AFunctionThatChangesIsAnError) {
  const Tensor x = leaf();
  int runs = 0;
  const auto more = [&](const Tensor& t) { return ++runs == 1 ? exp(t) : exp(exp(t)); };
  EXPECT_NE(message_of<AutogradError>([&] {
              checkpoint_at(Location(), more, x).sum().backward();
            }).find("something else the second time"),
            std::string::npos);
  runs = 0;
  const auto fewer = [&](const Tensor& t) { return ++runs == 1 ? exp(exp(t)) : exp(t); };
  EXPECT_THROW(checkpoint(fewer, x).sum().backward(), AutogradError);
  runs = 0;
  const auto shape = [&](const Tensor& t) { return ++runs == 1 ? exp(t) : exp(t.slice(0, 0, 2)); };
  EXPECT_NE(message_of<AutogradError>([&] {
              checkpoint(shape, x).sum().backward();
            }).find("tensor 0 that it saved was float64 [3], now float64 [2]"),
            std::string::npos);
}

TEST_F(Checkpoint, AnInputWrittenSinceIsAnError) {
  const Tensor x = leaf();
  const Tensor h = x * 1.0;
  const Tensor loss = checkpoint([](const Tensor& t) { return exp(t); }, h).sum();
  {
    const NoGradGuard unrecorded;
    h.mul_(2.0);
  }
  EXPECT_NE(message_of<AutogradError>([&] { loss.backward(); })
                .find("[checkpoint] a tensor saved for backward was "
                      "modified"),
            std::string::npos);
}

TEST_F(Checkpoint, BackwardInsideTheFunctionIsAnError) {
  const Tensor x = leaf();
  const auto f = [](const Tensor& t) {
    const Tensor y = exp(t).sum();
    return y * grad({y}, {t}, {}, {.retain_graph = true})[0].sum();
  };
  EXPECT_NE(message_of<AutogradError>([&] { (void)checkpoint(f, x); }).find("backward runs inside"), std::string::npos);
}

TEST_F(Checkpoint, AThrowingFunctionLeavesNothingBehind) {
  const Tensor x = leaf();
  int runs = 0;
  const auto f = [&](const Tensor& t) {
    if (++runs == 2) throw std::runtime_error("second run");
    return exp(t);
  };
  EXPECT_THROW(checkpoint(f, x).sum().backward(), std::runtime_error);
  exp(x).sum().backward();
  EXPECT_NEAR(values(x.grad())[0], std::exp(0.5), 1e-12);
}

}  // namespace
}  // namespace weft
