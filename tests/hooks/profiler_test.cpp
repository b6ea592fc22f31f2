#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/function.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/backends/watch/observe.hpp>
#include <weft/hooks/profiler.hpp>
#include <weft/nn/layers.hpp>
#include <weft/optim/optim.hpp>
#include <weft/ops/create.hpp>
#include <weft/map/map.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Profiler, SeesKernelsWithOpLineShapeAndBytes) {
  const Tensor a = randn({64, 64}), b = randn({64, 64});
  Profiler profiler;
  profiler.start();
  const Tensor c = a.matmul(b);
  const unsigned line = __LINE__ - 1;
  profiler.stop();
  ASSERT_FALSE(profiler.events().empty());
  const ProfiledEvent& e = profiler.events().back();
  EXPECT_EQ(e.op, "matmul");
  EXPECT_STREQ(e.kernel, "matmul");
  EXPECT_EQ(e.where.line(), line);
  EXPECT_EQ(e.shape.text(), "[64, 64]");
  EXPECT_FALSE(e.backward);
  EXPECT_GE(e.allocated, 64 * 64 * 4);
  EXPECT_LE(e.begin, e.end);
}

TEST(Profiler, LinksEachNodeOfBackwardToItsForward) {
  const Tensor w = randn({32, 32}).requires_grad_();
  Tensor h = randn({4, 32});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 3; ++i) h = tanh(h.matmul(w));
  h.sum().backward();
  profiler.stop();
  std::vector<size_t> forwards;
  for (const ProfiledEvent& e : profiler.events()) {
    if (e.kind != ProfiledKind::node || e.op != "tanh") continue;
    ASSERT_TRUE(e.forward);
    EXPECT_EQ(profiler.events()[*e.forward].op, "tanh");
    EXPECT_EQ(profiler.events()[*e.forward].where.line(), e.where.line());
    forwards.push_back(*e.forward);
  }
  ASSERT_EQ(forwards.size(), 3u);
  EXPECT_GT(forwards[0], forwards[1]);
  EXPECT_GT(forwards[1], forwards[2]);
}

TEST(Profiler, KernelsOfBackwardBearTheOpOfTheirNode) {
  const Tensor w = randn({16}).requires_grad_();
  const Tensor loss = exp(w).sum();
  Profiler profiler;
  profiler.start();
  loss.backward();
  profiler.stop();
  bool seen = false;
  for (const ProfiledEvent& e : profiler.events()) {
    EXPECT_TRUE(e.backward);
    seen = seen || (e.kind == ProfiledKind::kernel && e.op == "exp");
  }
  EXPECT_TRUE(seen);
}

std::vector<std::string> ops_of(const Profiler& profiler, bool backward = false) {
  std::vector<std::string> out;
  for (const ProfiledEvent& e : profiler.events()) {
    if (e.kind == ProfiledKind::kernel && e.backward == backward) out.push_back(e.op);
  }
  return out;
}

TEST(Profiler, NamesTheOptimizerForItsKernelAndItsOps) {
  const Tensor contiguous = randn({4, 4}).requires_grad_(), turned = randn({4, 4}).t().detach().requires_grad_();
  for (const Tensor& p : {contiguous, turned}) {
    optim::AdamW adam({p});
    exp(p).sum().backward();
    Profiler profiler;
    profiler.start();
    const unsigned line = __LINE__ + 1;
    adam.step();
    profiler.stop();
    EXPECT_THAT(ops_of(profiler), testing::Contains("AdamW"));
    for (const ProfiledEvent& e : profiler.events()) {
      EXPECT_EQ(e.op, "AdamW") << e.kernel;
      EXPECT_EQ(e.where.line(), line) << e.kernel;
    }
  }
}

TEST(Profiler, OpsAfterAnOptimizerAreNotBookedOnIt) {
  const Tensor p = randn({4}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 0.1});
  p.sum().backward();
  Profiler profiler;
  profiler.start();
  sgd.step();
  (void)exp(p);
  profiler.stop();
  EXPECT_THAT(ops_of(profiler), testing::ElementsAre("SGD", "exp"));
}

TEST(Profiler, SeesMappedFunctionsAndTheirGradients) {
  const Tensor a = randn({50}).requires_grad_();
  (void)exp(a);
  Profiler profiler;
  profiler.start();
  const Tensor y = map([](auto x) { return x * x; }, a);
  const unsigned line = __LINE__ - 1;
  y.sum().backward();
  profiler.stop();
  const ProfiledEvent& e = profiler.events().front();
  EXPECT_EQ(e.op, "map");
  EXPECT_STREQ(e.kernel, "map");
  EXPECT_EQ(e.where.line(), line);
  EXPECT_EQ(e.shape.text(), "[50]");
  EXPECT_THAT(ops_of(profiler, true), testing::Contains("map"));
}

struct Cube : autograd::Function<Cube> {
  static constexpr const char* name = "Cube";
  static Tensor forward(Context& context, const Tensor& x) {
    context.save({x});
    return x * x * x;
  }
  static Tensor backward(Context& context, const Tensor& g) {
    const Tensor x = context.saved(0);
    return 3.0 * g * x * x;
  }
};

TEST(Profiler, NamesAFunctionAndLinksItsBackwardToItsForward) {
  const Tensor x = randn({8}).requires_grad_();
  Tensor h = x;
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 3; ++i) h = Cube::apply_at(Location(), h);
  (void)exp(x);
  h.sum().backward();
  profiler.stop();
  EXPECT_EQ(std::ranges::count(ops_of(profiler), "Cube"), 6);
  EXPECT_EQ(std::ranges::count(ops_of(profiler), "exp"), 1);
  EXPECT_EQ(std::ranges::count(ops_of(profiler), "mul"), 0);
  std::vector<size_t> forwards;
  for (const ProfiledEvent& e : profiler.events()) {
    if (e.kind == ProfiledKind::node && e.op == "Cube" && e.forward) forwards.push_back(*e.forward);
  }
  EXPECT_THAT(forwards, testing::ElementsAre(4, 2, 0));
}

TEST(Profiler, AFunctionWhoseForwardRaisesIsLeft) {
  struct Broken : autograd::Function<Broken> {
    static Tensor forward(Context&, const Tensor& x) { return x + ones({x.size(0) + 1}); }
    static Tensor backward(Context&, const Tensor& g) { return g; }
  };
  const Tensor x = randn({8});
  Profiler profiler;
  profiler.start();
  EXPECT_THROW(Broken::apply(x), ShapeError);
  (void)exp(x);
  profiler.stop();
  EXPECT_EQ(ops_of(profiler).back(), "exp");
}

TEST(Profiler, APartOfAProgramMayBeNamed) {
  const Tensor a = randn({8});
  Profiler profiler;
  profiler.start();
  {
    const KernelScope scope("block");
    (void)exp(a);
  }
  (void)exp(a);
  profiler.stop();
  EXPECT_THAT(ops_of(profiler), testing::ElementsAre("block", "exp"));
}

TEST(Profiler, SeesOtherThreads) {
  const Tensor a = randn({100});
  Profiler profiler;
  profiler.start();
  std::thread([&] { exp(a); }).join();
  profiler.stop();
  ASSERT_EQ(profiler.events().size(), 1u);
  EXPECT_EQ(profiler.events()[0].op, "exp");
}

// An observer that reads the gradient that is being summed, and may throw after a kernel.
struct Asking : KernelObserver {
  Tensor leaf;
  bool throws = false;
  std::vector<float> seen;
  void after(const KernelCall& call) override {
    if (leaf.defined() && std::string_view(call.op) == "accumulate_grad") {
      seen.push_back(leaf.grad().to_vector<float>()[0]);
    }
    if (throws) throw std::runtime_error("seen enough");
  }
};

TEST(KernelObserver, MayAskForTheGradientThatIsBeingAddedUp) {
  const Tensor x = tensor({2.f}).requires_grad_();
  std::atomic<bool> over{false};
  std::thread other([&] {  // locks are real where there are two threads
    while (!over) std::this_thread::yield();
  });
  Asking asking;
  asking.leaf = x;
  {
    const ObserverGuard guard(asking);
    for (int i = 0; i < 3; ++i) (x * 3.f).sum().backward();
  }
  over = true;
  other.join();
  EXPECT_EQ(asking.seen, (std::vector<float>{6, 9}));
}

TEST(KernelObserver, MayNotRunABackwardIntoTheSum) {
  struct Running : KernelObserver {
    Tensor leaf;
    void after(const KernelCall& call) override {
      if (std::string_view(call.op) == "accumulate_grad") (leaf * 1.f).sum().backward();
    }
  } running;
  running.leaf = tensor({2.f}).requires_grad_();
  (running.leaf * 3.f).sum().backward();
  const ObserverGuard guard(running);
  EXPECT_THROW((running.leaf * 3.f).sum().backward(), AutogradError);
}

TEST(KernelObserver, AWriteThatItFailsAfterIsStillSeenByTheGraph) {
  const Tensor x = tensor({2.f}).requires_grad_();
  Asking asking;
  for (const bool recorded : {true, false}) {
    const Tensor y = x * 1.f, z = y * y, other = recorded ? x : tensor({2.f});
    const GradModeGuard mode({.enabled = recorded, .inference = false});
    asking.throws = true;
    {
      const ObserverGuard guard(asking);
      EXPECT_THROW(y.add_(other), std::runtime_error);
    }
    asking.throws = false;
    EXPECT_EQ(y.item<float>(), 4);
    EXPECT_EQ(y.version(), 1u);
    const EnableGradGuard record;
    EXPECT_THROW(z.backward(), AutogradError);
    if (!recorded) continue;
    EXPECT_THROW(y.backward(), AutogradError);
  }
}

TEST(KernelObserver, ComesAndGoesWhileOtherThreadsCompute) {
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) EXPECT_EQ((ones({8}) + ones({8})).sum().item<float>(), 16);
  });
  for (int i = 0; i < 300; ++i) {
    Asking asking;
    const ObserverGuard guard(asking);
    EXPECT_EQ(ones({3}).sum().item<float>(), 3);
  }
  over = true;
  other.join();
}

TEST(Profiler, TableAddsUpByOpOrByLine) {
  const Tensor a = randn({1000}), b = randn({1000});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 4; ++i) a + b;
  a + b;
  profiler.stop();
  const std::string by_op = profiler.table(), by_line = profiler.table({.by_line = true});
  EXPECT_THAT(by_op, testing::ContainsRegex("add +forward +5 "));
  EXPECT_THAT(by_line, testing::ContainsRegex("add  profiler_test.cpp:[0-9]+ +forward +4 "));
  EXPECT_THAT(by_line, testing::ContainsRegex("add  profiler_test.cpp:[0-9]+ +forward +1 "));
  EXPECT_THAT(by_op, HasSubstr("5 kernels in "));
  EXPECT_THAT(profiler.table({.by_line = true, .rows = 1}), HasSubstr("and 1 more"));
}

TEST(Profiler, TraceHasSlicesAndFlows) {
  const Tensor w = randn({16}).requires_grad_();
  Profiler profiler;
  profiler.start();
  exp(w).sum().backward();
  profiler.stop();
  const std::string trace = profiler.chrome_trace();
  EXPECT_THAT(trace, HasSubstr(R"("name":"exp","cat":"forward","ph":"X")"));
  EXPECT_THAT(trace, HasSubstr(R"("name":"exp backward","cat":"backward","ph":"X")"));
  EXPECT_THAT(trace, HasSubstr(R"("ph":"s")"));
  EXPECT_THAT(trace, HasSubstr(R"("bp":"e")"));
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '{'), std::count(trace.begin(), trace.end(), '}'));
}

TEST(Profiler, NothingToSeeIsFine) {
  Profiler profiler;
  EXPECT_THAT(profiler.table(), HasSubstr("0 kernels"));
  profiler.start();
  profiler.stop();
  EXPECT_TRUE(profiler.events().empty());
  EXPECT_THAT(profiler.table(), HasSubstr("0 kernels"));
  EXPECT_THAT(profiler.chrome_trace(), HasSubstr("traceEvents"));
}

TEST(Profiler, OneRunsAtATime) {
  Profiler first, second;
  first.start();
  EXPECT_THROW(second.start(), ValueError);
  EXPECT_THROW(first.start(), ValueError);
  first.stop();
  EXPECT_THROW(first.stop(), ValueError);
  second.start();
  second.stop();
}

TEST(Profiler, StoppedItSeesNothing) {
  const Tensor a = randn({10});
  Profiler profiler;
  profiler.start();
  exp(a);
  profiler.stop();
  exp(a);
  EXPECT_EQ(profiler.events().size(), 1u);
}

TEST(Profiler, KeepsNoMoreThanAsked) {
  const Tensor a = randn({10});
  Profiler profiler({.most_events = 3});
  profiler.start();
  for (int i = 0; i < 5; ++i) exp(a);
  profiler.stop();
  EXPECT_EQ(profiler.events().size(), 3u);
  EXPECT_THAT(profiler.table(), HasSubstr("2 later events were not kept"));
}

}  // namespace
}  // namespace weft
