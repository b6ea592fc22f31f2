// Module hooks: forward and backward, with in-place activations, shared inputs and several outputs.
#include "hooks/values.hpp"

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

namespace weft {
namespace {

using ModuleHooks = LiveCount;

struct Scale : nn::Layer<Scale> {
  nn::Parameter weight;
  explicit Scale(double by) : weight(tensor({by}, f64)) { register_parameter("weight", weight); }
  Tensor forward(const Tensor& x) const { return x * weight; }
};

struct Two : nn::Layer<Two> {
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b, double by) const { return {a * by, a + b}; }
};

struct Same : nn::Layer<Same> {
  Tensor forward(const Tensor& x) const { return x; }
};

struct Writes : nn::Layer<Writes> {
  Tensor forward(const Tensor& x) const { return x.mul_(3.0); }
};

Tensor leaf(double v = 2.0) { return tensor({v}, f64).requires_grad_(); }

TEST_F(ModuleHooks, ForwardSeeAndReplaceInputAndOutput) {
  Scale m(3.0);
  std::string order;
  m.register_forward_pre_hook([&](const nn::ForwardEvent& e) {
    order += "before ";
    EXPECT_TRUE(e.module.same_as(m));
    EXPECT_EQ(values(e.input()), Doubles{2});
    EXPECT_TRUE(e.outputs.empty());
    EXPECT_NE(e.location.text().find("module_hooks_test.cpp"), std::string::npos);
  });
  m.register_forward_pre_hook([](const Tensor& x) { return x + 1.0; });
  m.register_forward_hook([&](const nn::ForwardEvent& e) {
    order += "after";
    EXPECT_EQ(values(e.input()), Doubles{3});
    EXPECT_EQ(values(e.output()), Doubles{9});
  });
  m.register_forward_hook([](const Tensor& y) -> std::optional<Tensor> { return y * 10.0; });
  EXPECT_EQ(values(m(leaf())), Doubles{90});
  EXPECT_EQ(order, "before after");
}

struct Throws : nn::Layer<Throws> {
  Tensor forward(const Tensor& x) const {
    if (values(x)[0] < 0) throw std::runtime_error("negative");
    return x * 2.0;
  }
};

/// "(" for a begin, ")" for an end, "!" for a failure.
auto noting(std::string& told) {
  return [&told](const nn::ForwardEvent& e) {
    const bool failed = e.phase == nn::ForwardPhase::failed;
    EXPECT_TRUE(!failed || e.outputs.empty());
    told += e.phase == nn::ForwardPhase::before ? '(' : failed ? '!' : ')';
  };
}

TEST_F(ModuleHooks, ACallHookIsCalledAtBothEndsAlsoIfForwardThrows) {
  Throws m;
  std::string told;
  HookHandle handle = m.register_call_hook(noting(told));
  m(tensor({1.0}));
  EXPECT_THROW(m(tensor({-1.0})), std::runtime_error);
  m(tensor({1.0}));
  EXPECT_EQ(told, "()(!()");
  EXPECT_TRUE(handle.remove());
  m(tensor({1.0}));
  EXPECT_EQ(told, "()(!()");
}

TEST_F(ModuleHooks, ACallHookWithoutABeginGetsNoEnd) {
  Throws m;
  std::string first, second;
  bool throws_before = true, throws_after = false;
  m.register_call_hook(noting(first));
  m.register_forward_pre_hook([&](const Tensor&) {
    if (throws_before) throw std::runtime_error("hook");
  });
  m.register_call_hook(noting(second));
  EXPECT_THROW(m(tensor({1.0})), std::runtime_error);
  EXPECT_EQ(first, "(!");
  EXPECT_EQ(second, "");
  throws_before = false;
  m.register_forward_hook([&](const Tensor&) {
    if (throws_after) throw std::runtime_error("hook");
  });
  throws_after = true;
  EXPECT_THROW(m(tensor({1.0})), std::runtime_error);
  EXPECT_EQ(first, "(!()");  // the end was told before the other hook threw
  EXPECT_EQ(second, "()");
}

TEST_F(ModuleHooks, CallsInsideACallFailFromTheInside) {
  nn::Sequential net(Throws{}, Throws{});
  std::string told;
  net.register_call_hook(
      [&](const nn::ForwardEvent& e) { told += e.phase == nn::ForwardPhase::failed ? "outer!" : "("; });
  net.children()[1].register_call_hook([&](const nn::ForwardEvent& e) {
    if (e.phase != nn::ForwardPhase::failed) return;
    told += "inner!";
    throw std::runtime_error("lost");  // the call's own error is told
  });
  net.children()[0].register_forward_hook([](const Tensor& y) { return -y; });
  EXPECT_EQ(message_of<std::runtime_error>([&] { net(tensor({1.0})); }), "negative");
  EXPECT_EQ(told, "(inner!outer!");
}

TEST_F(ModuleHooks, ResultsOfCallHooksAreIgnoredAndRemovedOnesNotCalled) {
  Throws m;
  int calls = 0;
  HookHandle handle;
  handle = m.register_call_hook([&](const Tensor&) {
    ++calls;
    handle.remove();
    return tensor({100.0});
  });
  EXPECT_EQ(values(m(tensor({1.0}))), Doubles{2});
  EXPECT_EQ(calls, 1);
}

TEST_F(ModuleHooks, ForwardOfSeveralInputsAndOutputs) {
  Two m;
  m.register_forward_pre_hook([](const nn::ForwardEvent& e) {
    EXPECT_EQ(e.inputs.size(), 2u);
    return std::vector{Tensor(), e.inputs[1] * 2.0};
  });
  m.register_forward_hook([](const nn::ForwardEvent& e) {
    EXPECT_EQ(e.outputs.size(), 2u);
    return std::vector{e.outputs[0] + 100.0, Tensor()};
  });
  const auto [first, second] = m(tensor({1.0}), tensor({5.0}), 4.0);
  EXPECT_EQ(values(first), Doubles{104});
  EXPECT_EQ(values(second), Doubles{11});
  m.register_forward_hook([](const nn::ForwardEvent&) { return std::vector<Tensor>(3); });
  EXPECT_THROW((void)m(tensor({1.0}), tensor({5.0}), 4.0), ValueError);
}

TEST_F(ModuleHooks, BackwardSeeAndReplaceGradients) {
  Scale m(3.0);
  const Tensor x = leaf();
  std::string order;
  m.register_backward_pre_hook([&](const GradEvent& e) {
    order += "before ";
    EXPECT_EQ(e.phase, GradPhase::module_before);
    EXPECT_EQ(values(e.incoming[0]), Doubles{5});
    return e.grad * 2.0;
  });
  m.register_backward_hook([&](const GradEvent& e) {
    order += "after";
    EXPECT_EQ(e.phase, GradPhase::module_after);
    EXPECT_EQ(values(e.incoming[0]), Doubles{10});
    EXPECT_EQ(values(e.outgoing[0]), Doubles{30});
    return e.grad + 1.0;
  });
  (m(x) * 5.0).backward();
  EXPECT_EQ(order, "before after");
  EXPECT_EQ(x.grad().item<double>(), 31);
  EXPECT_EQ(m.weight.grad().item<double>(), 20);
}

TEST_F(ModuleHooks, NeverWrapTheOutputAndSurviveAnInPlaceActivation) {
  Scale m(3.0);
  const Tensor x = leaf();
  Doubles out, in;
  m.register_backward_hook([&](const GradEvent& e) {
    out = values(e.incoming[0]);
    in = values(e.outgoing[0]);
  });
  Tensor y = m(x);
  y.mul_(2.0);
  y.add_(1.0);
  relu_(y);
  y.backward();
  EXPECT_EQ(out, Doubles{2});
  EXPECT_EQ(in, Doubles{6});
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST_F(ModuleHooks, AnInputUsedOutsideToIsNotInTheModulesSum) {
  Scale m(3.0);
  const Tensor x = leaf();
  const Tensor h = x * 1.0;
  Doubles in;
  m.register_backward_hook([&](const Tensor& g) { in = values(g); });
  (m(h) + h * 100.0 + h * h).backward();
  EXPECT_EQ(in, Doubles{3});
  EXPECT_EQ(x.grad().item<double>(), 3 + 100 + 4);
}

TEST_F(ModuleHooks, SumOverAllUsesInside) {
  struct Square : nn::Layer<Square> {
    Tensor forward(const Tensor& x) const { return x * x + x; }
  } m;
  const Tensor x = leaf();
  Doubles in;
  m.register_backward_hook([&](const Tensor& g) { in = values(g); });
  (m(x) + x).backward();
  EXPECT_EQ(in, Doubles{5});
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST_F(ModuleHooks, FireOncePerCall) {
  Scale m(3.0);
  const Tensor x = leaf();
  Doubles in;
  m.register_backward_hook([&](const Tensor& g) { in.push_back(g.item<double>()); });
  m(m(x)).backward();
  EXPECT_EQ(in, (Doubles{3, 9}));
}

TEST_F(ModuleHooks, WhereNoInputNeedsAGradientFireWithTheOutputs) {
  Scale m(3.0);
  int calls = 0;
  m.register_backward_hook([&](const GradEvent& e) {
    ++calls;
    ASSERT_EQ(e.outgoing.size(), 1u);
    EXPECT_FALSE(e.outgoing[0].defined());
    EXPECT_EQ(values(e.incoming[0]), Doubles{4});
  });
  (m(tensor({2.0}, f64)) * 4.0).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(m.weight.grad().item<double>(), 8);
}

TEST_F(ModuleHooks, SeveralInputsAndOutputsSomeUnused) {
  Two m;
  const Tensor a = leaf(1.0), b = leaf(2.0);
  int before = 0, after = 0;
  m.register_backward_pre_hook([&](const GradEvent&) { ++before; });
  m.register_backward_hook([&](const GradEvent& e) {
    ++after;
    ASSERT_EQ(e.incoming.size(), 2u);
    ASSERT_EQ(e.outgoing.size(), 2u);
    if (after == 1) {
      EXPECT_FALSE(e.incoming[1].defined());
      EXPECT_FALSE(e.outgoing[1].defined());
      EXPECT_EQ(values(e.outgoing[0]), Doubles{4});
    } else {
      EXPECT_EQ(values(e.outgoing[0]), Doubles{5});
      EXPECT_EQ(values(e.outgoing[1]), Doubles{1});
    }
  });
  m(a, b, 4.0).first.backward();
  EXPECT_EQ(before, 1);
  const auto both = m(a, b, 4.0);
  (both.first + both.second).backward();
  EXPECT_EQ(before, 3);
  EXPECT_EQ(after, 2);
  EXPECT_EQ(a.grad().item<double>(), 9);
}

TEST_F(ModuleHooks, AModuleThatReturnsItsInput) {
  Same m;
  const Tensor x = leaf();
  std::string order;
  m.register_backward_pre_hook([&](const Tensor& g) {
    order += "before ";
    return g * 2.0;
  });
  m.register_backward_hook([&](const Tensor& g) {
    order += "after";
    EXPECT_EQ(values(g), Doubles{2});
  });
  m(x * 1.0).backward();
  EXPECT_EQ(order, "before after");
  EXPECT_EQ(x.grad().item<double>(), 2);
}

TEST_F(ModuleHooks, AModuleThatWritesToItsInputWritesToTheCallersTensor) {
  for (const bool hooked : {false, true}) {
    Writes m;
    const Tensor x = leaf();
    const Tensor h = x * 1.0;
    Doubles in;
    if (hooked) m.register_backward_hook([&](const Tensor& g) { in = values(g); });
    const Tensor y = m(h);
    EXPECT_EQ(values(h), Doubles{6});
    (y + h).backward();
    EXPECT_EQ(x.grad().item<double>(), 6) << hooked;
    if (hooked) {
      EXPECT_EQ(in, Doubles{6});
    }
  }
}

TEST_F(ModuleHooks, GradientsEqualThoseWithoutHooks) {
  manual_seed(3);
  nn::Linear m(4, 3);
  const Tensor x = rand({5, 4}).requires_grad_();
  const auto run = [&] {
    x.set_grad({});
    m.zero_grad();
    tanh(m(x)).sum().backward();
    return std::pair(values(x.grad()), values(m.weight.grad()));
  };
  const auto plain = run();
  m.register_forward_hook([](const nn::ForwardEvent&) {});
  m.register_backward_hook([](const GradEvent&) {});
  EXPECT_EQ(run(), plain);
}

TEST_F(ModuleHooks, WorkWithCreateGraph) {
  Scale m(3.0);
  const Tensor x = leaf();
  m.register_backward_hook([](const Tensor& g) { return g * 2.0; });
  const Tensor y = m(x * x);
  const Tensor g = grad({y}, {x}, {}, {.create_graph = true})[0];  // 2·3·2x
  EXPECT_EQ(g.item<double>(), 24);
  EXPECT_EQ(grad({g}, {x})[0].item<double>(), 12);
}

TEST_F(ModuleHooks, AWrongGradientIsAnError) {
  Scale m(3.0);
  const Tensor x = leaf();
  m.register_backward_hook([](const Tensor&) { return zeros({7}, f64); });
  EXPECT_NE(message_of<ShapeError>([&] { m(x).backward(); }).find("a hook on the result of nn::Module call"),
            std::string::npos);
}

TEST_F(ModuleHooks, AreRemovedSharedByCopiesAndNotByClones) {
  Scale m(3.0);
  int calls = 0;
  HookHandle handle = m.register_forward_hook([&](const Tensor&) { ++calls; });
  const Scale copy = m;
  const Scale clone = m.clone();
  (void)copy(leaf());
  (void)clone(leaf());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(handle.remove());
  (void)m(leaf());
  EXPECT_EQ(calls, 1);
}

TEST_F(ModuleHooks, AreSilentUnderNoGrad) {
  Scale m(3.0);
  int forward = 0;
  m.register_forward_hook([&](const Tensor&) { ++forward; });
  m.register_backward_hook([](const GradEvent&) { FAIL(); });
  const NoGradGuard unrecorded;
  EXPECT_FALSE(m(leaf()).requires_grad());
  EXPECT_EQ(forward, 1);
}

TEST_F(ModuleHooks, TheFirstOnesMayComeFromManyThreads) {
  for (int round = 0; round < 200; ++round) {
    Scale m(3.0);
    std::atomic<int> waiting{4}, calls{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        if (t < 3) m.register_forward_hook([&](const nn::ForwardEvent&) { ++calls; });
        else m(tensor({1.0}, f64));
      });
    }
    for (std::thread& thread : threads) thread.join();
    calls = 0;
    m(tensor({1.0}, f64));
    ASSERT_EQ(calls, 3);
  }
}

TEST_F(ModuleHooks, AThrowingHookLeavesNothingBehind) {
  Scale m(3.0);
  const Tensor x = leaf();
  HookHandle handle = m.register_backward_hook([](const Tensor&) { throw std::runtime_error("from the hook"); });
  EXPECT_THROW(m(x).backward(), std::runtime_error);
  handle.remove();
  x.set_grad({});
  m(x).backward();
  EXPECT_EQ(x.grad().item<double>(), 3);
}

}  // namespace
}  // namespace weft
