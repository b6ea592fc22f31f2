#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft {
namespace {

using test::ArrayShape;
using test::HostArray;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

struct Case {
  const char* name;
  int64_t batch, heads, queries, keys, depth, width;
  bool causal = false;
  enum Mask { none, full, per_key, hides_rows } mask = none;
  bool strided = false;
  int64_t groups = 0;  ///< heads of k and v, where not those of q
  int64_t before = AttentionPlan::unlimited;
  bool at_end = false, slopes = false;

  int64_t key_heads() const { return groups == 0 ? heads : groups; }
};

const Case cases[] = {
    {"one", 1, 1, 1, 1, 1, 1},
    {"small", 2, 3, 5, 7, 4, 4},
    {"small causal", 2, 3, 7, 7, 4, 4, true},
    {"causal, more keys", 1, 2, 5, 9, 4, 6, true},
    {"causal, fewer keys", 1, 2, 9, 5, 4, 6, true},
    {"mask", 2, 2, 9, 17, 8, 3, false, Case::full},
    {"mask and causal", 2, 2, 20, 20, 8, 3, true, Case::full},
    {"key mask", 2, 2, 9, 40, 8, 8, false, Case::per_key},
    {"hidden rows", 1, 2, 9, 12, 8, 8, false, Case::hides_rows},
    {"heads inside", 2, 3, 70, 70, 16, 16, true, Case::none, true},
    {"decode", 1, 2, 1, 600, 16, 16},
    {"several blocks", 1, 2, 150, 1100, 16, 24},
    {"several blocks causal", 1, 2, 600, 600, 16, 16, true, Case::full},
    {"shared heads", 2, 4, 9, 17, 8, 5, false, Case::none, false, 2},
    {"shared heads of few queries", 2, 4, 2, 300, 19, 21, false, Case::full, false, 2},
    {"shared heads, causal at the end", 1, 6, 70, 90, 8, 8, true, Case::none, true, 2, AttentionPlan::unlimited, true},
    {"causal at the end, more queries", 1, 2, 9, 5, 4, 6, true, Case::none, false, 0, AttentionPlan::unlimited, true},
    {"window", 1, 2, 700, 700, 8, 8, true, Case::none, false, 0, 70, true},
    {"window of few queries", 1, 2, 3, 700, 8, 8, true, Case::none, false, 1, 200, true},
    {"slopes", 2, 3, 40, 50, 8, 8, false, Case::none, false, 0, AttentionPlan::unlimited, true, true},
    {"slopes and all else", 2, 4, 90, 600, 8, 8, true, Case::full, true, 2, 300, true, true},
    {"slopes of few queries", 2, 4, 1, 600, 16, 16, true, Case::none, true, 1, 300, true, true},
    {"no keys", 1, 2, 3, 0, 4, 4},
    {"no queries", 1, 2, 0, 3, 4, 4},
    {"no batch", 0, 2, 3, 3, 4, 4},
};

const Case& named(const std::string& name) {
  return *std::find_if(std::begin(cases), std::end(cases), [&](const Case& c) { return c.name == name; });
}

DType compute(DType t) { return t == DType::f64 ? t : DType::f32; }

/// All operands of one case and the results by plain loops in double.
struct Fixture {
  HostArray q, k, v, g, mask, out, lse, dq, dk, dv, slopes;
  std::vector<double> p, expected_out, expected_lse, expected_dq, expected_dk, expected_dv;
  double scale;
  const Case& c;

  Fixture(const Case& c_, DType t) : scale(0.3), c(c_) {
    const std::vector<int> order = c.strided ? std::vector<int>{0, 2, 1, 3} : std::vector<int>{0, 1, 2, 3};
    const auto shape = [&](int64_t length, int64_t width, int64_t heads) {
      return ArrayShape{{c.batch, heads, length, width}, order};
    };
    q = HostArray(t, shape(c.queries, c.depth, c.heads), 1);
    k = HostArray(t, shape(c.keys, c.depth, c.key_heads()), 2);
    v = HostArray(t, shape(c.keys, c.width, c.key_heads()), 3);
    g = HostArray(t, shape(c.queries, c.width, c.heads), 4);
    out = HostArray(t, shape(c.queries, c.width, c.heads), 5);
    dq = HostArray(t, shape(c.queries, c.depth, c.heads), 6);
    dk = HostArray(t, shape(c.keys, c.depth, c.key_heads()), 7);
    dv = HostArray(t, shape(c.keys, c.width, c.key_heads()), 8);
    slopes = HostArray(compute(t), {{c.batch, c.heads}}, 11);
    for (int64_t i = 0; i < slopes.numel(); ++i) slopes.set(i, slopes.get(i) / 64);
    lse = HostArray(compute(t), {{c.batch, c.heads, c.queries}}, 9);
    const std::vector<int64_t> full{c.batch, c.heads, c.queries, c.keys};
    if (c.mask == Case::full) mask = HostArray(compute(t), {full, {0, 1, 3, 2}}, 10);
    if (c.mask == Case::per_key) mask = HostArray(compute(t), {full, {}, {1, 2}}, 10);
    if (c.mask == Case::hides_rows) {
      mask = HostArray(compute(t), {full}, 10);
      for (int64_t i = 0; i < mask.numel(); ++i) {
        if (i / c.keys % 3 != 1 || i % 5 == 0) mask.set(i, minus_infinity);
        if (i / c.keys % c.queries == 0) mask.set(i, minus_infinity);
      }
    }
    reference_forward();
    reference_backward();
  }

  AttentionPlan settings() const {
    AttentionPlan plan{.scale = scale, .before = c.before, .after = c.causal ? 0 : AttentionPlan::unlimited};
    plan.at_end = c.at_end;
    if (c.slopes) plan.slopes = slopes.view;
    return plan;
  }
  /// How far key j is behind query i, and whether that sees it.
  int64_t distance(int64_t i, int64_t j) const { return j - i - (c.at_end ? c.keys - c.queries : 0); }
  bool sees(int64_t i, int64_t j) const { return !(c.causal && distance(i, j) > 0) && distance(i, j) >= -c.before; }
  /// Of k and v, for a head of q.
  int64_t key_head(int64_t head) const {
    return head / c.heads * c.key_heads() + head % c.heads / (c.heads / c.key_heads());
  }
  View mask_view() const { return c.mask == Case::none ? View{} : mask.view; }
  void run() {
    cpu::attention(out.view, lse.view, q.view, k.view, v.view, mask_view(), settings());
    cpu::attention_gradient(dq.view, dk.view, dv.view, g.view, out.view, lse.view, q.view, k.view, v.view, mask_view(),
                            settings());
  }

  void reference_forward() {
    const std::vector<double> x = q.values(), y = k.values(), z = v.values();
    const std::vector<double> bias = c.mask == Case::none ? x : mask.values(), steep = slopes.values();
    const int64_t rows = c.batch * c.heads * c.queries;
    p.assign(static_cast<size_t>(rows * c.keys), 0);
    expected_out.assign(static_cast<size_t>(rows * c.width), 0);
    expected_lse.assign(static_cast<size_t>(rows), minus_infinity);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t head = r / c.queries, i = r % c.queries;
      double* row = p.data() + r * c.keys;
      double top = minus_infinity, sum = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        double s = 0;
        for (int64_t d = 0; d < c.depth; ++d) s += x[r * c.depth + d] * y[(key_head(head) * c.keys + j) * c.depth + d];
        row[j] = s * scale + (c.mask == Case::none ? 0 : bias[r * c.keys + j]);
        if (c.slopes) row[j] += steep[head] * static_cast<double>(distance(i, j));
        if (!sees(i, j)) row[j] = minus_infinity;
        top = std::max(top, row[j]);
      }
      for (int64_t j = 0; j < c.keys; ++j) sum += row[j] = top == minus_infinity ? 0 : std::exp(row[j] - top);
      if (top != minus_infinity) expected_lse[r] = top + std::log(sum);
      for (int64_t j = 0; j < c.keys; ++j) {
        if (sum > 0) row[j] /= sum;
        for (int64_t d = 0; d < c.width; ++d)
          expected_out[r * c.width + d] += row[j] * z[(key_head(head) * c.keys + j) * c.width + d];
      }
    }
  }

  void reference_backward() {
    const std::vector<double> x = q.values(), y = k.values(), z = v.values(), up = g.values();
    expected_dq.assign(x.size(), 0);
    expected_dk.assign(y.size(), 0);
    expected_dv.assign(z.size(), 0);
    for (int64_t r = 0; r < c.batch * c.heads * c.queries; ++r) {
      const int64_t head = r / c.queries;
      double delta = 0;
      for (int64_t d = 0; d < c.width; ++d) delta += up[r * c.width + d] * expected_out[r * c.width + d];
      for (int64_t j = 0; j < c.keys; ++j) {
        const int64_t key = key_head(head) * c.keys + j;
        const double w = p[r * c.keys + j];
        double dw = 0;
        for (int64_t d = 0; d < c.width; ++d) {
          dw += up[r * c.width + d] * z[key * c.width + d];
          expected_dv[key * c.width + d] += w * up[r * c.width + d];
        }
        const double ds = w * (dw - delta) * scale;
        for (int64_t d = 0; d < c.depth; ++d) {
          expected_dq[r * c.depth + d] += ds * y[key * c.depth + d];
          expected_dk[key * c.depth + d] += ds * x[r * c.depth + d];
        }
      }
    }
  }
};

void expect_close(const HostArray& got, const std::vector<double>& expected, double tolerance, const char* what) {
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double e = expected[static_cast<size_t>(i)];
    if (e == minus_infinity) ASSERT_EQ(got.get(i), e) << what << " at " << i;
    else ASSERT_NEAR(got.get(i), e, tolerance * std::max(1.0, std::abs(e))) << what << " at " << i;
  }
}

class Attention : public testing::TestWithParam<DType> {};

TEST_P(Attention, MatchesLoops) {
  const DType t = GetParam();
  const double tolerance = t == DType::f64 ? 1e-12 : t == DType::f32 ? 1e-5 : t == DType::f16 ? 4e-3 : 3e-2;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Fixture f(c, t);
    f.run();
    expect_close(f.out, f.expected_out, tolerance, "out");
    expect_close(f.lse, f.expected_lse, t == DType::f64 ? 1e-12 : 1e-5, "log_sum_exp");
    expect_close(f.dq, f.expected_dq, tolerance, "dq");
    expect_close(f.dk, f.expected_dk, tolerance, "dk");
    expect_close(f.dv, f.expected_dv, tolerance, "dv");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Attention, testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(AttentionMask, HiddenRowsGiveExactZeros) {
  Fixture f(named("hidden rows"), DType::f32);
  f.run();
  for (int64_t d = 0; d < f.c.width; ++d) EXPECT_EQ(f.out.get(d), 0);
  for (int64_t d = 0; d < f.c.depth; ++d) EXPECT_EQ(f.dq.get(d), 0);
  EXPECT_EQ(f.lse.get(0), minus_infinity);
}

TEST(AttentionNan, ReachesTheOutput) {
  Fixture f(named("small"), DType::f32);
  for (int64_t i = 0; i < f.q.numel(); ++i) f.q.set(i, std::nan(""));
  f.run();
  EXPECT_TRUE(std::isnan(f.out.get(0)));
  EXPECT_TRUE(std::isnan(f.dk.get(0)));
}

TEST(AttentionWeights, AreWithinAFewUlp) {
  // Two keys with scores 0 and x <= 0: the second has weight exp(x) / (1 + exp(x)).
  for (double x = 0; x > -80; x -= 0.37) {
    HostArray q(DType::f32, {{1, 1, 1, 1}}, 1), k(DType::f32, {{1, 1, 2, 1}}, 2), v(DType::f32, {{1, 1, 2, 1}}, 3);
    HostArray out(DType::f32, {{1, 1, 1, 1}}, 4), lse(DType::f32, {{1, 1, 1}}, 5);
    q.set(0, 1);
    k.set(0, 0);
    k.set(1, x);
    v.set(0, 0);
    v.set(1, 1);
    cpu::attention(out.view, lse.view, q.view, k.view, v.view, View{}, {});
    const double score = k.get(1), expected = std::exp(score) / (1 + std::exp(score));
    EXPECT_NEAR(out.get(0), expected, expected * (3 - score) * 0x1p-23) << score;
    EXPECT_NEAR(lse.get(0), std::log1p(std::exp(score)), 0x1p-23) << score;
  }
}

TEST(AttentionWeights, OfHugeScoresAreFinite) {
  for (const int64_t queries : {1, 20}) {
    const Case c{"huge", 1, 1, queries, 40, 8, 8};
    for (const double scale : {1e9, 0x1p60, -0x1p60}) {
      Fixture f(c, DType::f32);
      f.scale = scale;
      f.run();
      for (int64_t i = 0; i < f.out.numel(); ++i) ASSERT_TRUE(std::isfinite(f.out.get(i))) << scale << " at " << i;
    }
  }
}

TEST(AttentionThreads, GiveTheSameBits) {
  const int before = num_threads();
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    for (const char* name : {"several blocks causal", "window of few queries"}) {
      Fixture f(named(name), DType::f32);
      f.run();
      for (const HostArray* a : {&f.out, &f.dq, &f.dk, &f.dv}) results.push_back(a->values());
    }
  }
  for (size_t i = 8; i < results.size(); ++i) EXPECT_EQ(results[i], results[i % 8]);
  set_num_threads(before);
}

}  // namespace
}  // namespace weft
