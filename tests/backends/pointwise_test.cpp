#include "kernel_checks.hpp"

#include <cmath>
#include <span>

#include <weft/backends/cpu/pointwise/loops.hpp>
#include <weft/backends/functors/formulas.hpp>
#include <weft/backends/functors/lists.hpp>
#include <weft/tensor/error.hpp>

namespace weft::test {
namespace {

/// One row of the lists, with its formula in extended precision.
struct Row {
  const char* name;
  PointwiseKind kind;
  int inputs;
  std::function<void(const View& out, std::span<const View> in)> kernel;
  std::function<long double(const long double* in)> real;
  double low = -3, high = 3, low_b = -3, high_b = 3;
  bool is_gradient = false;
};

/// The integer result for the exact value `exact` of the formula: fractions are dropped, values out of range wrap, and
/// division by 0 gives 0.
int64_t wrapped(DType type, long double exact) {
  if (!std::isfinite(exact)) return 0;
  if (type == boolean) return exact != 0;
  const auto whole = static_cast<int64_t>(exact);
  return visit_dtype(type, [&]<class T>() -> int64_t {
    if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(static_cast<T>(whole));
    return 0;
  });
}

std::vector<Row> unary_rows() {
  return {
#define WEFT_ROW(op, F, kind, low, high, document)                                         \
  {#op,                                                                                    \
   PointwiseKind::kind,                                                                    \
   1,                                                                                      \
   [](const View& out, std::span<const View> in) { cpu::unary(UnaryOp::op, out, in[0]); }, \
   [](const long double* x) { return functors::F::value(x[0]); },                          \
   low,                                                                                    \
   high,                                                                                   \
   low,                                                                                    \
   high,                                                                                   \
   false},
      WEFT_UNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
}
std::vector<Row> gradient_rows() {
  return {
#define WEFT_ROW(op, F, kind, low, high, document)                                                         \
  {#op " gradient",                                                                                        \
   PointwiseKind::floating,                                                                                \
   2,                                                                                                      \
   [](const View& out, std::span<const View> in) { cpu::unary_gradient(UnaryOp::op, out, in[0], in[1]); }, \
   [](const long double* x) { return functors::F::gradient(x[0], x[1]); },                                 \
   -2,                                                                                                     \
   2,                                                                                                      \
   low,                                                                                                    \
   high,                                                                                                   \
   true},
      WEFT_UNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
}
std::vector<Row> binary_rows() {
  return {
#define WEFT_ROW(op, F, kind, low_a, high_a, low_b, high_b, document)                               \
  {#op,                                                                                             \
   PointwiseKind::kind,                                                                             \
   2,                                                                                               \
   [](const View& out, std::span<const View> in) { cpu::binary(BinaryOp::op, out, in[0], in[1]); }, \
   [](const long double* x) { return functors::F::value(x[0], x[1]); },                             \
   low_a,                                                                                           \
   high_a,                                                                                          \
   low_b,                                                                                           \
   high_b,                                                                                          \
   false},
      WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
}
std::vector<Row> integer_rows() {
  return {
#define WEFT_ROW(op, F, kind, document)                                                             \
  {#op, PointwiseKind::kind, 2,                                                                     \
   [](const View& out, std::span<const View> in) { cpu::binary(BinaryOp::op, out, in[0], in[1]); }, \
   [](const long double* x) {                                                                       \
     const functors::Whole<int64_t> a(static_cast<int64_t>(x[0])), b(static_cast<int64_t>(x[1]));   \
     return static_cast<long double>(functors::F::value(a, b).raw);                                 \
   }},
      WEFT_INTEGER_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
}
std::vector<Row> ternary_rows() {
  return {
#define WEFT_ROW(op, F, kind, document)                                                                      \
  {#op, PointwiseKind::kind, 3,                                                                              \
   [](const View& out, std::span<const View> in) { cpu::ternary(TernaryOp::op, out, in[0], in[1], in[2]); }, \
   [](const long double* x) { return functors::F::value(x[0], x[1], x[2]); }},
      WEFT_TERNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
}
std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (auto make : {unary_rows, gradient_rows, binary_rows, integer_rows, ternary_rows}) {
    for (Row& row : make()) rows.push_back(std::move(row));
  }
  return rows;
}

/// The types that a row is served for.
std::vector<DType> types_of(const Row& row) {
  std::vector<DType> types = serves_floats(row.kind) ? float_types : std::vector<DType>();
  if (serves_integers(row.kind)) {
    for (DType t : {u8, i8, u16, i16, u32, i32, u64, i64}) types.push_back(t);
  }
  if (serves_bool(row.kind)) types.push_back(boolean);
  return types;
}

/// Operand k of a row: within the row's range, and small enough that no integer operation overflows.
HostArray operand(const Row& row, int k, DType type, const ArrayShape& shape) {
  HostArray a(type, shape);
  std::mt19937 random(static_cast<unsigned>(17 + k));
  const double low = k == 0 ? row.low : row.low_b, high = k == 0 ? row.high : row.high_b;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double unit = static_cast<double>(random()) / 4294967296.0;
    if (is_floating(type)) a.set(i, low + (high - low) * unit);
    else if (type == boolean) a.set(i, random() % 2);
    else a.set(i, std::floor(unit * 9) - (is_signed(type) ? 4 : 0));
  }
  return a;
}

std::vector<HostArray> operands(const Row& row, DType type, const std::vector<ArrayShape>& shapes) {
  std::vector<HostArray> all;
  for (int k = 0; k < row.inputs; ++k)
    all.push_back(operand(row, k, type, shapes[static_cast<size_t>(k) % shapes.size()]));
  return all;
}
std::vector<View> views_of(const std::vector<HostArray>& arrays) {
  std::vector<View> views;
  for (const HostArray& a : arrays) views.push_back(a.view);
  return views;
}

void check_value(const Row& row, DType type, const HostArray& out, const std::vector<HostArray>& in, int64_t i) {
  const std::string what = std::string(row.name) + " of " + std::to_string(in[0].get(i)) + ", " +
                           std::to_string(in.back().get(i)) + " as dtype " + std::to_string(static_cast<int>(type));
  if (is_floating(type)) {
    long double x[3] = {};
    for (size_t k = 0; k < in.size(); ++k) x[k] = in[k].get(i);
    const double expected = static_cast<double>(row.real(x));
    const double unit = 2 * epsilon(compute_type(type)) * (row.is_gradient ? 16 : 4) + epsilon(type);
    expect_close(out.get(i), expected, unit * std::max(1.0, std::abs(expected)), what);
  } else {
    long double x[3] = {};
    for (size_t k = 0; k < in.size(); ++k) x[k] = static_cast<long double>(in[k].whole(i));
    EXPECT_EQ(out.whole(i), wrapped(type, row.real(x))) << what;
  }
}

constexpr const char* targets[] = {"scalar", "avx2", "avx512"};

TEST(Pointwise, EveryRowMatchesItsFormulaOnEveryTarget) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (const Row& row : all_rows()) {
      for (DType type : types_of(row)) {
        const std::vector<HostArray> in = operands(row, type, {{.sizes = {533}}});
        HostArray out(type, {.sizes = {533}});
        row.kernel(out.view, views_of(in));
        for (int64_t i = 0; i < out.numel(); ++i) check_value(row, type, out, in, i);
        if (HasFailure()) FAIL() << row.name << " on " << target;
      }
    }
  }
  cpu::use_simd_target("avx512");
}

/// The result for dense copies of the operands; every layout must give the same bits.
std::string dense_result(const Row& row, DType type, const std::vector<HostArray>& in) {
  const Layout& l = in[0].view.layout;
  const ArrayShape dense{.sizes = std::vector<int64_t>(l.sizes, l.sizes + l.rank)};
  std::vector<HostArray> copies;
  for (const HostArray& a : in) copies.push_back(filled(type, dense, a.values()));
  HostArray out(type, dense);
  row.kernel(out.view, views_of(copies));
  return bits_of(out);
}

TEST(Pointwise, LayoutsDoNotChangeABit) {
  const std::vector<std::vector<int64_t>> shapes = {{},     {1},     {0},      {7},        {3, 0},        {5, 3},
                                                    {3, 5}, {9, 40}, {37, 21}, {2, 3, 17}, {2, 20, 1, 18}};
  for (const Row& row : all_rows()) {
    for (DType type : types_of(row)) {
      if (type == i16 || type == u8 || type == f16) continue;  // as i8 and bf16
      for (const auto& sizes : shapes) {
        std::vector<ArrayShape> layouts = layouts_of(sizes);
        const size_t outputs = layouts.size();
        for (int d = 0; d < static_cast<int>(sizes.size()); ++d) layouts.push_back({.sizes = sizes, .repeated = {d}});
        for (size_t k = 0; k < layouts.size(); ++k) {
          const size_t n = layouts.size();
          const std::vector<HostArray> in =
              operands(row, type, {layouts[k], layouts[(k + 2) % n], layouts[(k + 3) % n]});
          for (size_t o : {size_t{0}, k % outputs}) {
            HostArray out(type, layouts[o]);
            row.kernel(out.view, views_of(in));
            ASSERT_EQ(bits_of(out), dense_result(row, type, in)) << row.name << " layout " << k << " to " << o;
          }
        }
      }
    }
  }
}

TEST(Pointwise, PositionDoesNotChangeABit) {
  for (const Row& row : all_rows()) {
    for (DType type : types_of(row)) {
      const std::vector<HostArray> in = operands(row, type, {{.sizes = {75}}});
      const std::string expected = dense_result(row, type, in);
      const int64_t item = itemsize(type);
      HostArray out(type, {.sizes = {75}});
      for (int64_t first = 0; first < 75; ++first) {  // odd addresses, every remainder
        const int64_t n = std::min<int64_t>(75 - first, 1 + first % 21);
        std::vector<View> views = views_of(in);
        views.push_back(out.view);
        for (View& v : views) {
          v.data = static_cast<char*>(v.data) + first * item;
          v.layout.numel = v.layout.sizes[0] = n;
        }
        row.kernel(views.back(), std::span(views).first(in.size()));
        ASSERT_EQ(bits_of(out).substr(static_cast<size_t>(first * item), static_cast<size_t>(n * item)),
                  expected.substr(static_cast<size_t>(first * item), static_cast<size_t>(n * item)))
            << row.name << " from " << first;
      }
    }
  }
}

TEST(Pointwise, NeighboursDoNotChangeABit) {
  for (const Row& row : all_rows()) {
    if (!serves_floats(row.kind)) continue;
    for (const DType type : {f32, f64, bf16}) {
      std::vector<HostArray> in = operands(row, type, {{.sizes = {40}}});
      const auto item = static_cast<size_t>(itemsize(type));
      const std::string expected = dense_result(row, type, in);
      for (const double special : {1e30, infinity, nan, -1e9, 0.0}) {
        for (const int64_t place : {3, 17, 39}) {
          const double kept = in[0].get(place);
          in[0].set(place, special);
          std::string found = dense_result(row, type, in);
          found.replace(static_cast<size_t>(place) * item, item, expected, static_cast<size_t>(place) * item, item);
          ASSERT_EQ(found, expected) << row.name << " beside " << special << " at " << place;
          in[0].set(place, kept);
        }
      }
    }
  }
}

TEST(Pointwise, InPlace) {
  for (const Row& row : all_rows()) {
    for (DType type : types_of(row)) {
      for (const ArrayShape& shape : layouts_of({19, 31})) {
        std::vector<HostArray> in = operands(row, type, {shape});
        const std::string expected = dense_result(row, type, in);
        for (int k = 0; k < row.inputs; ++k) {
          std::vector<HostArray> again = operands(row, type, {shape});
          row.kernel(again[static_cast<size_t>(k)].view, views_of(again));
          ASSERT_EQ(bits_of(again[static_cast<size_t>(k)]), expected) << row.name;
        }
      }
    }
  }
}

TEST(Pointwise, HostScalars) {
  for (const Row& row : all_rows()) {
    for (DType type : types_of(row)) {
      for (unsigned which = 1; which < 1u << row.inputs; ++which) {
        std::vector<HostArray> in = operands(row, type, {{.sizes = {6, 7}}});
        std::vector<HostArray> scalars;
        std::vector<View> views = views_of(in);
        for (size_t k = 0; k < in.size(); ++k) {
          if ((which >> k & 1) == 0) continue;
          const double value = in[k].get(3);
          for (int64_t i = 0; i < in[k].numel(); ++i) in[k].set(i, value);
          scalars.push_back(filled(compute_type(type), {.sizes = {}}, {value}));
          views[k].data = scalars.back().view.data;
          views[k].layout = in[k].view.layout;
          views[k].layout.host_scalar = 1;
          views[k].layout.dtype = compute_type(type);
          for (int64_t& stride : views[k].layout.strides) stride = 0;
        }
        HostArray out(type, {.sizes = {6, 7}});
        row.kernel(out.view, views);
        ASSERT_EQ(bits_of(out), dense_result(row, type, in)) << row.name << " scalars " << which;
      }
    }
  }
}

TEST(Pointwise, ThreadsAndStreamingDoNotChangeABit) {
  const int threads = num_threads();
  const int64_t n = (int64_t{5} << 20) + 13;  // 20 MB, past the caches
  HostArray a(f32, {.sizes = {n}}, 1), b(f32, {.sizes = {n}}, 2), out(f32, {.sizes = {n}});
  void* const unaligned = out.view.data;
  for (int64_t shift : {int64_t{0}, int64_t{4}}) {
    const auto address = (reinterpret_cast<uintptr_t>(unaligned) + 63) / 64 * 64 + static_cast<uintptr_t>(shift);
    View target = out.view;
    target.data = reinterpret_cast<void*>(address);
    target.layout.numel = target.layout.sizes[0] = n - 32;
    View x = a.view, y = b.view;
    x.layout = y.layout = target.layout;
    std::vector<float> results[2];
    for (int count : {1, 3}) {
      set_num_threads(count);
      cpu::binary(BinaryOp::add, target, x, y);
      const auto* p = static_cast<const float*>(target.data);
      results[count == 3].assign(p, p + target.layout.numel);
    }
    ASSERT_EQ(results[0], results[1]);
    const auto* p = static_cast<const float*>(x.data);
    const auto* q = static_cast<const float*>(y.data);
    for (int64_t i = 0; i < target.layout.numel; ++i) ASSERT_EQ(results[0][static_cast<size_t>(i)], p[i] + q[i]) << i;
  }
  for (const Row& row : all_rows()) {
    if (!serves_floats(row.kind)) continue;
    for (const ArrayShape& shape :
         {ArrayShape{.sizes = {300, 401}}, ArrayShape{.sizes = {300, 401}, .order = {1, 0}}}) {
      const std::vector<HostArray> in = operands(row, f32, {shape, {.sizes = {300, 401}}});
      HostArray one(f32, {.sizes = {300, 401}}), many(f32, {.sizes = {300, 401}});
      set_num_threads(1);
      row.kernel(one.view, views_of(in));
      set_num_threads(3);
      row.kernel(many.view, views_of(in));
      ASSERT_EQ(bits_of(one), bits_of(many)) << row.name;
    }
  }
  set_num_threads(threads);
}

// Operands that begin at the same element are the same only where their strides are.
TEST(Pointwise, AScatteredOperandTwice) {
  constexpr int64_t n = 40;
  for (const DType dtype : {u8, bf16, f32, f64}) {
    const HostArray x(dtype, {.sizes = {n, n}, .gap = 2}, 1), out(dtype, {.sizes = {n, n}});
    View turned = x.view;
    std::swap(turned.layout.strides[0], turned.layout.strides[1]);
    for (const View& other : {x.view, turned}) {
      cpu::binary(BinaryOp::maximum, out.view, x.view, other);
      for (int64_t i = 0; i < n * n; ++i) {
        const int64_t mirrored = other.layout.strides[0] == x.view.layout.strides[0] ? i : i % n * n + i / n;
        ASSERT_EQ(out.get(i), std::max(x.get(i), x.get(mirrored))) << name(dtype);
      }
    }
  }
}

double unary_of(UnaryOp op, DType type, double x) {
  HostArray a = filled(type, {.sizes = {1}}, {x}), out(type, {.sizes = {1}});
  cpu::unary(op, out.view, a.view);
  return out.get(0);
}

TEST(Pointwise, SpecialValues) {
  struct Case {
    UnaryOp op;
    double x, y;
  };
  // clang-format off
  const Case cases[] = {
      {UnaryOp::exp, -infinity, 0}, {UnaryOp::exp, infinity, infinity}, {UnaryOp::exp, 0, 1},
      {UnaryOp::log, 0, -infinity}, {UnaryOp::log, -1, nan}, {UnaryOp::log, infinity, infinity}, {UnaryOp::log, 1, 0},
      {UnaryOp::log1p, -1, -infinity}, {UnaryOp::log1p, -2, nan}, {UnaryOp::log1p, infinity, infinity},
      {UnaryOp::expm1, -infinity, -1}, {UnaryOp::expm1, infinity, infinity}, {UnaryOp::sqrt, -1, nan},
      {UnaryOp::sqrt, infinity, infinity}, {UnaryOp::rsqrt, 0, infinity}, {UnaryOp::reciprocal, 0, infinity},
      {UnaryOp::sin, infinity, nan}, {UnaryOp::cos, -infinity, nan}, {UnaryOp::tanh, infinity, 1},
      {UnaryOp::tanh, -infinity, -1}, {UnaryOp::erf, infinity, 1}, {UnaryOp::erf, -infinity, -1},
      {UnaryOp::sigmoid, -infinity, 0}, {UnaryOp::sigmoid, infinity, 1}, {UnaryOp::silu, -infinity, 0},
      {UnaryOp::silu, infinity, infinity}, {UnaryOp::softplus, -infinity, 0}, {UnaryOp::softplus, infinity, infinity},
      {UnaryOp::gelu_erf, -infinity, 0}, {UnaryOp::gelu_erf, infinity, infinity}, {UnaryOp::gelu_tanh, -infinity, 0},
      {UnaryOp::gelu_tanh, infinity, infinity}, {UnaryOp::relu, -infinity, 0}, {UnaryOp::round, 2.5, 2},
      {UnaryOp::round, 3.5, 4}, {UnaryOp::round, -0.5, -0.0}, {UnaryOp::abs, -0.0, 0}, {UnaryOp::trunc, -1.5, -1},
      {UnaryOp::floor, -1.5, -2},
  };
  // clang-format on
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (DType type : float_types) {
      for (const Case& c : cases) {
        const std::string what =
            std::string(target) + " op " + std::to_string(static_cast<int>(c.op)) + " of " + std::to_string(c.x);
        const double y = unary_of(c.op, type, c.x);
        if (std::isnan(c.y)) EXPECT_TRUE(std::isnan(y)) << what << " gave " << y;
        else EXPECT_EQ(y, c.y) << what;
      }
      for (int op = 0; op < static_cast<int>(UnaryOp::count); ++op) {
        EXPECT_TRUE(std::isnan(unary_of(static_cast<UnaryOp>(op), type, nan))) << target << " op " << op;
      }
      for (UnaryOp op : {UnaryOp::sin, UnaryOp::tan, UnaryOp::tanh, UnaryOp::erf, UnaryOp::expm1, UnaryOp::log1p,
                         UnaryOp::sqrt, UnaryOp::floor, UnaryOp::trunc, UnaryOp::round, UnaryOp::asin, UnaryOp::atan,
                         UnaryOp::sinh, UnaryOp::asinh, UnaryOp::atanh, UnaryOp::erfinv, UnaryOp::i1, UnaryOp::i1e}) {
        EXPECT_TRUE(std::signbit(unary_of(op, type, -0.0))) << target << " op " << static_cast<int>(op);
      }
    }
  }
  cpu::use_simd_target("avx512");
}

TEST(Pointwise, PowAtan2MaximumOfSpecialValues) {
  const std::vector<double> values = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, infinity, -infinity, nan};
  std::vector<double> a, b;
  for (double x : values) {
    for (double y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const ArrayShape shape{.sizes = {static_cast<int64_t>(a.size())}};
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (DType type : {f32, f64}) {
      const HostArray x = filled(type, shape, a), y = filled(type, shape, b);
      HostArray power(type, shape), angle(type, shape), largest(type, shape), smallest(type, shape);
      cpu::binary(BinaryOp::pow, power.view, x.view, y.view);
      cpu::binary(BinaryOp::atan2, angle.view, x.view, y.view);
      cpu::binary(BinaryOp::maximum, largest.view, x.view, y.view);
      cpu::binary(BinaryOp::minimum, smallest.view, x.view, y.view);
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double p = x.get(i), q = y.get(i);
        const std::string what = std::string(target) + ": " + std::to_string(p) + ", " + std::to_string(q);
        double expected = std::pow(p, q);
        if (type == f32) expected = static_cast<float>(expected);
        expect_close(power.get(i), expected, 2 * epsilon(type) * std::abs(expected), "pow " + what);
        EXPECT_TRUE(std::isnan(expected) || std::signbit(power.get(i)) == std::signbit(expected)) << what;
        expect_close(angle.get(i), std::atan2(p, q), 8 * epsilon(type), "atan2 " + what);
        const bool is_nan = std::isnan(p) || std::isnan(q);
        EXPECT_TRUE(is_nan || std::signbit(angle.get(i)) == std::signbit(std::atan2(p, q))) << what;
        expect_close(largest.get(i), is_nan ? nan : std::max(p, q), 0, "maximum " + what);
        expect_close(smallest.get(i), is_nan ? nan : std::min(p, q), 0, "minimum " + what);
      }
    }
  }
  cpu::use_simd_target("avx512");
}

/// The error of `y` in units of the last place of `exact`.
double ulps(double y, long double exact, DType type) {
  const double rounded = type == f32 ? static_cast<double>(static_cast<float>(exact)) : static_cast<double>(exact);
  if (std::isnan(rounded) || std::isinf(rounded))
    return std::isnan(rounded) ? (std::isnan(y) ? 0 : 1e9) : (y == rounded ? 0 : 1e9);
  if (std::isnan(y) || std::isinf(y)) return 1e9;
  const int digits = type == f32 ? 23 : 52, lowest = type == f32 ? -126 : -1022;
  const int exponent = rounded == 0 ? lowest : std::max(std::ilogb(rounded), lowest);
  return static_cast<double>(std::abs(y - exact) / std::ldexp(1.0L, exponent - digits));
}

TEST(Pointwise, ElementaryFunctionsAreAccurate) {
  struct Function {
    UnaryOp op;
    long double (*exact)(long double);
    double limit;
  };
  const Function functions[] = {
      {UnaryOp::exp, expl, 1.01},    {UnaryOp::expm1, expm1l, 2},   {UnaryOp::log, logl, 1},
      {UnaryOp::log1p, log1pl, 2},   {UnaryOp::tanh, tanhl, 2},     {UnaryOp::erf, erfl, 1.5},
      {UnaryOp::sin, sinl, 2},       {UnaryOp::cos, cosl, 2},       {UnaryOp::tan, tanl, 1},
      {UnaryOp::sqrt, sqrtl, 0.501}, {UnaryOp::exp2, exp2l, 1.1},   {UnaryOp::log2, log2l, 2},
      {UnaryOp::log10, log10l, 2},   {UnaryOp::asin, asinl, 2},     {UnaryOp::acos, acosl, 2},
      {UnaryOp::atan, atanl, 2.2},   {UnaryOp::sinh, sinhl, 2},     {UnaryOp::cosh, coshl, 2},
      {UnaryOp::asinh, asinhl, 2},   {UnaryOp::acosh, acoshl, 2.5}, {UnaryOp::atanh, atanhl, 3},
      {UnaryOp::erfc, erfcl, 4}};
  std::mt19937_64 random(5);
  std::vector<double> x = {0, -0.0, 1e-30, -1e-30, 88.7, -87.4, -103, 709.7, -745};
  for (int i = 0; i < 20000; ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
    for (double range : {1.0, 20.0, 1e4}) x.push_back(unit * range);
    float any;
    const auto pattern = static_cast<uint32_t>(random());
    std::memcpy(&any, &pattern, sizeof(any));
    x.push_back(any);
  }
  const ArrayShape shape{.sizes = {static_cast<int64_t>(x.size())}};
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (DType type : {f32, f64}) {
      const HostArray a = filled(type, shape, x);
      for (const Function& f : functions) {
        HostArray out(type, shape);
        cpu::unary(f.op, out.view, a.view);
        for (int64_t i = 0; i < a.numel(); ++i) {
          ASSERT_LE(ulps(out.get(i), f.exact(a.get(i)), type), f.limit)
              << target << " op " << static_cast<int>(f.op) << " of " << a.get(i) << " gave " << out.get(i);
        }
      }
    }
  }
  cpu::use_simd_target("avx512");
}

TEST(Pointwise, IntegersWrapAround) {
  HostArray a = filled(i8, {.sizes = {3}}, {127, -128, 100}), b = filled(i8, {.sizes = {3}}, {1, -1, 3}),
            out(i8, {.sizes = {3}});
  cpu::binary(BinaryOp::add, out.view, a.view, b.view);
  EXPECT_EQ(out.values(), (std::vector<double>{-128, 127, 103}));
  cpu::binary(BinaryOp::mul, out.view, a.view, b.view);
  EXPECT_EQ(out.values(), (std::vector<double>{127, -128, 44}));
  cpu::unary(UnaryOp::neg, out.view, a.view);
  EXPECT_EQ(out.values(), (std::vector<double>{-127, -128, -100}));
  HostArray large(i64, {.sizes = {1}});
  *reinterpret_cast<int64_t*>(large.at(0)) = INT64_MAX;
  cpu::binary(BinaryOp::add, large.view, large.view, large.view);
  EXPECT_EQ(*reinterpret_cast<int64_t*>(large.at(0)), -2);
}

bool compared(CompareOp op, double a, double b) {
  switch (op) {
#define WEFT_ROW(name, F, document) \
  case CompareOp::name:             \
    return functors::F::value(a, b);
    WEFT_COMPARE_OPS(WEFT_ROW)
#undef WEFT_ROW
    default:
      return false;
  }
}

TEST(Compare, EveryRowTypeAndLayout) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (int op = 0; op < static_cast<int>(CompareOp::count); ++op) {
      for (DType type : real_types) {
        std::vector<ArrayShape> layouts = layouts_of({13, 37});
        layouts.push_back({.sizes = {13, 37}, .repeated = {1}});
        layouts.push_back({.sizes = {13, 37}, .repeated = {0, 1}});
        for (size_t k = 0; k < layouts.size(); ++k) {
          HostArray a(type, layouts[k]), b(type, layouts[(k + 1) % layouts.size()]), out(boolean, layouts[k % 5]);
          std::mt19937 random(3);
          const auto draw = [&] {
            const int n = static_cast<int>(random() % 4);
            if (is_floating(type)) return n == 0 ? nan : n == 1 ? -0.0 : n - 2.0;
            return type == boolean ? n % 2 : is_signed(type) ? n - 2.0 : n;
          };
          for (HostArray* x : {&a, &b}) {
            for (int64_t i = 0; i < x->numel(); ++i) x->set(i, draw());
          }
          cpu::compare(static_cast<CompareOp>(op), out.view, a.view, b.view);
          for (int64_t i = 0; i < out.numel(); ++i) {
            ASSERT_EQ(out.get(i), compared(static_cast<CompareOp>(op), a.get(i), b.get(i)))
                << op << " " << a.get(i) << " " << b.get(i);
          }
        }
      }
    }
  }
  cpu::use_simd_target("avx512");
}

TEST(Where, EveryTypeAndLayout) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {1}, {0}, {100}, {21, 34}, {3, 4, 5}}) {
    for (DType type : real_types) {
      std::vector<ArrayShape> layouts = layouts_of(sizes);
      const size_t outputs = layouts.size();
      for (int d = 0; d < static_cast<int>(sizes.size()); ++d) layouts.push_back({.sizes = sizes, .repeated = {d}});
      for (size_t k = 0; k < layouts.size(); ++k) {
        const size_t n = layouts.size();
        const HostArray c(boolean, layouts[(k + 1) % n], 7), a(type, layouts[k], 8), b(type, layouts[(k + 3) % n], 9);
        HostArray out(type, layouts[k % outputs]);
        cpu::where(out.view, c.view, a.view, b.view);
        for (int64_t i = 0; i < out.numel(); ++i) ASSERT_EQ(out.get(i), c.get(i) != 0 ? a.get(i) : b.get(i)) << i;
      }
    }
  }
}

TEST(Where, HostScalarsOfHalves) {
  const HostArray c(boolean, {.sizes = {40}}, 7), a(bf16, {.sizes = {40}}, 8);
  HostArray out(bf16, {.sizes = {40}});
  float scalar = 2.5f;
  View b = a.view;
  b.data = &scalar;
  b.layout.host_scalar = 1;
  b.layout.dtype = f32;
  cpu::where(out.view, c.view, a.view, b);
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(out.get(i), c.get(i) != 0 ? a.get(i) : 2.5);
  cpu::where(out.view, c.view, b, b);
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(out.get(i), 2.5);
}

TEST(Pointwise, TypesThatAreNotServed) {
  for (DType type : {f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
    HostArray a(type, {.sizes = {2}});
    EXPECT_THROW(cpu::unary(UnaryOp::abs, a.view, a.view), DTypeError);
    EXPECT_THROW(cpu::unary_gradient(UnaryOp::abs, a.view, a.view, a.view), DTypeError);
    EXPECT_THROW(cpu::binary(BinaryOp::add, a.view, a.view, a.view), DTypeError);
    EXPECT_THROW(cpu::ternary(TernaryOp::clamp, a.view, a.view, a.view, a.view), DTypeError);
    HostArray out(boolean, {.sizes = {2}});
    EXPECT_THROW(cpu::compare(CompareOp::eq, out.view, a.view, a.view), DTypeError);
  }
  HostArray a(boolean, {.sizes = {2}}), i(i32, {.sizes = {2}});
  EXPECT_THROW(cpu::binary(BinaryOp::sub, a.view, a.view, a.view), DTypeError);
  EXPECT_THROW(cpu::unary(UnaryOp::neg, a.view, a.view), DTypeError);
  EXPECT_THROW(cpu::unary(UnaryOp::exp, i.view, i.view), DTypeError);
}

}  // namespace
}  // namespace weft::test
