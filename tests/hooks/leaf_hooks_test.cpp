// Post-accumulate hooks of leaves, and firing them by hand.
#include "hooks/values.hpp"

namespace weft {
namespace {

using LeafHooks = LiveCount;

Tensor leaf() { return tensor({1.0, 2.0}).requires_grad_(); }

TEST_F(LeafHooks, FireOnceWhenGradHoldsTheSum) {
  const Tensor x = leaf();
  std::vector<Doubles> seen;
  x.register_post_accumulate_grad_hook([&](const Tensor& t) { seen.push_back(values(t.grad())); });
  (x * 2.0 + x * 3.0).sum().backward();
  x.sum().backward();
  EXPECT_EQ(seen, (std::vector<Doubles>{{5, 5}, {6, 6}}));
}

TEST_F(LeafHooks, FireAfterGradientHooksInOrderWithTheEvent) {
  const Tensor x = leaf();
  std::string order;
  x.register_post_accumulate_grad_hook([&](const GradEvent& e) {
    order += "b";
    EXPECT_EQ(e.phase, GradPhase::accumulated);
    EXPECT_EQ(e.tensor.impl(), x.impl());
    EXPECT_EQ(values(e.grad), (Doubles{7, 7}));
  });
  x.register_hook([&](const Tensor& g) {
    order += "a";
    return g * 7.0;
  });
  x.register_post_accumulate_grad_hook([&](const Tensor&) { order += "c"; });
  x.sum().backward();
  EXPECT_EQ(order, "abc");
}

TEST_F(LeafHooks, DoNotFireInGradNorWithoutAGradient) {
  const Tensor x = leaf(), other = leaf();
  int calls = 0;
  x.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  (void)grad({x.sum()}, {x});
  other.sum().backward();
  EXPECT_EQ(calls, 0);
}

TEST_F(LeafHooks, MayClearTheGradientTheySaw) {
  const Tensor x = leaf();
  Doubles sum{0, 0};
  x.register_post_accumulate_grad_hook([&](const Tensor& t) {
    for (size_t i = 0; i < 2; ++i) sum[i] += values(t.grad())[i];
    t.set_grad({});
  });
  for (int i = 0; i < 3; ++i) x.sum().backward();
  EXPECT_EQ(sum, (Doubles{3, 3}));
  EXPECT_FALSE(x.grad().defined());
}

TEST_F(LeafHooks, NeedALeafThatRequiresAGradient) {
  const Tensor plain = tensor({1.0}), x = leaf();
  const Tensor y = x * 2.0;
  const auto none = [](const Tensor&) {};
  EXPECT_NE(message_of<ValueError>([&] { plain.register_post_accumulate_grad_hook(none); }).find("no gradient flows"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { y.register_post_accumulate_grad_hook(none); }).find("not a leaf"),
            std::string::npos);
}

TEST_F(LeafHooks, RemoveThemselves) {
  const Tensor x = leaf();
  int calls = 0;
  HookHandle handle = x.register_post_accumulate_grad_hook([&](const Tensor&) {
    ++calls;
    EXPECT_TRUE(handle.remove());
  });
  x.sum().backward();
  x.sum().backward();
  EXPECT_EQ(calls, 1);
}

// ---- by hand ----

TEST_F(LeafHooks, ByHandRunOnlyThePostAccumulateHooks) {
  const Tensor x = leaf();
  int gradient = 0, accumulated = 0;
  x.register_hook([&](const Tensor&) { ++gradient; });
  x.register_post_accumulate_grad_hook([&](const Tensor& t) {
    ++accumulated;
    EXPECT_EQ(values(t.grad()), (Doubles{3, 4}));
  });
  x.set_grad(tensor({3.0, 4.0}));
  x.apply_backward_hook();
  EXPECT_EQ(gradient, 0);
  EXPECT_EQ(accumulated, 1);
  EXPECT_EQ(values(x.grad()), (Doubles{3, 4}));
}

TEST_F(LeafHooks, ByHandWithoutHooksDoNothing) {
  const Tensor x = leaf();
  x.set_grad(tensor({3.0, 4.0}));
  x.apply_backward_hook();
  EXPECT_EQ(values(x.grad()), (Doubles{3, 4}));
}

TEST_F(LeafHooks, ByHandEachFailingCheckHasItsOwnError) {
  const Tensor plain = tensor({1.0}), x = leaf();
  const Tensor y = x * 2.0;
  EXPECT_NE(message_of<ValueError>([&] { plain.apply_backward_hook(); }).find("no gradient flows"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { y.apply_backward_hook(); }).find("not a leaf"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { x.apply_backward_hook(); }).find("has no gradient"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { Tensor().apply_backward_hook(); }).find("undefined"), std::string::npos);
  // Taken from the graph again, its accumulation node is gone.
  const Tensor was = leaf();
  was.register_post_accumulate_grad_hook([](const Tensor&) { FAIL(); });
  was.requires_grad_(false);
  EXPECT_THROW(was.apply_backward_hook(), ValueError);
}

TEST_F(LeafHooks, ByHandAMissingGradientBecomesZerosWhereAllowed) {
  const Tensor expert = leaf();
  int calls = 0;
  expert.register_post_accumulate_grad_hook([&](const Tensor& t) {
    ++calls;
    EXPECT_EQ(values(t.grad()), (Doubles{0, 0}));
  });
  expert.apply_backward_hook(true);
  EXPECT_EQ(calls, 1);
}

TEST_F(LeafHooks, ManualFlagLeavesFiringToTheCaller) {
  const Tensor x = leaf();
  int calls = 0;
  x.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  x.set_manual_backward_hook();
  x.sum().backward();
  EXPECT_EQ(calls, 0);
  x.apply_backward_hook();
  EXPECT_EQ(calls, 1);
  x.set_manual_backward_hook(false);
  x.sum().backward();
  EXPECT_EQ(calls, 2);
}

TEST_F(LeafHooks, ByHandInsideABackwardThatWillFireTooIsAnError) {
  const Tensor x = leaf();
  x.set_grad(zeros({2}));
  x.register_post_accumulate_grad_hook([](const Tensor&) {});
  const auto run = [&] {
    const Tensor y = x * 2.0;
    y.register_hook([&](const Tensor&) { x.apply_backward_hook(); });
    y.sum().backward();
  };
  const auto text = message_of<AutogradError>(run);
  EXPECT_NE(text.find("a second time"), std::string::npos) << text;
  x.set_manual_backward_hook();
  EXPECT_NO_THROW(run());
}

}  // namespace
}  // namespace weft
