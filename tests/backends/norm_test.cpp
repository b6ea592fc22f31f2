#include <cmath>

#include "kernel_checks.hpp"

namespace weft {
namespace {

using namespace test;

struct Case {
  DType dtype, weight_type;
  int64_t rows, n;
  ArrayShape shape;
  bool affine;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{3, 1}, {7, 16}, {70, 37}, {1100, 5}, {2, 5000}}) {
    for (const auto& [dtype, weight_type] :
         {std::pair{f32, f32}, {f64, f64}, {bf16, bf16}, {bf16, f32}, {f16, f32}, {f32, bf16}}) {
      for (const ArrayShape& shape : layouts_of({rows, n})) {
        all.push_back({dtype, weight_type, rows, n, shape, true});
        all.push_back({dtype, weight_type, rows, n, shape, false});
      }
    }
  }
  return all;
}

HostArray none() { return HostArray(); }

/// Forward and backward of one case against loops in double; `centered` is layer_norm, else rms_norm.
void check(const Case& c, bool centered) {
  constexpr double eps = 1e-5;
  const DType compute = compute_type(c.dtype);
  const HostArray x(c.dtype, c.shape, 1), g(c.dtype, {.sizes = {c.rows, c.n}}, 2);
  const HostArray weight = c.affine ? HostArray(c.weight_type, {.sizes = {c.n}}, 3) : none();
  const HostArray bias = c.affine ? HostArray(c.weight_type, {.sizes = {c.n}, .gap = 2}, 4) : none();
  HostArray y(c.dtype, c.shape), dx(c.dtype, c.shape), mean(compute, {.sizes = {c.rows}}),
      rstd(compute, {.sizes = {c.rows}});
  HostArray dweight = c.affine ? HostArray(c.weight_type, {.sizes = {c.n}}, 8) : none();
  HostArray dbias = c.affine ? HostArray(c.weight_type, {.sizes = {c.n}}, 9) : none();
  if (centered) {
    cpu::layer_norm(y.view, mean.view, rstd.view, x.view, weight.view, bias.view, eps);
    cpu::layer_norm_gradient(dx.view, dweight.view, dbias.view, g.view, x.view, mean.view, rstd.view, weight.view);
  } else {
    cpu::rms_norm(y.view, rstd.view, x.view, weight.view, eps);
    cpu::rms_norm_gradient(dx.view, dweight.view, g.view, x.view, rstd.view, weight.view);
  }
  const double n = static_cast<double>(c.n), single = compute == f64 ? 1e-12 : 1e-5;
  std::vector<double> dw(static_cast<size_t>(c.n)), db(static_cast<size_t>(c.n)), size(static_cast<size_t>(c.n));
  for (int64_t row = 0; row < c.rows; ++row) {
    double average = 0, variance = 0, dot = 0, sum = 0;
    const auto at = [&](const HostArray& a, int64_t i) { return a.get(row * c.n + i); };
    const auto w = [&](int64_t i) { return c.affine ? weight.get(i) : 1; };
    for (int64_t i = 0; i < c.n; ++i) average += centered ? at(x, i) / n : 0;
    for (int64_t i = 0; i < c.n; ++i) variance += (at(x, i) - average) * (at(x, i) - average) / n;
    const double inverse = 1 / std::sqrt(variance + eps);
    const auto hat = [&](int64_t i) { return (at(x, i) - average) * inverse; };
    for (int64_t i = 0; i < c.n; ++i) {
      const double expected = hat(i) * w(i) + (c.affine && centered ? bias.get(i) : 0);
      ASSERT_NEAR(at(y, i), expected, 2 * epsilon(c.dtype) * std::abs(expected) + 2 * single) << name(c.dtype);
      dot += at(g, i) * w(i) * hat(i);
      sum += centered ? at(g, i) * w(i) : 0;
      dw[static_cast<size_t>(i)] += at(g, i) * hat(i);
      db[static_cast<size_t>(i)] += at(g, i);
      size[static_cast<size_t>(i)] += std::abs(at(g, i) * hat(i));
    }
    for (int64_t i = 0; i < c.n; ++i) {
      const double expected = inverse * (at(g, i) * w(i) - sum / n - hat(i) * dot / n);
      ASSERT_NEAR(at(dx, i), expected, 2 * epsilon(c.dtype) * std::abs(expected) + 2 * single * inverse)
          << name(c.dtype);
    }
    ASSERT_NEAR(rstd.get(row), inverse, single * inverse);
  }
  for (int64_t i = 0; c.affine && i < c.n; ++i) {
    const size_t k = static_cast<size_t>(i);
    ASSERT_NEAR(dweight.get(i), dw[k], 2 * epsilon(c.weight_type) * std::abs(dw[k]) + single * (1 + size[k]));
    if (!centered) continue;
    ASSERT_NEAR(dbias.get(i), db[k], 2 * epsilon(c.weight_type) * std::abs(db[k]) + single * (1 + size[k]));
  }
}

TEST(LayerNorm, EveryTypeAndLayout) {
  for (const Case& c : cases()) check(c, true);
}
TEST(RmsNorm, EveryTypeAndLayout) {
  for (const Case& c : cases()) check(c, false);
}

TEST(LayerNorm, FarMeans) {
  HostArray x(f32, {.sizes = {1, 4096}}), y(f32, {.sizes = {1, 4096}}), mean(f32, {.sizes = {1}}),
      rstd(f32, {.sizes = {1}});
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 100000 + static_cast<double>(i % 2));
  cpu::layer_norm(y.view, mean.view, rstd.view, x.view, View(), View(), 0);
  EXPECT_NEAR(rstd.get(0), 2, 1e-5);
  EXPECT_NEAR(y.get(0), -1, 1e-5);
}

TEST(RmsNorm, WorkedCases) {
  const HostArray x = filled(f32, {.sizes = {1, 2}}, {3, 4}), w = filled(f32, {.sizes = {2}}, {1, 2});
  const HostArray g = filled(f32, {.sizes = {1, 2}}, {1, 1});
  HostArray y(f32, {.sizes = {1, 2}}), rstd(f32, {.sizes = {1}}), dx(f32, {.sizes = {1, 2}}), dw(f32, {.sizes = {2}});
  cpu::rms_norm(y.view, rstd.view, x.view, w.view, 0);
  EXPECT_NEAR(y.get(0), .8485281, 1e-6);
  EXPECT_NEAR(y.get(1), 2.2627417, 1e-6);
  cpu::rms_norm_gradient(dx.view, dw.view, g.view, x.view, rstd.view, w.view);
  EXPECT_NEAR(dx.get(0), -.0905097, 1e-6);
  EXPECT_NEAR(dx.get(1), .0678823, 1e-6);
  EXPECT_NEAR(dw.get(0), .8485281, 1e-6);
  EXPECT_NEAR(dw.get(1), 1.1313708, 1e-6);
  const HostArray h = filled(bf16, {.sizes = {1, 4}}, {7, 6, 5, 3}),
                  v = filled(bf16, {.sizes = {4}}, {1.25, .1875, .3125, .125});
  HostArray z(bf16, {.sizes = {1, 4}});
  cpu::rms_norm(z.view, rstd.view, h.view, v.view, 0);
  const double expected[] = {1.6015625, .20605469, .28710938, .06884766};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(z.get(i), expected[i], 1e-8);
  HostArray zeros(f32, {.sizes = {1, 3}}), out(f32, {.sizes = {1, 3}});
  cpu::rms_norm(out.view, rstd.view, zeros.view, View(), 0);
  EXPECT_TRUE(std::isnan(out.get(0)));
  cpu::rms_norm(out.view, rstd.view, zeros.view, View(), 1e-6);
  EXPECT_EQ(out.get(0), 0);
  const HostArray large = filled(f16, {.sizes = {1, 2}}, {300, 400});
  HostArray half(f16, {.sizes = {1, 2}});
  cpu::rms_norm(half.view, rstd.view, large.view, View(), 0);
  EXPECT_NEAR(half.get(0), 300 / std::sqrt(125000.0), 1e-3);
}

TEST(LayerNorm, EmptyAndInPlace) {
  HostArray no_rows(f32, {.sizes = {0, 4}}), row_values(f32, {.sizes = {0}}), w(f32, {.sizes = {4}}, 1),
      dw(f32, {.sizes = {4}}, 2);
  cpu::layer_norm(no_rows.view, row_values.view, row_values.view, no_rows.view, w.view, w.view, 1e-5);
  cpu::layer_norm_gradient(no_rows.view, dw.view, View(), no_rows.view, no_rows.view, row_values.view, row_values.view,
                           w.view);
  EXPECT_EQ(dw.values(), std::vector<double>(4, 0));
  HostArray no_columns(f32, {.sizes = {4, 0}}), four(f32, {.sizes = {4}}), empty(f32, {.sizes = {0}});
  cpu::layer_norm(no_columns.view, four.view, four.view, no_columns.view, empty.view, empty.view, 1e-5);
  HostArray x(f32, {.sizes = {5, 40}}, 1), y(f32, {.sizes = {5, 40}}), mean(f32, {.sizes = {5}}),
      rstd(f32, {.sizes = {5}});
  cpu::layer_norm(y.view, mean.view, rstd.view, x.view, View(), View(), 1e-5);
  cpu::layer_norm(x.view, mean.view, rstd.view, x.view, View(), View(), 1e-5);
  EXPECT_EQ(x.values(), y.values());
}

TEST(LayerNorm, SameBits) {
  const HostArray x(f32, {.sizes = {2100, 67}}, 1), g(f32, {.sizes = {2100, 67}}, 2), w(f32, {.sizes = {67}}, 3);
  expect_same_bits([&] {
    HostArray y(f32, {.sizes = {2100, 67}}), mean(f32, {.sizes = {2100}}), rstd(f32, {.sizes = {2100}});
    HostArray dx(f32, {.sizes = {2100, 67}}), dw(f32, {.sizes = {67}}), db(f32, {.sizes = {67}});
    cpu::layer_norm(y.view, mean.view, rstd.view, x.view, w.view, w.view, 1e-5);
    cpu::layer_norm_gradient(dx.view, dw.view, db.view, g.view, x.view, mean.view, rstd.view, w.view);
    std::string bits = bits_of(y) + bits_of(dx) + bits_of(dw) + bits_of(db);
    cpu::rms_norm_gradient(dx.view, dw.view, g.view, x.view, rstd.view, w.view);
    return bits + bits_of(dx) + bits_of(dw);
  });
}

}  // namespace
}  // namespace weft
