// Gradient hooks: order, replacement, versions, removal, errors, threads.
#include "hooks/values.hpp"

#include <atomic>
#include <optional>
#include <thread>

namespace weft {
namespace {

using TensorHooks = LiveCount;

Tensor leaf() { return tensor({1.0, 2.0}).requires_grad_(); }
Tensor weighted(const Tensor& y) { return (y * tensor({1.0, 10.0})).sum(); }

TEST_F(TensorHooks, OfAResultReplacesTheGradientBeforeItsProducer) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0;
  y.register_hook([](const Tensor& g) { return g * 2.0; });
  weighted(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{6, 60}));
}

TEST_F(TensorHooks, RunInOrderEachOnTheResultOfTheOneBefore) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0;
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g + 1.0; });
  y.register_hook([](const Tensor& g) { return g * 2.0; });
  weighted(y).backward();
  EXPECT_EQ(values(y.grad()), (Doubles{4, 22}));
  EXPECT_EQ(values(x.grad()), (Doubles{12, 66}));
}

TEST_F(TensorHooks, OfALeafChangeIncomingNotAccumulatedGradients) {
  const Tensor x = leaf();
  weighted(x).backward();
  x.register_hook([](const Tensor& g) { return zeros_like(g); });
  weighted(x).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 10}));
}

TEST_F(TensorHooks, FireOncePerBackwardOnTheSumOfAllUses) {
  const Tensor x = leaf();
  std::vector<Doubles> seen;
  x.register_hook([&](const Tensor& g) { seen.push_back(values(g)); });
  (x + x).sum().backward();
  EXPECT_EQ(seen, (std::vector<Doubles>{{2, 2}}));
}

TEST_F(TensorHooks, CountBackwardsAndSeeOnlyNewGradients) {
  const Tensor x = tensor({5.0}).requires_grad_();
  Doubles arrived;
  x.register_hook([&](const Tensor& g) { arrived.push_back(g.item<double>()); });
  for (int i = 1; i <= 5; ++i) {
    (x * x * x * x).backward();
    EXPECT_EQ(x.grad().item<double>(), 500.0 * i);
  }
  EXPECT_EQ(arrived, Doubles(5, 500.0));
}

TEST_F(TensorHooks, MayReturnNothingATensorOrAnOptional) {
  const Tensor x = leaf();
  x.register_hook([](const Tensor&) {});
  x.register_hook([](const Tensor&) { return Tensor(); });
  x.register_hook([](const Tensor&) -> std::optional<Tensor> { return {}; });
  x.register_hook([](const Tensor& g) -> std::optional<Tensor> { return g * 3.0; });
  x.register_hook([](const GradEvent& e) { return e.grad + 1.0; });
  x.sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{4, 4}));
}

TEST_F(TensorHooks, ReceiveTensorOpAndLocation) {
  const Tensor x = leaf();
  const Tensor y = exp(x);
  int seen = 0;
  y.register_hook([&](const GradEvent& e) {
    ++seen;
    EXPECT_EQ(e.phase, GradPhase::gradient);
    EXPECT_STREQ(e.op, "exp");
    EXPECT_NE(e.location.text().find("tensor_hooks_test.cpp"), std::string::npos);
    EXPECT_EQ(values(e.tensor), values(exp(tensor({1.0, 2.0}))));
    EXPECT_FALSE(e.tensor.requires_grad());
    EXPECT_NE(e.node, nullptr);
  });
  x.register_hook([&](const GradEvent& e) {
    ++seen;
    EXPECT_EQ(e.tensor.impl(), x.impl());
    EXPECT_STREQ(e.op, "accumulate_grad");
  });
  y.sum().backward();
  EXPECT_EQ(seen, 2);
}

TEST_F(TensorHooks, FireInGradToo) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0;
  int of_x = 0;
  x.register_hook([&](const Tensor& g) {
    ++of_x;
    return g + 0.5;
  });
  y.register_hook([](const Tensor& g) { return g * 2.0; });
  EXPECT_EQ(values(grad({weighted(y)}, {x})[0]), (Doubles{6.5, 60.5}));
  EXPECT_EQ(of_x, 1);
  const Tensor z = x * 3.0;
  z.register_hook([](const Tensor& g) { return g * 2.0; });
  EXPECT_EQ(values(grad({weighted(z)}, {z})[0]), (Doubles{2, 20}));
  EXPECT_FALSE(x.grad().defined());
}

TEST_F(TensorHooks, RetainedGradientIsTheHooksResultInAnyOrder) {
  for (const bool first : {true, false}) {
    const Tensor x = leaf();
    const Tensor y = x * 3.0;
    if (first) y.retain_grad();
    y.register_hook([](const Tensor& g) { return g * 5.0; });
    if (!first) y.retain_grad();
    y.sum().backward();
    EXPECT_EQ(values(y.grad()), (Doubles{5, 5}));
  }
}

TEST_F(TensorHooks, RetainedGradientFollowsTheTensorThroughAnInPlaceOp) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0;
  y.retain_grad();
  y.mul_(2.0);
  weighted(y).backward();
  EXPECT_EQ(values(y.grad()), (Doubles{1, 10}));
  EXPECT_EQ(values(x.grad()), (Doubles{6, 60}));
}

TEST_F(TensorHooks, RetainedGradientsOfHigherOrderDieWithTheirTensor) {
  const Tensor x = leaf();
  const Tensor y = x * x;
  y.retain_grad();
  (y * y).sum().backward({.create_graph = true});
  EXPECT_TRUE(y.grad().requires_grad());  // it leads back to y
  EXPECT_EQ(values(y.grad()), (Doubles{2, 8}));
  x.set_grad({});
}

TEST_F(TensorHooks, BelongToTheVersionTheyWereRegisteredOn) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0;
  Doubles older, newer;
  y.register_hook([&](const Tensor& g) { older = values(g); });
  y.mul_(4.0);
  y.register_hook([&](const Tensor& g) { newer = values(g); });
  weighted(y).backward();
  EXPECT_EQ(newer, (Doubles{1, 10}));
  EXPECT_EQ(older, (Doubles{4, 40}));
}

/// A result and its views, with counting hooks and retained gradients.
struct Viewed {
  Tensor w = ones({3, 3}).requires_grad_(), x = w * 1.0;
  std::vector<double> sums;

  Tensor watched(Tensor view) {
    view.register_hook([this](const Tensor& g) { sums.push_back(g.sum().item<double>()); });
    view.retain_grad();
    return view;
  }
};

TEST_F(TensorHooks, OfAViewRunAndItsGradientIsKeptAfterItsBaseWasWritten) {
  using Write = void (*)(const Tensor& x);
  const Write writes[] = {
      [](const Tensor& x) { x[0] = 1; },
      [](const Tensor& x) { x[0] = 1, x[0] = 2; },
      [](const Tensor& x) { x[1] = 1; },
      [](const Tensor& x) { x[x > 5] = 1; },
      [](const Tensor& x) { x[tensor({0})] = 1; },
      [](const Tensor& x) { x.mul_(2); },
      [](const Tensor& x) { Tensor(x[{Slice(0, 2)}]).mul_(2); },
      [](const Tensor& x) { x.detach()[0] = 1; },
      [](const Tensor& x) {
        const NoGradGuard unrecorded;
        x[0] = 1;
      },
  };
  using View = Tensor (*)(const Tensor& x);
  const View views[] = {
      [](const Tensor& x) -> Tensor { return x[{Slice(1, none)}]; },
      [](const Tensor& x) -> Tensor { return Tensor(x[{Slice(1, none)}])[0]; },
      [](const Tensor& x) { return x.t(); },
      [](const Tensor& x) { return x.unbind()[1]; },
      [](const Tensor& x) { return x.split(2)[1]; },
      [](const Tensor& x) { return x.view({9}); },
  };
  for (const View view : views) {
    for (const Write write : writes) {
      Viewed v;
      const Tensor y = v.watched(view(v.x));
      write(v.x);
      y.sum().backward();
      EXPECT_EQ(v.sums, Doubles{static_cast<double>(y.numel())});
      ASSERT_TRUE(y.grad().defined());
      EXPECT_EQ(values(y.grad()), Doubles(static_cast<size_t>(y.numel()), 1.0));
    }
  }
}

TEST_F(TensorHooks, OfAViewReplaceTheGradientAndAreRemovedAfterItsBaseWasWritten) {
  Viewed v;
  const Tensor y = v.x[{Slice(1, none)}];
  HookHandle twice = y.register_hook([](const Tensor& g) { return g * 2.0; });
  v.x[0] = 1;
  y.register_hook([](const Tensor& g) { return g * 5.0; });
  y.sum().backward({.retain_graph = true});
  EXPECT_EQ(values(v.w.grad()), (Doubles{0, 0, 0, 10, 10, 10, 10, 10, 10}));
  EXPECT_TRUE(twice.remove());
  v.w.set_grad({});
  y.sum().backward();
  EXPECT_EQ(values(v.w.grad()), (Doubles{0, 0, 0, 5, 5, 5, 5, 5, 5}));
}

TEST_F(TensorHooks, OfAViewRunForUsesBeforeAndAfterAWriteOfItsBase) {
  Viewed v;
  const Tensor y = v.watched(v.x[{Slice(1, none)}]);
  const Tensor before = (y * 2.0).sum();
  v.x[0] = 1;
  EXPECT_EQ(values(grad({y.sum()}, {y})[0]), Doubles(6, 1.0));
  (before + y.sum()).backward();
  EXPECT_EQ(v.sums, (Doubles{6, 6, 12}));
  EXPECT_EQ(values(v.w.grad()), (Doubles{0, 0, 0, 3, 3, 3, 3, 3, 3}));
}

TEST_F(TensorHooks, OfAViewThatWasWrittenItselfSeeTheOlderValueAndTheRetainedGradientTheNewOne) {
  Viewed v;
  const Tensor y = v.watched(v.x[{Slice(1, none)}]);
  y.mul_(2);
  v.x[0] = 1;
  y.sum().backward();
  EXPECT_EQ(v.sums, Doubles{12});
  EXPECT_EQ(values(y.grad()), Doubles(6, 1.0));
}

TEST_F(TensorHooks, OfABaseSeeTheViewsUsesAfterAWrite) {
  Viewed v;
  v.watched(v.x);
  const Tensor y = v.x[{Slice(1, none)}];
  v.x[0] = 1;
  y.sum().backward();
  EXPECT_EQ(v.sums, Doubles{6});
  EXPECT_EQ(values(v.x.grad()), (Doubles{0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

TEST_F(TensorHooks, OfAViewDieWithItsGraphAfterAWriteOfItsBase) {
  Viewed v;
  const Tensor y = v.x[{Slice(1, none)}];
  y.register_hook([y](const Tensor&) {});
  const Tensor before = (y * 2.0).sum();
  v.x[0] = 1;
  (before + y.sum()).backward();
}

TEST_F(TensorHooks, AreNotCalledWhereNoGradientArrives) {
  const Tensor x = leaf();
  const auto parts = x.unbind(0);
  const Tensor unused = x * 2.0;
  int calls = 0;
  unused.register_hook([&](const Tensor&) { ++calls; });
  parts[1].register_hook([&](const Tensor&) { ++calls; });
  (parts[0] * 3.0 + (x * 2.0).detach().sum()).backward();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(values(x.grad()), (Doubles{3, 0}));
}

TEST_F(TensorHooks, AreDifferentiatedWithCreateGraph) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const Tensor y = x * x;
  y.register_hook([&](const Tensor& g) { return g * x; });
  const Tensor first = grad({y.sum()}, {x}, {}, {.create_graph = true})[0];  // 2x·x
  EXPECT_EQ(first.item<double>(), 8.0);
  EXPECT_EQ(grad({first}, {x})[0].item<double>(), 8.0);  // 4x
}

TEST_F(TensorHooks, RunUnrecordedWithoutCreateGraph) {
  const Tensor x = leaf();
  x.register_hook([&](const Tensor& g) {
    EXPECT_FALSE((g * x).requires_grad());
    EXPECT_FALSE(grad_mode().enabled);
  });
  x.sum().backward();
}

// ---- registration and removal ----

TEST_F(TensorHooks, NeedATensorThatRequiresAGradient) {
  const Tensor x = tensor({1.0});
  const auto text = message_of<ValueError>([&] { x.register_hook([](const Tensor&) {}); });
  EXPECT_NE(text.find("no gradient flows to this tensor"), std::string::npos);
  EXPECT_THROW(Tensor().register_hook([](const Tensor&) {}), ValueError);
}

TEST_F(TensorHooks, RemoveIsTrueOnceAndSafeAfterTheTensorDied) {
  HookHandle handle, late;
  {
    const Tensor x = leaf();
    int calls = 0;
    handle = x.register_hook([&](const Tensor&) { ++calls; });
    late = x.register_hook([](const Tensor&) {});
    x.sum().backward();
    EXPECT_TRUE(handle.remove());
    EXPECT_FALSE(handle.remove());
    x.sum().backward();
    EXPECT_EQ(calls, 1);
  }
  EXPECT_FALSE(handle.remove());
  EXPECT_FALSE(late.remove());
  EXPECT_FALSE(HookHandle().remove());
}

TEST_F(TensorHooks, AScopedHookGoesWithItsScope) {
  const Tensor x = leaf();
  int calls = 0;
  {
    const ScopedHook hook = x.register_hook([&](const Tensor&) { ++calls; });
    x.sum().backward();
  }
  x.sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST_F(TensorHooks, MayRemoveThemselvesAndOthers) {
  const Tensor x = leaf();
  std::vector<int> order;
  HookHandle second;
  HookHandle first = x.register_hook([&](const Tensor&) {
    order.push_back(1);
    EXPECT_TRUE(first.remove());
    EXPECT_TRUE(second.remove());
  });
  second = x.register_hook([&](const Tensor&) { order.push_back(2); });
  x.sum().backward();  // those of one firing run to the end of the list
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  x.sum().backward();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(TensorHooks, AddedInsideAHookRunFromTheNextBackwardOn) {
  const Tensor x = leaf();
  int added = 0;
  HookHandle once = x.register_hook([&](const Tensor&) {
    x.register_hook([&](const Tensor&) { ++added; });
    once.remove();
  });
  x.sum().backward();
  EXPECT_EQ(added, 0);
  x.sum().backward();
  EXPECT_EQ(added, 1);
}

TEST_F(TensorHooks, AResultsHooksDieWithItsGraph) {
  const Tensor x = leaf();
  const auto token = std::make_shared<int>(0);
  const Tensor y = x * 2.0;
  const HookHandle handle = y.register_hook([token, y](const Tensor&) {});  // holds its own tensor
  EXPECT_EQ(token.use_count(), 2);
  y.sum().backward();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(TensorHooks, ALeafInItsOwnHookIsACycleUntilRemoved) {
  HookHandle handle;
  const auto token = std::make_shared<int>(0);
  {
    const Tensor x = leaf();
    handle = x.register_hook([token, x](const Tensor&) {});
    x.sum().backward();
  }
  EXPECT_EQ(token.use_count(), 2);
  EXPECT_TRUE(handle.remove());
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(TensorHooks, AWeakLeafDoesNotKeepItsLeaf) {
  WeakLeaf after;
  {
    const Tensor w = tensor({1.0, 2.0}).requires_grad_();
    const WeakLeaf weak(w);
    after = weak;
    w.register_hook([weak](const Tensor& g) { return g + weak.lock(); });
    (w * 3.0).sum().backward();
    EXPECT_EQ(values(w.grad()), (Doubles{4, 5}));
    EXPECT_EQ(weak.lock().impl(), w.impl());
  }
  EXPECT_FALSE(after.lock().defined());
  EXPECT_FALSE(WeakLeaf().lock().defined());
  EXPECT_EQ(message_of<ValueError>([] { WeakLeaf(tensor({1.0}) * 2.0); }).find("[WeakLeaf]"), 0U);
}

TEST_F(TensorHooks, OfAnUnusedGraphDieWithTheTensor) {
  const Tensor x = leaf();
  (x * 2.0).register_hook([](const GradEvent&) {});
}

// ---- errors of hooks ----

TEST_F(TensorHooks, AWrongShapeDtypeOrDeviceIsAnErrorThatNamesTheTensor) {
  const Tensor x = leaf();
  const auto with = [&](const Tensor& wrong) {
    return [&x, wrong] {
      const Tensor y = exp(x);
      y.register_hook([wrong](const Tensor&) { return wrong; });
      y.sum().backward();
    };
  };
  const auto text = message_of<ShapeError>(with(zeros({3})));
  EXPECT_NE(text.find("a hook on the result of exp at"), std::string::npos) << text;
  EXPECT_NE(text.find("gradient float32 [2] on cpu, returned float32 [3] on cpu"), std::string::npos) << text;
  EXPECT_NE(text.find("; registered at "), std::string::npos) << text;
  EXPECT_THROW(with(zeros({2}, f64))(), DTypeError);
  EXPECT_THROW(with(zeros({2}, Device("meta")))(), DeviceError);
  EXPECT_FALSE(x.grad().defined());
}

TEST_F(TensorHooks, AThrowingHookAbortsAndTheNextBackwardWorks) {
  const Tensor x = leaf(), w = leaf();
  const auto throwing = x.register_hook([](const Tensor&) { throw std::runtime_error("from the hook"); });
  EXPECT_THROW((x * w).sum().backward(), std::runtime_error);
  EXPECT_FALSE(x.grad().defined());
  HookHandle(throwing).remove();
  w.set_grad({});
  (x * w).sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 2}));
  EXPECT_EQ(values(w.grad()), (Doubles{1, 2}));
}

TEST_F(TensorHooks, AKeptGradientIsNeverWrittenAgain) {
  const Tensor x = leaf();
  std::vector<Tensor> kept;
  const Tensor y = x * 3.0;
  y.register_hook([&](const Tensor& g) { kept.push_back(g); });
  x.register_hook([&](const Tensor& g) { kept.push_back(g.view({2, 1})); });
  (y + y * 2.0 + x).sum().backward();
  (x * 100.0).sum().backward();
  EXPECT_EQ(values(kept[0]), (Doubles{3, 3}));
  EXPECT_EQ(values(kept[1]), (Doubles{10, 10}));
  EXPECT_EQ(values(x.grad()), (Doubles{110, 110}));
}

TEST_F(TensorHooks, WritingIntoTheGradientNeedsReturningIt) {
  const Tensor x = leaf();
  const auto run = [&](auto hook) {
    const Tensor y = x * 3.0;
    y.register_hook(hook);
    (y * y).sum().backward();
  };
  const auto text = message_of<AutogradError>([&] { run([](const Tensor& g) { g.mul_(2.0); }); });
  EXPECT_NE(text.find("wrote to its gradient in place and did not return it"), std::string::npos) << text;
  EXPECT_THROW(run([](const Tensor& g) {
                 g.mul_(2.0);
                 return g * 1.0;
               }),
               AutogradError);
  x.set_grad({});
  run([](const Tensor& g) { return g.mul_(2.0); });
  EXPECT_EQ(values(x.grad()), (Doubles{36, 72}));
}

TEST_F(TensorHooks, WritingIntoAGradientThatOthersHoldIsAnError) {
  const Tensor x = leaf(), w = leaf();
  x.register_hook([](const Tensor& g) { return g.mul_(2.0); });
  const Tensor seed = tensor({1.0, 1.0});
  const auto text = message_of<AutogradError>([&] { (x + w).backward(seed); });
  EXPECT_NE(text.find("which others hold too"), std::string::npos) << text;
}

TEST_F(TensorHooks, MayRunABackwardOfTheirOwn) {
  const Tensor x = leaf(), w = leaf();
  const Tensor y = x * 3.0;
  y.register_hook([&](const Tensor& g) {
    const EnableGradGuard recorded;
    (w * g.detach() + x).sum().backward();  // into x, which the outer pass will reach
  });
  weighted(y).backward();
  EXPECT_EQ(values(w.grad()), (Doubles{1, 10}));
  EXPECT_EQ(values(x.grad()), (Doubles{4, 31}));
}

TEST_F(TensorHooks, MayRunTheSameRetainedGraphOnce) {
  const Tensor x = leaf();
  const Tensor y = x * 3.0, z = weighted(y);
  int depth = 0;
  y.register_hook([&](const Tensor&) {
    if (depth++ == 0) z.backward({.retain_graph = true});
  });
  z.backward({.retain_graph = true});
  EXPECT_EQ(depth, 2);
  EXPECT_EQ(values(x.grad()), (Doubles{6, 60}));
}

TEST_F(TensorHooks, RunFromTwoThreadsAndMayBeAddedAndRemovedMeanwhile) {
  const Tensor x = ones({8}).requires_grad_();
  std::atomic<int> calls{0};
  const HookHandle counting = x.register_hook([&](const Tensor&) { ++calls; });
  constexpr int rounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) (x * 2.0).sum().backward();
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < rounds; ++i) {
      HookHandle h = x.register_hook([](const Tensor& g) { return g * 1.0; });
      EXPECT_TRUE(h.remove());
    }
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(calls, 2 * rounds);
  EXPECT_EQ(values(x.grad()), Doubles(8, 2.0 * 2 * rounds));
}

TEST_F(TensorHooks, FirstHooksOfOneTensorMayComeFromTwoThreads) {
  for (int round = 0; round < 50; ++round) {
    const Tensor x = ones({2}).requires_grad_();
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) threads.emplace_back([&] { x.register_hook([&](const Tensor&) { ++calls; }); });
    for (auto& t : threads) t.join();
    x.sum().backward();
    EXPECT_EQ(calls, 2);
  }
}

}  // namespace
}  // namespace weft
