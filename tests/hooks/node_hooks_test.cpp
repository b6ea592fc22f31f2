// Node hooks: before and after a node runs, with all its gradients.
#include "hooks/values.hpp"

#include <optional>

namespace weft {
namespace {

using NodeHooks_ = LiveCount;

TEST_F(NodeHooks_, SeeIncomingAndOutgoingGradients) {
  const Tensor x = tensor({2.0}).requires_grad_(), w = tensor({5.0}).requires_grad_();
  const Tensor y = x * w;
  std::string order;
  register_node_pre_hook(y, [&](const GradEvent& e) {
    order += "before ";
    EXPECT_EQ(e.phase, GradPhase::node_before);
    ASSERT_EQ(e.incoming.size(), 1u);
    EXPECT_EQ(values(e.incoming[0]), Doubles{3});
    EXPECT_TRUE(e.outgoing.empty());
  });
  register_node_post_hook(y, [&](const GradEvent& e) {
    order += "after";
    EXPECT_STREQ(e.op, "mul");
    ASSERT_EQ(e.outgoing.size(), 2u);
    EXPECT_EQ(values(e.incoming[0]), Doubles{3});
    EXPECT_EQ(values(e.outgoing[0]), Doubles{15});
    EXPECT_EQ(values(e.outgoing[1]), Doubles{6});
  });
  (y * 3.0).backward();
  EXPECT_EQ(order, "before after");
}

TEST_F(NodeHooks_, ReplaceGradients) {
  const Tensor x = tensor({2.0}).requires_grad_(), w = tensor({5.0}).requires_grad_();
  const Tensor y = x * w;
  register_node_pre_hook(y, [](const GradEvent& e) { return std::vector{e.incoming[0] * 10.0}; });
  register_node_post_hook(y, [](const GradEvent& e) -> std::optional<std::vector<Tensor>> {
    return std::vector{Tensor(), e.outgoing[1] + 1.0};
  });
  y.backward();
  EXPECT_EQ(x.grad().item<double>(), 50);
  EXPECT_EQ(w.grad().item<double>(), 21);
}

TEST_F(NodeHooks_, OfSeveralOutputsSeeThemTogether) {
  const Tensor x = tensor({1.0, 2.0, 3.0}).requires_grad_();
  const auto parts = x.unbind(0);
  int calls = 0;
  register_node_pre_hook(parts[0], [&](const GradEvent& e) {
    ++calls;
    ASSERT_EQ(e.incoming.size(), 3u);
    EXPECT_TRUE(e.incoming[0].defined());
    EXPECT_FALSE(e.incoming[1].defined());
    EXPECT_TRUE(e.incoming[2].defined());
  });
  (parts[0] + parts[2] * 2.0).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (Doubles{1, 0, 2}));
}

TEST_F(NodeHooks_, WrongAnswersAreErrors) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const auto after = [&](auto hook) {
    return [&x, hook] {
      const Tensor y = x * tensor({5.0});  // the second input needs no gradient
      register_node_post_hook(y, hook);
      y.backward();
    };
  };
  EXPECT_NE(message_of<ValueError>(after([](const GradEvent&) {
              return std::vector<Tensor>(3);
            })).find("returned 3 gradients for 2"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>(after([](const GradEvent&) {
              return std::vector{Tensor(), ones({1})};
            })).find("gradient 1 where none flows"),
            std::string::npos);
  EXPECT_THROW(after([](const GradEvent&) { return std::vector{ones({4}), Tensor()}; })(), ShapeError);
  EXPECT_FALSE(x.grad().defined());
}

TEST_F(NodeHooks_, NeedAResult) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const auto none = [](const GradEvent&) {};
  EXPECT_NE(message_of<ValueError>([&] { register_node_pre_hook(x, none); }).find("no op produced"), std::string::npos);
  EXPECT_THROW(register_node_post_hook(tensor({1.0}), none), ValueError);
}

TEST_F(NodeHooks_, AreRemovedAndDieWithTheGraph) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const auto token = std::make_shared<int>(0);
  const Tensor y = exp(x);
  HookHandle gone = register_node_pre_hook(y, [](const GradEvent&) { FAIL(); });
  register_node_post_hook(y, [token, y](const GradEvent&) {});
  EXPECT_TRUE(gone.remove());
  y.backward({.retain_graph = true});
  EXPECT_EQ(token.use_count(), 2);
  y.backward();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(NodeHooks_, StatisticsCountUsesOfBuffers) {
  const Tensor x = ones({100}).requires_grad_(), w = ones({100}).requires_grad_();
  reset_grad_stats();
  (x * w).sum().backward();  // each leaf takes the buffer over
  GradStats s = grad_stats();
  EXPECT_EQ(s.shared, 2);
  EXPECT_EQ(s.allocated, 0);
  EXPECT_EQ(s.bytes_saved, 800);
  (x * w).sum().backward();
  s = grad_stats();
  EXPECT_EQ(s.accumulated_in_place, 2);
  EXPECT_EQ(s.bytes_saved, 1600);
  const Tensor seed = ones({100});
  x.set_grad({});
  x.backward(seed);  // somebody else holds it
  EXPECT_EQ(grad_stats().allocated, 1);
}

}  // namespace
}  // namespace weft
