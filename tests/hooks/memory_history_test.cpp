#include <weft/hooks/memory_history.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/autograd/mode.hpp>
#include <weft/hooks/checkpoint.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/optim/optim.hpp>

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

bool is_at(const LiveMemory& t, int line) {
  return t.where.known() && std::string(t.where.file()).ends_with("memory_history_test.cpp") &&
         t.where.line() == static_cast<unsigned>(line);
}
const LiveMemory* made_at(const MemorySnapshot& s, int line) {
  const auto found = std::find_if(s.tensors.begin(), s.tensors.end(),
                                  [&](auto& t) { return is_at(t, line) && t.kind != MemoryKind::gradient; });
  return found == s.tensors.end() ? nullptr : &*found;
}

struct Net : nn::Layer<Net> {
  nn::Linear in{32, 64}, out{64, 8};
  Net() { WEFT_REGISTER(in, out); }
  Tensor forward(const Tensor& x) { return out(relu(in(x))); }
};

TEST(MemoryHistory, SumsOfKindsEqualAllocatedMemory) {
  empty_cache();
  const size_t before = memory_stats().allocated;
  const MemoryHistory history;
  const Tensor a = ones({100, 10}), b = a * 2;
  const Tensor w = ones({10, 50}).requires_grad_(), y = matmul(a, w);
  const MemorySnapshot s = history.snapshot();
  EXPECT_EQ(s.tensors.size(), 4u);
  EXPECT_EQ(s.known(), 4u * (1000 + 1000 + 500 + 5000));
  EXPECT_EQ(s.stats.allocated, s.known() + s.unknown());
  EXPECT_NEAR(static_cast<double>(s.unknown()), static_cast<double>(before), 512);  // what blocks are rounded up to
  size_t sum = 0;
  for (int k = 0; k < memory_kind_count; ++k) sum += s.of(static_cast<MemoryKind>(k));
  EXPECT_EQ(sum, s.known());
  EXPECT_TRUE(std::is_sorted(s.tensors.begin(), s.tensors.end(),
                             [](const LiveMemory& x, const LiveMemory& z) { return x.bytes > z.bytes; }));
}

TEST(MemoryHistory, TensorsAreNamedByTheirLineOpAndKind) {
  const Tensor w = randn({64, 64}).requires_grad_();
  const MemoryHistory history(NamedTensors{{"w", w}});
  const Tensor x = randn({16, 64});
  const int line = __LINE__ + 1;
  const Tensor y = matmul(x, w);
  const Tensor loss = (y * y).mean();
  loss.backward();
  const MemorySnapshot s = history.snapshot();
  const LiveMemory* product = made_at(s, line);
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->op, "matmul");
  EXPECT_EQ(product->bytes, 16u * 64 * 4);
  EXPECT_EQ(product->kind, MemoryKind::activation);
  EXPECT_EQ(s.of(MemoryKind::parameter), 64u * 64 * 4);
  EXPECT_EQ(s.of(MemoryKind::gradient), 64u * 64 * 4);
  const auto gradient = std::find_if(s.tensors.begin(), s.tensors.end(), [](auto& t) { return t.name == "w.grad"; });
  ASSERT_NE(gradient, s.tensors.end());
  EXPECT_EQ(gradient->kind, MemoryKind::gradient);
}

TEST(MemoryHistory, OptimizerStateNamesItsModules) {
  Net net;
  const MemoryHistory history(net);
  optim::Adam optimizer(net.parameters(), {});
  Tensor kept;
  {
    kept = net(randn({20, 32}));
    kept.sum().backward();
  }
  optimizer.step();
  const MemorySnapshot s = history.snapshot();
  size_t parameters = 0;
  for (const Tensor& p : net.parameters())
    parameters += static_cast<size_t>(p.numel()) * 4 > 64 ? static_cast<size_t>(p.numel()) * 4 : 0;
  EXPECT_EQ(s.of(MemoryKind::parameter), parameters);
  EXPECT_EQ(s.of(MemoryKind::gradient), parameters);
  EXPECT_EQ(s.of(MemoryKind::optimizer), 2 * parameters);
  const auto output = std::find_if(s.tensors.begin(), s.tensors.end(),
                                   [](auto& t) { return t.kind == MemoryKind::activation && t.module == "out"; });
  ASSERT_NE(output, s.tensors.end());
  EXPECT_EQ(output->bytes, 20u * 8 * 4);
}

TEST(MemoryHistory, RecomputedActivationsAreNoGradients) {
  const Tensor w = randn({64, 64}).requires_grad_();
  const MemoryHistory history;
  std::optional<MemorySnapshot> inside;
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& x) {
        const Tensor h = relu(matmul(x, w));
        if (++runs == 2) inside = history.snapshot();
        return h;
      },
      randn({16, 64}).requires_grad_());
  y.sum().backward();
  ASSERT_TRUE(inside);
  for (const LiveMemory& t : inside->tensors) {
    EXPECT_TRUE(t.op != "relu" || t.kind == MemoryKind::activation);
  }
}

TEST(MemoryHistory, AListOfLossesWithTheirGraphsIsNamedAndAHealthyLoopIsNot) {
  for (const bool sick : {true, false}) {
    Net net;
    MemoryHistory history(net);
    optim::Adam optimizer(net.parameters(), {});
    std::vector<Tensor> losses;
    int line = 0;
    for (int step = 0; step < 8; ++step) {
      const Tensor x = randn({20, 32});
      optimizer.zero_grad();
      line = __LINE__ + 1;
      const Tensor h = relu(net.in(x));
      const Tensor loss = net.out(h).square().mean();
      loss.backward({}, {.retain_graph = sick});
      optimizer.step();
      losses.push_back(sick ? loss : loss.detach());
      history.step();
    }
    const std::vector<MemoryGrowth> growth = history.growth();
    EXPECT_EQ(growth.empty(), !sick);
    EXPECT_EQ(history.growth_text().empty(), !sick) << history.growth_text();
    if (!sick) continue;
    EXPECT_GE(growth[0].steps, 3);
    EXPECT_GE(growth[0].bytes_each_step, 20.0 * 32 * 4);
    EXPECT_TRUE(std::any_of(growth.begin(), growth.end(), [&](auto& g) {
      return g.where.known() && g.where.line() == static_cast<unsigned>(line) && g.bytes_each_step == 20 * 64 * 4;
    })) << history.growth_text();
    EXPECT_THAT(history.growth_text(), HasSubstr("keeps 5 KiB more in each of "));
    EXPECT_THAT(history.growth_text(), HasSubstr("memory_history_test.cpp:" + std::to_string(line)));
  }
}

TEST(MemoryHistory, AForwardThatThrewLeavesItsModules) {
  Net net;
  const MemoryHistory history(net);
  EXPECT_THROW(net(randn({4, 31})), ShapeError);
  const int line = __LINE__ + 1;
  const Tensor outside = zeros({1000});
  const MemorySnapshot s = history.snapshot();
  const LiveMemory* made = made_at(s, line);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->module, "");
}

TEST(MemoryHistory, AHistoryThatEndsWithinACallLeavesNoModules) {
  Net net;
  std::optional<MemoryHistory> first(std::in_place, net);
  net.in.register_forward_hook([&](const Tensor&) { first.reset(); });
  net(randn({4, 32}));
  const MemoryHistory history(net);
  const int line = __LINE__ + 1;
  const Tensor outside = zeros({1000});
  const MemorySnapshot s = history.snapshot();
  ASSERT_NE(made_at(s, line), nullptr);
  EXPECT_EQ(made_at(s, line)->module, "");
}

/// A line's memory at the end of each step, in thousands of floats and tensors, and the resulting finding.
std::string growth_of(const std::vector<std::vector<int64_t>>& steps) {
  MemoryHistory history;
  std::vector<Tensor> kept;
  for (const std::vector<int64_t>& sizes : steps) {
    kept.clear();
    for (const int64_t size : sizes) kept.push_back(zeros({size * 1000}));
    history.step();
  }
  return history.growth_text();
}

std::vector<std::vector<int64_t>> sized(int64_t count, const std::function<int64_t(int64_t)>& size) {
  std::vector<std::vector<int64_t>> steps;
  for (int64_t i = 0; i < count; ++i) steps.push_back({size(i)});
  return steps;
}

TEST(MemoryHistory, GrowthIsFoundAmongFalls) {
  uint64_t random = 12345;
  const auto noise = [&](int64_t most) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(most));
  };
  EXPECT_NE(growth_of(sized(40, [&](int64_t i) { return 100 + 2 * i + noise(20); })), "");
  EXPECT_NE(growth_of(sized(60, [&](int64_t i) { return 100 + i / 10 * 10; })), "");  // every tenth step keeps more
  EXPECT_NE(growth_of(sized(30, [&](int64_t i) { return 10 + i - (i == 25 ? 3 : 0); })), "");
  EXPECT_THAT(growth_of(sized(30, [](int64_t i) { return 10 + i; })), HasSubstr("keeps 3.91 KiB more in each of 29"));
}

TEST(MemoryHistory, NoiseAndBoundedBuffersAreNoGrowth) {
  uint64_t random = 99;
  const auto noise = [&](int64_t most) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(most));
  };
  int said = 0;
  for (int run = 0; run < 100; ++run)
    said += !growth_of(sized(5 + run, [&](int64_t) { return 10 + noise(200); })).empty();
  EXPECT_EQ(said, 0);
  EXPECT_EQ(growth_of(sized(60, [](int64_t i) { return std::min<int64_t>(10 + 5 * i, 100); })), "");  // a full cache
  EXPECT_EQ(growth_of(sized(66, [](int64_t i) { return 1 + i % 20; })), "");  // a list that each epoch empties
  EXPECT_EQ(growth_of(sized(60, [](int64_t i) { return i % 2 == 0 ? 10 : 40; })), "");
  EXPECT_EQ(growth_of(sized(6, [](int64_t i) { return 10 + 7 * i; })), "");  // batches may be longer by chance
  std::vector<std::vector<int64_t>> more;
  for (int64_t i = 0; i < 5; ++i) more.emplace_back(static_cast<size_t>(i + 1), 10);
  EXPECT_NE(growth_of(more), "");  // more tensors are no chance
}

TEST(MemoryHistory, ThePeakOfAStepListsItsTensors) {
  MemoryHistory history;
  history.step();
  const Tensor small = ones({1000});
  const int line = __LINE__ + 1;
  { const Tensor large = zeros({100000}), larger = large + 1; }
  const Tensor after = ones({2000});
  history.step();
  const MemorySnapshot peak = history.peak();
  EXPECT_EQ(peak.known(), 4u * (1000 + 200000));
  EXPECT_NE(made_at(peak, line), nullptr);
  const std::vector<MemoryMoment> curve = history.curve();
  size_t most = 0;
  for (const MemoryMoment& m : curve) most = std::max(most, m.sum());
  EXPECT_EQ(most, peak.known());
  EXPECT_EQ(curve.back().sum(), 4u * (1000 + 2000));
  for (const size_t few : {size_t{0}, size_t{1}, size_t{2}}) {
    const auto coarse = history.curve({}, few);
    ASSERT_LE(coarse.size(), std::max<size_t>(few, 1));
    EXPECT_EQ(std::max_element(coarse.begin(), coarse.end(), [](auto& a, auto& b) { return a.sum() < b.sum(); })->sum(),
              peak.known());
  }
  const std::string svg = history.svg();
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("memory_history_test.cpp:" + std::to_string(line)));
}

TEST(MemoryHistory, WithoutOneLargeTensorsAndNamedOnesAreKnown) {
  const Tensor w = ones({100}).requires_grad_();
  const int line = __LINE__ + 1;
  const Tensor large = zeros({1 << 20});
  const MemorySnapshot s = memory_snapshot({}, {{"w", w}});
  const LiveMemory* found = made_at(s, line);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->op, "zeros");
  EXPECT_EQ(s.of(MemoryKind::parameter), 400u);
  EXPECT_EQ(s.stats.allocated, s.known() + s.unknown());
}

TEST(MemoryHistory, NothingIsNotedAfterIt) {
  std::optional<MemoryHistory> history(std::in_place);
  const Tensor a = ones({100});
  EXPECT_EQ(history->snapshot().tensors.size(), 1u);
  EXPECT_THROW(MemoryHistory(), ValueError);
  history.reset();
  const Tensor b = ones({100});
  history.emplace();
  EXPECT_TRUE(history->snapshot().tensors.empty());
  EXPECT_NO_THROW(history->step());
}

TEST(MemoryHistory, ThreadsMakeAndFreeTensorsWhileItIsRead) {
  MemoryHistory history;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) ones({100 + i % 7});
    });
  }
  for (int i = 0; i < 50; ++i) {
    history.step();
    EXPECT_LE(history.snapshot().tensors.size(), 3u);
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(history.snapshot().tensors.empty());
}

TEST(MemoryHistory, AForwardThatThrowsLeavesNoModuleBehind) {
  Net net;
  const MemoryHistory history(net);
  EXPECT_THROW(net(ones({3, 31})), ShapeError);
  const Tensor y = net(ones({20, 32}));
  for (const LiveMemory& t : history.snapshot().tensors)
    EXPECT_TRUE(t.module == "in" || t.module == "out" || t.module.empty());
}

TEST(MemoryHistory, TextAndJsonAgree) {
  const MemoryHistory history;
  const Tensor a = ones({1024}), b = ones({1024});
  const MemorySnapshot s = history.snapshot();
  const std::string text = s.text(1), json = s.json();
  EXPECT_THAT(text, HasSubstr("ones at "));
  EXPECT_THAT(text, HasSubstr("8 KiB"));
  EXPECT_THAT(json, HasSubstr("\"op\":\"ones\""));
  EXPECT_THAT(json, HasSubstr("\"activation\":8192"));
  EXPECT_THAT(s.text(0), HasSubstr("of 1 other lines"));
}

}  // namespace
}  // namespace weft::testing
