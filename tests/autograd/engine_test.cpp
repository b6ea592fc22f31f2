// Backward and grad: order, accumulation, errors, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <weft/weft.hpp>

#include "collected_warnings.hpp"

namespace weft {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Tensor& t) { return t.to_vector<double>(); }

TEST(Backward, SumsOverAllUsesOfALeaf) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  (x * x + x).sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{3, 5}));
}

TEST(Backward, AccumulatesIntoTheGradientInPlace) {
  const Tensor x = tensor({5.0}).requires_grad_();
  for (int i = 1; i <= 5; ++i) {
    (x * x * x * x).backward();
    EXPECT_EQ(x.grad().item<float>(), 500.0f * static_cast<float>(i));
  }
}

TEST(Backward, SumsOfGradientsHaveThePlaceThatCalledIt) {
  struct Places : KernelObserver {
    std::vector<int> lines;
    void after(const KernelCall& call) override {
      const std::string op = call.op == nullptr ? "" : call.op;
      if (op == "accumulate_grad" || op == "sum of gradients") lines.push_back(static_cast<int>(call.where.line()));
    }
  } places;
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  x.sum().backward();
  const Tensor y = (x * x + x * 3.0).sum();
  const ObserverGuard guard(places);
  const int line = __LINE__ + 1;
  y.backward();
  EXPECT_EQ(places.lines, std::vector<int>(3, line));
}

TEST(Backward, ASecondRunNeedsRetainGraph) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const Tensor y = exp(x);
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_NEAR(x.grad().item<float>(), 2 * 2.7182818f, 1e-5);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(Backward, NeedsASeedUnlessTheOutputHasOneElement) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  EXPECT_THROW((x * 2.0).backward(), AutogradError);
  EXPECT_THROW((x * 2.0).backward(tensor({1.0})), ShapeError);
  EXPECT_THROW(tensor({1.0}).backward(), AutogradError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, BroadcastOperandsGetGradientsOfTheirOwnShape) {
  const Tensor a = ones({2, 1, 3}).requires_grad_();
  const Tensor b = ones({4, 1}).requires_grad_();
  (a * b).sum().backward();
  EXPECT_EQ(a.grad().shape(), a.shape());
  EXPECT_EQ(b.grad().shape(), b.shape());
  EXPECT_EQ(values(a.grad()), Doubles(6, 4.0));
  EXPECT_EQ(values(b.grad()), Doubles(4, 6.0));
}

TEST(Backward, MixedTypesGetGradientsOfTheirOwnType) {
  const Tensor a = ones({2}, bf16).requires_grad_();
  const Tensor b = ones({2}).requires_grad_();
  (a * b).sum().backward();
  EXPECT_EQ(a.grad().dtype(), bf16);
  EXPECT_EQ(b.grad().dtype(), f32);
}

TEST(Grad, ReturnsGradientsOfNonLeavesAndLeavesGradUnchanged) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const Tensor y = x * 3.0;
  const Tensor z = y * y;
  const auto g = grad({z}, {y, x}, {}, {.retain_graph = true});
  EXPECT_EQ(g[0].item<float>(), 12);
  EXPECT_EQ(g[1].item<float>(), 36);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, OutputsBelowOneAnotherAddUpInAnyOrder) {
  const Tensor x = tensor({3.0}, f64).requires_grad_();
  const Tensor a = x * 2.0, b = -a, c = a * b, one = tensor({1.0}, f64);
  std::vector<Tensor> outputs = {a, b, c}, inputs = {x, a};  // c = -4 x^2 = -a^2
  const auto before = [](const Tensor& s, const Tensor& t) { return s.impl() < t.impl(); };
  std::sort(outputs.begin(), outputs.end(), before);
  do {
    const std::vector<Tensor> seeds = {one, one, one};
    const auto g = grad(outputs, inputs, seeds, {.retain_graph = true});
    EXPECT_EQ(values(g[0]), (Doubles{2.0 - 2.0 - 24.0}));
    EXPECT_EQ(values(g[1]), (Doubles{1.0 - 1.0 - 12.0}));
  } while (std::next_permutation(outputs.begin(), outputs.end(), before));
  EXPECT_EQ(grad({a, b}, {x}, {one, one})[0].item<double>(), 0);
}

TEST(Grad, RunsNothingBelowItsInputs) {
  const Tensor x = tensor({2.0}).requires_grad_();
  const Tensor h = x * x, y = h * h;
  EXPECT_EQ(grad({y}, {h})[0].item<float>(), 8);
  h.backward();  // its node still has what it saved
  EXPECT_EQ(x.grad().item<float>(), 4);
}

TEST(Grad, RunsHooksOfSeveralInputsOnOnePath) {
  const Tensor x = tensor({2.0}, f64).requires_grad_();
  const Tensor h = x * x, k = h * 3.0, y = k * h;
  register_hook(h, [](const Tensor& g) { return g * 10.0; });
  EXPECT_EQ(grad({y}, {h}, {}, {.retain_graph = true})[0].item<double>(), 240);
  const auto g = grad({y}, {h, k, x}, {}, {.retain_graph = true});
  EXPECT_EQ(g[0].item<double>(), 240);  // whatever else is asked for
  EXPECT_EQ(g[1].item<double>(), 4);
  EXPECT_EQ(g[2].item<double>(), 960);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(grad({y}, {k})[0].item<double>(), 4);
  k.backward();  // what stands behind k did not run, and keeps what it saved
  EXPECT_EQ(x.grad().item<double>(), 120);
}

TEST(Grad, OfAResultThatRetainsNoneWarnsOncePerLine) {
  const CollectedWarnings warnings;
  Tensor w = tensor({2.0}, f64).requires_grad_();
  (w * w).sum().backward();
  w = w - 0.1 * w.grad();
  const Tensor kept = w * 2.0, plain = tensor({1.0});
  kept.retain_grad();
  kept.sum().backward();
  EXPECT_TRUE(kept.grad().defined());
  EXPECT_FALSE(plain.grad().defined());
  EXPECT_TRUE(warnings.texts.empty());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(w.grad().defined());
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_NE(warnings.texts[0].find("no leaf"), std::string::npos) << warnings.texts[0];
  EXPECT_NE(warnings.texts[0].find("retain_grad()"), std::string::npos);
  EXPECT_NE(warnings.texts[0].find("engine_test.cpp"), std::string::npos);
  try {
    (void)(0.1 * w.grad());
    ADD_FAILURE() << "an undefined gradient is no operand";
  } catch (const ValueError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("leaf"), std::string::npos) << text;
    EXPECT_NE(text.find("retain_grad()"), std::string::npos) << text;
  }
}

// The figures are PyTorch's.
TEST(Grad, RetainedGradientsAddUpAsALeafs) {
  const Tensor x = tensor({2.0}, f64).requires_grad_();
  const Tensor h = x * x, y = h * 3.0;
  h.retain_grad();
  y.backward({.retain_graph = true});
  const Tensor first = h.grad();
  EXPECT_EQ(first.item<double>(), 3);
  y.backward({.retain_graph = true});
  EXPECT_EQ(h.grad().item<double>(), 6);
  EXPECT_EQ(first.item<double>(), 3);
  (h * 1.0).backward({.create_graph = true});
  EXPECT_EQ(h.grad().item<double>(), 7);
  h.set_grad({});
  EXPECT_FALSE(h.grad().defined());
  grad({y}, {x});
  EXPECT_EQ(h.grad().item<double>(), 3);
  h.set_grad(tensor({5.0}, f64));
  EXPECT_EQ(h.grad().item<double>(), 5);
  EXPECT_THROW(h.set_grad(tensor({5.0, 6.0}, f64)), ShapeError);
  EXPECT_THROW(y.set_grad(tensor({5.0}, f64)), AutogradError);
  x.set_grad({});
}

TEST(Grad, RefusesUnusedInputsUnlessAllowed) {
  const Tensor x = tensor({2.0}).requires_grad_(), other = tensor({1.0}).requires_grad_();
  const Tensor y = x * 3.0;
  EXPECT_THROW(grad({y}, {other}, {}, {.retain_graph = true}), AutogradError);
  EXPECT_FALSE(grad({y}, {other}, {}, {.retain_graph = true, .allow_unused = true})[0].defined());
  EXPECT_THROW(grad({y}, {tensor({1.0})}), AutogradError);
}

TEST(Grad, HigherDerivativesOfAPower) {
  const Tensor x = tensor(2.0, f64).requires_grad_();
  Tensor y = x * x * x * x;
  Doubles found;
  for (int i = 0; i < 4; ++i) {
    y = grad({y}, {x}, {}, {.create_graph = true})[0];
    found.push_back(y.item<double>());
  }
  EXPECT_EQ(found, (Doubles{32, 48, 48, 24}));
}

TEST(Graph, AMillionNodesAreDestroyedWithoutRecursion) {
  const Tensor x = tensor({1.0}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 1000000; ++i) y = y + x;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 1000001.0f);
  y = y + x;
}

TEST(Graph, ThreadsMayRunBackwardIntoTheSameLeaves) {
  const Tensor x = ones({64}).requires_grad_();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) (x * 2.0).sum().backward();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(values(x.grad()), Doubles(64, 1600.0));
}

TEST(Graph, ThreadsMayShareOneRetainedGraph) {
  const Tensor x = ones({8}).requires_grad_();
  const Tensor y = exp(x * 0.0) * x;
  const Tensor z = (y * y).sum();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) z.backward({.retain_graph = true});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(values(x.grad()), Doubles(8, 800.0));
}

TEST(Graph, AFailingBackwardLeavesEverythingUsable) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const Tensor y = x * 2.0;
  HookHandle handle = register_hook(y, [](const Tensor&) -> Tensor { throw std::runtime_error("from the hook"); });
  const Tensor z = y * y;
  EXPECT_THROW(z.backward({.retain_graph = true}), std::runtime_error);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(handle.remove());
  EXPECT_FALSE(handle.remove());
  z.backward();
  EXPECT_EQ(x.grad().item<float>(), 8.0f);
}

TEST(Mode, NothingIsRecordedUnderNoGrad) {
  const Tensor x = ones({2}).requires_grad_();
  {
    NoGradGuard unrecorded;
    EXPECT_FALSE((x * 2.0).requires_grad());
    EnableGradGuard recorded;
    EXPECT_TRUE((x * 2.0).requires_grad());
  }
  EXPECT_TRUE((x * 2.0).requires_grad());
  Tensor inferred;
  {
    InferenceGuard inference;
    inferred = x * 2.0;
  }
  EXPECT_THROW(inferred.requires_grad_(), AutogradError);
}

TEST(Leaf, OnlyFloatingTensorsRequireGradients) {
  EXPECT_THROW(ones({2}, i64).requires_grad_(), ValueError);
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_THROW((x * 2.0).requires_grad_(false), AutogradError);
  EXPECT_FALSE(x.detach().requires_grad());
  EXPECT_TRUE(x.detach().shares_storage(x));
}

TEST(Leaf, RetainGradKeepsTheGradientOfAResult) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const Tensor y = x * 3.0;
  y.retain_grad();
  (y * y).backward();
  EXPECT_EQ(y.grad().item<float>(), 6.0f);
}

}  // namespace
}  // namespace weft
