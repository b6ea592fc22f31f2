// Buffer sharing between gradients never changes a result: the cases of the sharing rules, and random graphs.
#include <gtest/gtest.h>

#include <random>

#include <weft/tensor/allocator.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
using Doubles = std::vector<double>;

TEST(Sharing, AGradientKeptByAHookIsNotWrittenByTheOtherBranch) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = tensor({3.0, 4.0}).requires_grad_();
  const Tensor doubled = y * 2.0;
  Tensor kept;
  const Tensor inner = x * 1.0;
  register_hook(inner, [&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  (inner + doubled).backward(tensor({1.0, 10.0}));
  EXPECT_EQ(values(kept), (Doubles{1, 10}));
  EXPECT_EQ(values(y.grad()), (Doubles{2, 20}));
}

using Unrecorded = Tensor (*)(Tensor&&);
const std::pair<const char*, Unrecorded> unrecorded_ops[] = {
    {"unary", [](Tensor&& h) { return exp(std::move(h)); }},
    {"binary, first", [](Tensor&& h) { return std::move(h) + ones({2}, f64); }},
    {"binary, second", [](Tensor&& h) { return ones({2}, f64) - std::move(h); }},
    {"with a number", [](Tensor&& h) { return std::move(h) * 2.0; }},
    {"after a number", [](Tensor&& h) { return 2.0 / std::move(h); }},
    {"general",
     [](Tensor&& h) {
       return std::move(h) * ones({3, 1}, f64);
     }},
    {"where",
     [](Tensor&& h) {
       return where(tensor({true, false}), std::move(h), ones({2}, f64));
     }},
    {"masked_fill",
     [](Tensor&& h) {
       return masked_fill(std::move(h), tensor({true, false}), 3.0);
     }},
    {"softmax", [](Tensor&& h) { return softmax(std::move(h), 0); }},
};

TEST(Sharing, AnUnrecordedResultIsInNoGraph) {
  for (const auto& [name, op] : unrecorded_ops) {
    for (const bool leaf : {false, true}) {
      SCOPED_TRACE(name + std::string(leaf ? " of a leaf" : " of a result"));
      const Tensor x = tensor({1.0, 2.0}, f64).requires_grad_();
      const auto operand = [&] { return leaf ? tensor({1.0, 2.0}, f64).requires_grad_() : x * 1.0; };
      const Tensor kept = operand();
      const NoGradGuard guard;
      Tensor h = leaf ? operand() : Tensor();
      if (!leaf) {
        const EnableGradGuard record;
        h = operand();
      }
      h.register_hook([](const Tensor&) { FAIL() << "backward reached the operand"; });
      const Tensor y = op(std::move(h));
      EXPECT_FALSE(y.requires_grad());
      EXPECT_TRUE(y.is_leaf());
      EXPECT_EQ(values(y), values(op(Tensor(kept))));
      const EnableGradGuard record;
      const Tensor p = ones(y.shape(), f64).requires_grad_();
      (y * p).sum().backward();
      EXPECT_FALSE(x.grad().defined());
      EXPECT_EQ(values(p.grad()), values(y));
    }
  }
}

TEST(Sharing, AResultIsOfTheModeItWasMadeIn) {
  for (const auto& [name, op] : unrecorded_ops) {
    SCOPED_TRACE(name);
    Tensor made;
    {
      const InferenceGuard guard;
      made = tensor({1.0, 2.0}, f64) * 1.0;
    }
    const Tensor y = op(std::move(made));
    EXPECT_NO_THROW(y.requires_grad_());
    Tensor ordinary = tensor({1.0, 2.0}, f64) * 1.0;
    const InferenceGuard guard;
    const Tensor z = op(std::move(ordinary));
    EXPECT_THROW(z.requires_grad_(), AutogradError);
  }
}

TEST(Sharing, AGradientThatAHookRecordedBelongsToNoGraph) {
  const Tensor x = tensor({1.0, 2.0}, f64).requires_grad_(), w = tensor({3.0, 4.0}, f64).requires_grad_();
  const Tensor y = exp(x);
  y.register_hook([&](const Tensor& g) {
    const EnableGradGuard record;
    return g * w;
  });
  y.sum().backward();
  EXPECT_FALSE(x.grad().requires_grad());
  const Tensor leaf = tensor({1.0, 2.0}, f64).requires_grad_();
  leaf.register_hook([&](const Tensor& g) {
    const EnableGradGuard record;
    return g * w;
  });
  leaf.sum().backward();
  EXPECT_FALSE(leaf.grad().requires_grad());
  EXPECT_EQ(values(leaf.grad()), values(w));
}

TEST(Sharing, ASeedIsNeverWritten) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor seed = tensor({1.0, 10.0});
  for (int i = 0; i < 2; ++i) {
    const Tensor y = (x * 3.0) * 2.0;
    y.backward(seed);
    EXPECT_EQ(values(seed), (Doubles{1, 10}));
  }
  EXPECT_EQ(values(x.grad()), (Doubles{12, 120}));
  x.grad().fill_(0);
  EXPECT_EQ(values(seed), (Doubles{1, 10}));
}

TEST(Sharing, ThreeUsesNeedTwoGradientBuffersAtMost) {
  const int64_t n = 1 << 16;
  const size_t buffer = n * sizeof(float);
  const auto run = [&](Tensor& out) {
    const Tensor x = full({n}, 0.5).requires_grad_();
    const Tensor y = (x * 1.0) + (x * 2.0) + (x * 3.0);
    const Tensor seed = full({n}, 1.0);
    reset_peak();
    const size_t before = memory_stats().allocated;
    y.backward(seed);
    const size_t peak = memory_stats().peak_allocated - before;
    out = x.grad();
    return peak;
  };
  Tensor shared, separate;
  EXPECT_LE(run(shared), 2 * buffer + 4096);
  {
    const GradientSharingGuard off(false);
    run(separate);
  }
  EXPECT_EQ(values(shared), values(separate));
}

TEST(Sharing, SecondDerivativesAreTheSameWithAndWithout) {
  const auto second = [] {
    const Tensor x = tensor({0.3, -1.2, 2.0}).requires_grad_();
    const Tensor y = (x * x * x).sum() + exp(x).sum();
    const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
    return values(grad({first.sum()}, {x})[0]);
  };
  const Doubles on = second();
  const GradientSharingGuard off(false);
  EXPECT_EQ(on, second());
}

TEST(Sharing, AChainOfScalesNeedsOneBuffer) {
  const int64_t n = 1 << 14;
  const Tensor x = full({n}, 1.0).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = y * 1.5;
  const Tensor loss = y.sum();
  const size_t before = memory_stats().allocations;
  loss.backward();
  EXPECT_LE(memory_stats().allocations - before, 3u);
}

TEST(Sharing, AHookMayReturnItsArgumentANewTensorOrNothing) {
  const auto with_hook = [](std::function<Tensor(const Tensor&)> hook) {
    const Tensor x = tensor({1.0, 2.0}).requires_grad_();
    const Tensor y = x * 3.0;
    register_hook(y, std::move(hook));
    (y * tensor({1.0, 10.0})).sum().backward();
    return values(x.grad());
  };
  EXPECT_EQ(with_hook([](const Tensor& g) { return g; }), (Doubles{3, 30}));
  EXPECT_EQ(with_hook([](const Tensor& g) { return g * 2.0; }), (Doubles{6, 60}));
  EXPECT_EQ(with_hook([](const Tensor&) { return Tensor(); }), (Doubles{3, 30}));
}

TEST(Sharing, ExpandedGradientsAreMaterialisedBeforeTheyAreAddedTo) {
  const Tensor x = tensor({1.0, 2.0, 3.0}).requires_grad_();
  (x.sum() + (x * x).sum() + x.sum()).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{4, 6, 8}));
  EXPECT_TRUE(x.grad().is_contiguous());
}

// A random graph of pass-through and computing ops over two leaves.
Tensor random_graph(const Tensor& a, const Tensor& b, uint32_t seed) {
  std::mt19937 pick(seed);
  std::vector<Tensor> pool{a, b};
  const auto any = [&]() -> const Tensor& { return pool[pick() % pool.size()]; };
  for (int i = 0; i < 30; ++i) {
    switch (pick() % 10) {
      case 0:
        pool.push_back(any() + any());
        break;
      case 1:
        pool.push_back(any() - any());
        break;
      case 2:
        pool.push_back(any() * any() * 0.25);
        break;
      case 3:
        pool.push_back(any() * 0.5);
        break;
      case 4:
        pool.push_back(tanh(any()));
        break;
      case 5:
        pool.push_back(-any());
        break;
      case 6:
        pool.push_back(any().view({6, 4}).view({4, 6}));
        break;
      case 7:
        pool.push_back(any().t().contiguous().view({4, 6}));
        break;
      case 8:
        pool.push_back(any() + any().select(0, 1));
        break;
      default:
        pool.push_back(relu(any()));
        break;
    }
  }
  Tensor total = pool.back();
  for (size_t i = 2; i < pool.size(); i += 3) total = total + pool[i];
  return total.sum();
}

TEST(Sharing, RandomGraphsGiveTheSameBitsWithAndWithout) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto run = [&] {
      const Tensor a = (arange(24, 48).to(f32).view({4, 6}) * 0.01).detach().requires_grad_();
      const Tensor b = (arange(24).to(f32).view({4, 6}) * -0.02).detach().requires_grad_();
      random_graph(a, b, seed).backward();
      Doubles out = a.grad().defined() ? values(a.grad()) : Doubles{};
      if (b.grad().defined()) {
        for (double v : values(b.grad())) out.push_back(v);
      }
      return out;
    };
    const Doubles on = run();
    const GradientSharingGuard off(false);
    ASSERT_EQ(on, run()) << "seed " << seed;
  }
}

// ---- parts of a tensor ----------------------------------------------------------------------------------------------

using ReadPart = Tensor (*)(const Tensor& x, int64_t i);
const std::pair<const char*, ReadPart> reads_of_parts[] = {
    {"x[i]", [](const Tensor& x, int64_t i) -> Tensor { return x[i]; }},
    {"select", [](const Tensor& x, int64_t i) { return x.select(0, i); }},
    {"select of a column", [](const Tensor& x, int64_t i) { return x.select(1, i % 3); }},
    {"narrow", [](const Tensor& x, int64_t i) { return x.narrow(0, i / 2, 2); }},
    {"slice", [](const Tensor& x, int64_t i) { return x.slice(0, i, {}, 2); }},
    {"x[i, j]",
     [](const Tensor& x, int64_t i) -> Tensor {
       return x[{i, 1}];
     }},
    {"x[list]",
     [](const Tensor& x, int64_t i) -> Tensor {
       return x[{{i, 0, i}}];
     }},
    {"x[mask]", [](const Tensor& x, int64_t i) -> Tensor { return x[x > static_cast<double>(i)]; }},
    {"x[i, list]",
     [](const Tensor& x, int64_t i) -> Tensor {
       return x[{i, tensor({0, 2})}];
     }},
    {"index_select",
     [](const Tensor& x, int64_t i) {
       return index_select(x, 0, tensor({i, i}));
     }},
};

TEST(Sharing, GradientsOfPartsMeetInOneSum) {
  const auto gradient = [](ReadPart read, bool recorded, bool also_whole) {
    const Tensor x = (arange(12).to(f64).view({4, 3}) - 3.5).requires_grad_();
    Tensor total = zeros({}, f64);
    for (int64_t i = 0; i < 4; ++i) total = total + square(read(x, i)).sum() * static_cast<double>(i + 1);
    if (also_whole) total = total + x.sum() + (x * 3.0).sum();
    return grad({total}, {x}, {}, {.create_graph = recorded})[0];
  };
  for (const auto& [name, read] : reads_of_parts) {
    for (const bool also_whole : {false, true}) {
      const Doubles expected = values(gradient(read, true, also_whole));  // each made whole, then added
      EXPECT_EQ(values(gradient(read, false, also_whole)), expected) << name;
      const GradientSharingGuard off(false);
      EXPECT_EQ(values(gradient(read, false, also_whole)), expected) << name;
    }
  }
}

TEST(Sharing, ReadingEveryRowTakesTheMemoryOfOneGradient) {
  for (const auto& [name, read] : reads_of_parts) {
    if (std::string_view(name).find("mask") != std::string_view::npos) continue;  // a mask is as large as the tensor
    constexpr int64_t rows = 400;
    const Tensor x = zeros({rows, 100}).requires_grad_();
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < rows / 2; ++i) parts.push_back(read(x, i).sum());
    const Tensor total = stack(parts).sum();
    const size_t before = detail::thread_allocated_bytes();
    total.backward();
    const size_t taken = detail::thread_allocated_bytes() - before, whole = static_cast<size_t>(x.nbytes());
    EXPECT_LT(taken, 2 * whole) << name;  // not 200, one for each part
  }
}

TEST(Sharing, AKeptSumIsNotWrittenByALaterPart) {
  const Tensor x = zeros({3, 2}, f64).requires_grad_(), y = x * 1.0;
  Tensor kept;
  register_hook(y, [&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  const Tensor seed = ones({3, 2}, f64);
  backward(std::vector<Tensor>{y, Tensor(y[0]), Tensor(y[0])}, std::vector<Tensor>{seed, seed[0], seed[0]});
  EXPECT_EQ(values(seed), Doubles(6, 1));
  EXPECT_EQ(values(kept), (Doubles{3, 3, 1, 1, 1, 1}));
  EXPECT_EQ(values(x.grad()), (Doubles{3, 3, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace weft
