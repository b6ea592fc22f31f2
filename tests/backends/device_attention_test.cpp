// Attention on every kind of device: its kernels against the CPU's, and its op as a whole.
#include "device_checks.hpp"

#include <limits>
#include <random>
#include <span>

#include <weft/ops/gradcheck.hpp>
#include <weft/ops/attention.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using namespace test;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

enum class Mask { none, full, per_key, hides_rows };
struct Case {
  int64_t batch, heads, queries, keys, depth, width;
  bool causal = false;
  Mask mask = Mask::none;
  bool heads_inside = false;  ///< [batch, length, heads, width] in memory
  int64_t groups = 0;         ///< heads of k and v, where not those of q
  int64_t before = AttentionPlan::unlimited;
  bool at_end = false, slopes = false;
};

/// Numbers in [-1, 1), the same on every machine.
Tensor numbers(const Dims& shape, std::mt19937& random) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.product(); ++i) values.push_back(static_cast<double>(random()) / 0x1p31 - 1);
  return tensor(values).to(f64).reshape(shape);
}

/// The operands of one case, and the results of one device.
struct Run {
  Tensor out, log_sum_exp, dq, dk, dv;
};
struct Operands {
  Tensor q, k, v, g, mask, slopes;
  AttentionPlan settings;

  Operands(const Case& c, DType t, uint32_t seed) {
    settings.scale = 0.3;
    settings.before = c.before;
    settings.after = c.causal ? 0 : AttentionPlan::unlimited;
    settings.at_end = c.at_end;
    std::mt19937 random(seed);
    const int64_t groups = c.groups == 0 ? c.heads : c.groups;
    const auto make = [&](int64_t length, int64_t width, int64_t heads) {
      if (!c.heads_inside) return numbers({c.batch, heads, length, width}, random).to(t);
      return numbers({c.batch, length, heads, width}, random).to(t).transpose(1, 2);
    };
    q = make(c.queries, c.depth, c.heads), k = make(c.keys, c.depth, groups), v = make(c.keys, c.width, groups),
    g = make(c.queries, c.width, c.heads);
    const DType wide = compute_type(t);
    if (c.slopes) slopes = numbers({c.batch, c.heads}, random).to(wide);
    const Dims scores{c.batch, c.heads, c.queries, c.keys};
    if (c.mask == Mask::none) return;
    if (c.mask == Mask::per_key) mask = numbers({c.batch, 1, 1, c.keys}, random).to(wide).expand(scores);
    else mask = numbers(scores, random).to(wide);
    if (c.mask != Mask::hides_rows || mask.numel() == 0) return;
    mask.slice(2, 0, {}, 3).fill_(minus_infinity);
    mask.slice(3, 0, {}, 5).fill_(minus_infinity);
  }
  Run run(Device on) const {
    const auto there = [&](const Tensor& t) {
      // With the strides that it has here.
      if (!t.defined()) return t;
      if (t.is_contiguous()) return t.to(on);
      return t.stride(2) == 0 ? t.slice(2, 0, 1).to(on).expand(t.shape()) : t.transpose(1, 2).to(on).transpose(1, 2);
    };
    const Tensor a = there(q), b = there(k), c = there(v), d = there(g), m = there(mask);
    AttentionPlan plan = settings;
    const Tensor steep = there(slopes);
    if (steep.defined()) plan.slopes = steep.raw_view();
    const TensorOptions wide{compute_type(q.dtype()), on};
    Run r{full(g.shape(), 7, {g.dtype(), on}), full({q.size(0), q.size(1), q.size(2)}, 7, wide),
          full(q.shape(), 7, {q.dtype(), on}), full(k.shape(), 7, {k.dtype(), on}),
          full(v.shape(), 7, {v.dtype(), on})};
    const View additive = m.defined() ? m.raw_view() : View{};
    const KernelTable& table = kernels(on.type);
    table.attention(r.out.raw_view(), r.log_sum_exp.raw_view(), a.raw_view(), b.raw_view(), c.raw_view(), additive,
                    plan);
    table.attention_gradient(r.dq.raw_view(), r.dk.raw_view(), r.dv.raw_view(), d.raw_view(), r.out.raw_view(),
                             r.log_sum_exp.raw_view(), a.raw_view(), b.raw_view(), c.raw_view(), additive, plan);
    return r;
  }
};

void expect_same_run(const Run& actual, const Run& expected, double tolerance) {
  const std::pair<const char*, Tensor Run::*> parts[] = {
      {"out", &Run::out}, {"log_sum_exp", &Run::log_sum_exp}, {"dq", &Run::dq}, {"dk", &Run::dk}, {"dv", &Run::dv}};
  for (const auto& [what, part] : parts) {
    SCOPED_TRACE(what);
    expect_near(actual.*part, expected.*part, tolerance, tolerance);
  }
}

void expect_as_on_cpu(Device on, const Case& c, DType t) {
  SCOPED_TRACE(std::string(name(t)) + " queries " + std::to_string(c.queries) + " keys " + std::to_string(c.keys) +
               " depth " + std::to_string(c.depth) + " width " + std::to_string(c.width) + (c.causal ? " causal" : "") +
               " mask " + std::to_string(static_cast<int>(c.mask)));
  const Operands operands(c, t, 5);
  const double tolerance = t == f64 ? 1e-12 : t == f32 ? 3e-5 : t == f16 ? 4e-3 : 3e-2;
  expect_same_run(operands.run(on), operands.run(Device()), tolerance);
}

DEVICE_TEST(AttentionAgreesWithTheCpuForEveryMaskAndWidth) {
  const std::pair<int64_t, int64_t> lengths[] = {{1, 1}, {5, 9}, {70, 33}, {33, 130}, {1, 150}};
  for (const auto& [queries, keys] : lengths) {
    for (const int64_t depth : {1, 7, 64, 256}) {
      for (const Mask mask : {Mask::none, Mask::full, Mask::per_key, Mask::hides_rows}) {
        for (const bool causal : {false, true}) {
          expect_as_on_cpu(on, {1, 2, queries, keys, depth, depth, causal, mask}, f32);
        }
      }
      expect_as_on_cpu(on, {1, 2, queries, keys, depth, depth, true, Mask::hides_rows}, f64);
      expect_as_on_cpu(on, {1, 2, queries, keys, depth, depth, true, Mask::none}, f16);
      expect_as_on_cpu(on, {1, 2, queries, keys, depth, depth, false, Mask::full}, bf16);
    }
  }
}

DEVICE_TEST(AttentionTakesStridesAndWidthsThatDiffer) {
  for (const DType t : {f32, f64, bf16}) {
    expect_as_on_cpu(on, {2, 3, 70, 70, 16, 24, true, Mask::none, true}, t);
    expect_as_on_cpu(on, {2, 3, 20, 35, 300, 5, false, Mask::full, true}, t);
    expect_as_on_cpu(on, {2, 3, 20, 35, 5, 300, true, Mask::per_key, true}, t);
  }
}

DEVICE_TEST(AttentionOfSharedHeadsWindowsAndSlopesAgreesWithTheCpu) {
  constexpr int64_t all = AttentionPlan::unlimited;
  for (const DType t : {f32, f64, f16}) {
    expect_as_on_cpu(on, {2, 4, 9, 17, 8, 5, false, Mask::none, false, 2}, t);
    expect_as_on_cpu(on, {1, 6, 70, 90, 8, 8, true, Mask::none, true, 2, all, true}, t);
    expect_as_on_cpu(on, {1, 2, 90, 70, 8, 8, true, Mask::none, false, 0, all, true}, t);
    expect_as_on_cpu(on, {1, 2, 150, 150, 8, 8, true, Mask::none, false, 0, 20, true}, t);
    expect_as_on_cpu(on, {1, 2, 150, 150, 8, 8, false, Mask::none, false, 0, 20, true}, t);
    expect_as_on_cpu(on, {2, 4, 90, 100, 8, 8, true, Mask::full, true, 2, 30, true, true}, t);
    expect_as_on_cpu(on, {2, 4, 1, 100, 8, 8, true, Mask::none, true, 1, 30, true, true}, t);
    expect_as_on_cpu(on, {2, 4, 3, 700, 8, 5, true, Mask::full, true, 2, 300, true, true}, t);
    expect_as_on_cpu(on, {1, 2, 1, 600, 8, 150, false, Mask::hides_rows}, t);
  }
}

DEVICE_TEST(AttentionOfNothing) {
  for (const Case& c : {Case{1, 2, 3, 0, 4, 4}, Case{1, 2, 0, 3, 4, 4}, Case{0, 2, 3, 3, 4, 4}, Case{2, 0, 3, 3, 4, 4},
                        Case{1, 2, 70, 4, 4, 4, true}, Case{1, 2, 4, 70, 4, 4, true}}) {
    expect_as_on_cpu(on, c, f32);
  }
}

DEVICE_TEST(AttentionOfHeadsThatAreShared) {
  const Operands own({2, 4, 10, 12, 8, 8}, f32, 3);
  Operands shared = own;
  shared.k = own.k.slice(1, 0, 1).expand(own.k.shape());
  shared.v = own.v.slice(1, 0, 1).expand(own.v.shape());
  const Run here = shared.run(Device());
  const Tensor k = own.k.slice(1, 0, 1).to(on).expand(own.k.shape()),
               v = own.v.slice(1, 0, 1).to(on).expand(own.v.shape());
  const Tensor q = own.q.to(on), out = zeros(own.g.shape(), {f32, on}), lse = zeros({2, 4, 10}, {f32, on});
  kernels(on.type).attention(out.raw_view(), lse.raw_view(), q.raw_view(), k.raw_view(), v.raw_view(), View{},
                             own.settings);
  expect_near(out, here.out);
  expect_near(lse, here.log_sum_exp);
}

DEVICE_TEST(AttentionKeepsNanAndInfinitiesAsTheCpuDoes) {
  for (const double value : {std::nan(""), -minus_infinity, minus_infinity}) {
    SCOPED_TRACE(value);
    Operands operands({1, 1, 40, 40, 4, 4, false, Mask::full}, f32, 3);
    operands.mask.slice(2, 1, 2).slice(3, 3, 4).fill_(value);
    expect_same_run(operands.run(on), operands.run(Device()), 3e-5);
  }
}

DEVICE_TEST(AttentionGivesTheSameBitsInEveryRun) {
  const Operands operands({2, 2, 90, 140, 40, 40, true, Mask::full}, f32, 8);
  const Run first = operands.run(on), second = operands.run(on);
  for (Tensor Run::*part : {&Run::out, &Run::log_sum_exp, &Run::dq, &Run::dk, &Run::dv}) {
    expect_equal(first.*part, second.*part);
  }
}

DEVICE_TEST(AttentionNeedsNoMemoryForAllScores) {
  std::mt19937 random(4);
  const int64_t length = 400;
  const Tensor q = numbers({1, 1, length, 4}, random).to(f32).to(on), k = q + 0.1, v = q * 2.0;
  for (const Tensor* t : {&q, &k, &v}) t->requires_grad_();
  synchronize(on);
  reset_peak(on);
  const size_t before = memory_stats(on).allocated;
  sum(scaled_dot_product_attention(q, k, v, {.causal = true})).backward();
  EXPECT_LT(memory_stats(on).peak_allocated - before, static_cast<size_t>(length * length) * sizeof(float) / 2);
  EXPECT_TRUE(q.grad().defined());
}

DEVICE_TEST(AttentionOf16BitNumbersReadsThemAsTheyAre) {
  std::mt19937 random(5);
  for (const DType t : {f16, bf16}) {
    SCOPED_TRACE(name(t));
    const Dims shape{2, 3, 100, 32};
    std::vector<Tensor> here, there;
    for (int i = 0; i < 4; ++i) {
      here.push_back(numbers(shape, random).to(t));
      there.push_back(here.back().to(on));
    }
    for (int i = 0; i < 3; ++i) here[i].requires_grad_(), there[i].requires_grad_();
    const auto step = [](const std::vector<Tensor>& x) {
      const Tensor out = scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true});
      out.backward(x[3]);
      return out;
    };
    const Tensor expected = step(here);
    synchronize(on);
    reset_peak(on);
    const size_t before = memory_stats(on).allocated, tensor_bytes = static_cast<size_t>(there[0].nbytes());
    expect_near(step(there), expected, 2e-2, 2e-2);
    EXPECT_LT(memory_stats(on).peak_allocated - before,
              12 * tensor_bytes);  // operands in f32 would be 6 more, and so their gradients
    for (int i = 0; i < 3; ++i) expect_near(there[i].grad(), here[i].grad(), 3e-2, 3e-2);
  }
}

DEVICE_TEST(AttentionPassesTheGradientCheck) {
  std::mt19937 random(6);
  const Tensor q = numbers({2, 3, 3}, random).to(on), k = numbers({2, 4, 3}, random).to(on),
               v = numbers({2, 4, 2}, random).to(on);
  for (const Tensor* t : {&q, &k, &v}) t->requires_grad_();
  const auto attend = [](std::span<const Tensor> x) {
    return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true});
  };
  EXPECT_TRUE(gradcheck(attend, {q, k, v}));
  EXPECT_TRUE(gradgradcheck(attend, {q, k, v}));
}

}  // namespace
}  // namespace weft
