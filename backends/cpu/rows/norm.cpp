#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "rows.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// A [n] operand as contiguous numbers of type A; null where the view has no data.
template <class A>
class Vector {
 public:
  Vector(const View& view, int64_t n)
      : line_(n * (int64_t)sizeof(A), view.data != nullptr && needs_scratch<A>(view.layout, 0)) {
    if (view.data != nullptr)
      data_ = read_line(line_.as<A>(), bytes(view), view.layout.strides[0], n, view.layout.dtype);
  }
  const A* data() const { return data_; }

 private:
  Scratch line_;
  const A* data_ = nullptr;
};

template <class A>
A& item(const View& view, int64_t i) {
  return *reinterpret_cast<A*>(bytes(view) + i * view.layout.strides[0]);
}

template <class A>
HWY_INLINE Lanes<A> ones_or(const A* weight, int64_t i, int64_t left) {
  return weight != nullptr ? Lanes<A>::load(weight + i, left, A(1)) : Lanes<A>(A(1));
}

template <class A>
struct RowMoments {
  A average, inverse;  ///< the mean, and one over the standard deviation
};
template <class A>
HWY_INLINE RowMoments<A> moments_of_row(const A* x, int64_t n, double epsilon) {
  using L = Lanes<A>;
  const double count = static_cast<double>(n);
  const bool is_short = n <= lane_count;  // then all of it stays in registers, with the same bits
  const double sum =
      is_short ? static_cast<double>(sum_of(L::load(x, n, A(0))))
               : sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR { return L::load(x + i, left, A(0)); });
  const A near = static_cast<A>(sum / count);
  Deviations d;
  if (is_short) {
    const L deviation = L::load(x, n, near) - L(near);
    d = {static_cast<double>(sum_of(deviation)), static_cast<double>(sum_of(deviation * deviation))};
  } else {
    d = deviations(x, n, near);
  }
  const double shift = d.sum / count, variance = d.squares / count - shift * shift;
  return {static_cast<A>(static_cast<double>(near) + shift), static_cast<A>(1 / std::sqrt(variance + epsilon))};
}

template <class A>
void layer_norm_rows(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                     const View& bias, double epsilon) {
  using L = Lanes<A>;
  const int64_t rows = x.layout.sizes[0], n = x.layout.sizes[1];
  const Vector<A> weights(weight, n), biases(bias, n);
  const A* const w = weights.data();
  const A* const b = biases.data();
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Rows<A> in(x, n), result(out, n);
    for (int64_t row = begin; row < end; ++row) {
      const A* xs = in.read(row);
      const auto [average, inverse] = moments_of_row(xs, n, epsilon);
      if (mean.data != nullptr) item<A>(mean, row) = average;
      if (rstd.data != nullptr) item<A>(rstd, row) = inverse;
      const L center(average), scale(inverse);
      A* ys = result.write(row);
      each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
        L y = (L::load(xs + i, left, A(0)) - center) * scale;
        if (w != nullptr) y = y * L::load(w + i, left, A(0));
        if (b != nullptr) y = y + L::load(b + i, left, A(0));
        y.store(ys + i, left);
      });
      result.finish(ys, row);
    }
  });
}

/// ys = xs / rms * w; returns 1 / rms.
template <class A>
HWY_INLINE A rms_norm_row(A* ys, const A* xs, const A* w, int64_t n, double epsilon) {
  using L = Lanes<A>;
  const double squares = sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR {
    const L v = L::load(xs + i, left, A(0));
    return v * v;
  });
  const A inverse = static_cast<A>(1 / std::sqrt(squares / static_cast<double>(n) + epsilon));
  const L scale(inverse);
  each_step(n, [&](int64_t i, int64_t left)
                   HWY_ATTR { (L::load(xs + i, left, A(0)) * scale * ones_or(w, i, left)).store(ys + i, left); });
  return inverse;
}

template <class A>
void rms_norm_rows(const View& out, const View& rstd, const View& x, const View& weight, double epsilon) {
  const int64_t rows = x.layout.sizes[0], n = x.layout.sizes[1];
  const Vector<A> weights(weight, n);
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Rows<A> in(x, n), result(out, n);
    for (int64_t row = begin; row < end; ++row) {
      const A* xs = in.read(row);
      A* ys = result.write(row);
      const A inverse = rms_norm_row(ys, xs, weights.data(), n, epsilon);
      if (rstd.data != nullptr) item<A>(rstd, row) = inverse;
      result.finish(ys, row);
    }
  });
}

template <class A>
void rms_norm_residual_rows(const View& out, const View& sum, const View& rstd, const View& x, const View& residual,
                            const View& bias, const View& weight, double epsilon) {
  using L = Lanes<A>;
  const int64_t rows = x.layout.sizes[0], n = x.layout.sizes[1];
  const Vector<A> weights(weight, n), biases(bias, n);
  const A* const b = biases.data();
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Rows<A> in(x, n), added(residual, n), total(sum, n), result(out, n);
    for (int64_t row = begin; row < end; ++row) {
      const A *xs = in.read(row), *rs = added.read(row);
      A* ts = total.write(row);
      each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
        L t = L::load(xs + i, left, A(0)) + L::load(rs + i, left, A(0));
        if (b != nullptr) t = t + L::load(b + i, left, A(0));
        t.store(ts + i, left);
      });
      total.finish(ts, row);
      const A* rounded = total.read(row);
      A* ys = result.write(row);
      const A inverse = rms_norm_row(ys, rounded, weights.data(), n, epsilon);
      if (rstd.data != nullptr) item<A>(rstd, row) = inverse;
      result.finish(ys, row);
    }
  });
}

/// Column sums over rows of up to two products. Blocks of rows depend on the shape alone; within a block, groups of
/// rows are added in A and the groups in double.
template <class A>
class ColumnSums {
 public:
  static constexpr int64_t group = 32;
  ColumnSums(int64_t rows, int64_t n, int sums)
      : rows_per_block(rows <= 32 * group ? group : (rows + 31) / 32),
        blocks((rows + rows_per_block - 1) / rows_per_block),
        n_(n),
        sums_(sums),
        totals_(blocks * sums * n * (int64_t)sizeof(double), sums > 0) {
    if (sums > 0) memset(totals_.as<double>(), 0, static_cast<size_t>(blocks * sums * n) * sizeof(double));
  }
  double* total(int64_t block, int sum) const { return totals_.as<double>() + (block * sums_ + sum) * n_; }

  void flush(A* HWY_RESTRICT partial, int64_t block, int sum) const {
    double* HWY_RESTRICT to = total(block, sum);
    for (int64_t i = 0; i < n_; ++i) to[i] += static_cast<double>(partial[i]), partial[i] = 0;
  }
  void store(const View& out, int sum) const {
    double* HWY_RESTRICT first = total(0, sum);
    for (int64_t block = 1; block < blocks; ++block) {
      const double* HWY_RESTRICT more = total(block, sum);
      for (int64_t i = 0; i < n_; ++i) first[i] += more[i];
    }
    store_line(bytes(out), out.layout.strides[0], out.layout.dtype, static_cast<const double*>(first), n_);
  }
  const int64_t rows_per_block, blocks;

 private:
  int64_t n_;
  int sums_;
  Scratch totals_;
};

/// One row of a gradient: dx = rstd (gw - mean(gw) - xhat mean(gw xhat)), without the term mean(gw) where the norm does
/// not center.
template <class A, bool centered>
struct GradientRow {
  using L = Lanes<A>;
  const A *g, *x, *w;
  int64_t n;
  A average, inverse;
  struct Means {
    A dot, sum;
  };

  HWY_INLINE L hat(int64_t i, int64_t left) const {
    const L v = L::load(x + i, left, A(0));
    return (centered ? v - L(average) : v) * L(inverse);
  }
  HWY_INLINE L weighted(L gradient, int64_t i, int64_t left) const {
    return w != nullptr ? gradient * L::load(w + i, left, A(0)) : gradient;
  }
  /// Also adds the row's part to the weight's and the bias's gradients, where there are such.
  HWY_INLINE Means means(A* dw, A* db) const {
    double dot = 0, sum = 0;
    for (int64_t begin = 0; begin < n; begin += chunk_size) {
      const int64_t end = begin + chunk_size < n ? begin + chunk_size : n;
      L dots[2] = {L(A(0)), L(A(0))}, sums[2] = {L(A(0)), L(A(0))};
      const auto add = [&](int64_t i, int64_t left, L& dot_here, L& sum_here) HWY_ATTR {
        const L gradient = L::load(g + i, left, A(0)), h = hat(i, left), gw = weighted(gradient, i, left);
        dot_here = dot_here + gw * h;
        if (centered) sum_here = sum_here + gw;
        if (dw != nullptr) (L::load(dw + i, left, A(0)) + gradient * h).store(dw + i, left);
        if (db != nullptr) (L::load(db + i, left, A(0)) + gradient).store(db + i, left);
      };
      int64_t i = begin;
      for (; i + 2 * lane_count <= end; i += 2 * lane_count) {
        add(i, lane_count, dots[0], sums[0]);
        add(i + lane_count, lane_count, dots[1], sums[1]);
      }
      for (; i < end; i += lane_count) add(i, end - i, dots[0], sums[0]);
      dot += static_cast<double>(sum_of(dots[0] + dots[1]));
      if (centered) sum += static_cast<double>(sum_of(sums[0] + sums[1]));
    }
    return {static_cast<A>(dot / static_cast<double>(n)), static_cast<A>(sum / static_cast<double>(n))};
  }
  HWY_INLINE void write(A* dx, Means mean) const {
    const L mean_dot(mean.dot), mean_sum(mean.sum), scale(inverse);
    each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
      L d = weighted(L::load(g + i, left, A(0)), i, left);
      if (centered) d = d - mean_sum;
      ((d - hat(i, left) * mean_dot) * scale).store(dx + i, left);
    });
  }
};

template <class A, bool centered>
void norm_gradient_rows(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                        const View& mean, const View& rstd, const View& weight) {
  const int64_t rows = x.layout.sizes[0], n = x.layout.sizes[1];
  const Vector<A> weights(weight, n);
  const bool wants_weight = dweight.data != nullptr, wants_bias = dbias.data != nullptr;
  const int sums = wants_weight + wants_bias;
  const ColumnSums<A> columns(rows > 0 ? rows : 1, n, sums);
  parallel_for(columns.blocks, 1, [&](int64_t first, int64_t last) HWY_ATTR {
    const Rows<A> in(x, n), gradient(g, n), result(dx, n);
    const Scratch partial(2 * n * (int64_t)sizeof(A), sums > 0);
    A* const dw = wants_weight ? partial.as<A>() : nullptr;
    A* const db = wants_bias ? partial.as<A>() + n : nullptr;
    if (sums > 0) memset(partial.as<A>(), 0, static_cast<size_t>(2 * n) * sizeof(A));
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * columns.rows_per_block;
      const int64_t end = begin + columns.rows_per_block < rows ? begin + columns.rows_per_block : rows;
      for (int64_t row = begin; row < end; ++row) {
        const A average = centered ? item<A>(mean, row) : A(0), inverse = item<A>(rstd, row);
        const GradientRow<A, centered> line = {gradient.read(row), in.read(row), weights.data(), n, average, inverse};
        const auto means = line.means(dw, db);
        if ((row - begin) % ColumnSums<A>::group == ColumnSums<A>::group - 1 || row + 1 == end) {
          if (dw != nullptr) columns.flush(dw, block, 0);
          if (db != nullptr) columns.flush(db, block, wants_weight);
        }
        if (dx.data == nullptr) continue;
        A* to = result.write(row);
        line.write(to, means);
        result.finish(to, row);
      }
    }
  });
  if (wants_weight) columns.store(dweight, 0);
  if (wants_bias) columns.store(dbias, wants_weight);
}

void layer_norm_any(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                    const View& bias, double epsilon) {
  if (x.layout.dtype == DType::f64) layer_norm_rows<double>(out, mean, rstd, x, weight, bias, epsilon);
  else layer_norm_rows<float>(out, mean, rstd, x, weight, bias, epsilon);
}
void rms_norm_any(const View& out, const View& rstd, const View& x, const View& weight, double epsilon) {
  if (x.layout.dtype == DType::f64) rms_norm_rows<double>(out, rstd, x, weight, epsilon);
  else rms_norm_rows<float>(out, rstd, x, weight, epsilon);
}
void rms_norm_residual_any(const View& out, const View& sum, const View& rstd, const View& x, const View& residual,
                           const View& bias, const View& weight, double epsilon) {
  if (x.layout.dtype == DType::f64) {
    rms_norm_residual_rows<double>(out, sum, rstd, x, residual, bias, weight, epsilon);
  } else {
    rms_norm_residual_rows<float>(out, sum, rstd, x, residual, bias, weight, epsilon);
  }
}
void layer_norm_gradient_any(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                             const View& mean, const View& rstd, const View& weight) {
  if (x.layout.dtype == DType::f64) norm_gradient_rows<double, true>(dx, dweight, dbias, g, x, mean, rstd, weight);
  else norm_gradient_rows<float, true>(dx, dweight, dbias, g, x, mean, rstd, weight);
}
void rms_norm_gradient_any(const View& dx, const View& dweight, const View& g, const View& x, const View& rstd,
                           const View& weight) {
  if (x.layout.dtype == DType::f64) norm_gradient_rows<double, false>(dx, dweight, View(), g, x, rstd, rstd, weight);
  else norm_gradient_rows<float, false>(dx, dweight, View(), g, x, rstd, rstd, weight);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(layer_norm_any);
HWY_EXPORT(rms_norm_any);
HWY_EXPORT(rms_norm_residual_any);
HWY_EXPORT(layer_norm_gradient_any);
HWY_EXPORT(rms_norm_gradient_any);

namespace {
void check(const char* kernel, std::initializer_list<const View*> views) {
  for (const View* view : views) {
    if (view->data != nullptr && !is_computable_float(view->layout.dtype)) unsupported(kernel, *view);
  }
}
}  // namespace

void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double epsilon) {
  check("layer_norm", {&out, &x, &weight, &bias});
  HWY_DYNAMIC_DISPATCH(layer_norm_any)(out, mean, rstd, x, weight, bias, epsilon);
}
void layer_norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& mean, const View& rstd, const View& weight) {
  check("layer_norm_gradient", {&dx, &dweight, &dbias, &g, &x, &weight});
  HWY_DYNAMIC_DISPATCH(layer_norm_gradient_any)(dx, dweight, dbias, g, x, mean, rstd, weight);
}
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double epsilon) {
  check("rms_norm", {&out, &x, &weight});
  HWY_DYNAMIC_DISPATCH(rms_norm_any)(out, rstd, x, weight, epsilon);
}
void rms_norm_residual(const View& out, const View& sum, const View& rstd, const View& x, const View& residual,
                       const View& bias, const View& weight, double epsilon) {
  check("rms_norm_residual", {&out, &sum, &x, &residual, &bias, &weight});
  HWY_DYNAMIC_DISPATCH(rms_norm_residual_any)(out, sum, rstd, x, residual, bias, weight, epsilon);
}
void rms_norm_gradient(const View& dx, const View& dweight, const View& g, const View& x, const View& rstd,
                       const View& weight) {
  check("rms_norm_gradient", {&dx, &dweight, &g, &x, &weight});
  HWY_DYNAMIC_DISPATCH(rms_norm_gradient_any)(dx, dweight, g, x, rstd, weight);
}

}  // namespace weft::cpu
#endif
