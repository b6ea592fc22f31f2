#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/batch_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"
#include "rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// [batch, length] of one channel of a [batch, channels, length] view.
View channel_of(View view, int64_t channel) {
  Layout& layout = view.layout;
  if (view.data != nullptr) view.data = bytes(view) + channel * layout.strides[1];
  layout.sizes[1] = layout.sizes[2];
  layout.strides[1] = layout.strides[2];
  layout.rank = 2;
  return view;
}

/// Channel c of a contiguous [channels] view of type A; `otherwise` where it has no data.
template <class A>
A item_or(const View& view, int64_t c, A otherwise) {
  return view.data != nullptr ? static_cast<const A*>(view.data)[c] : otherwise;
}
template <class A>
void set_item(const View& view, int64_t c, double value) {
  if (view.data != nullptr) static_cast<A*>(view.data)[c] = static_cast<A>(value);
}

struct Moments {
  double mean, variance;
};
/// In one pass, around the mean of the first line.
template <class A>
Moments moments_of(const Rows<A>& x, int64_t batch, int64_t n) {
  using L = Lanes<A>;
  const double count = static_cast<double>(batch) * static_cast<double>(n);
  A center = A(0);
  Deviations all{0, 0};
  for (int64_t i = 0; i < batch; ++i) {
    const A* const line = x.read(i);
    if (i == 0) {
      const double sum =
          sum_lines<A>(n, [&](int64_t at, int64_t left) HWY_ATTR { return L::load(line + at, left, A(0)); });
      center = static_cast<A>(sum / static_cast<double>(n));
    }
    const Deviations d = deviations(line, n, center);
    all.sum += d.sum;
    all.squares += d.squares;
  }
  const double shift = all.sum / count;
  return {static_cast<double>(center) + shift, std::fmax(all.squares / count - shift * shift, 0.0)};
}

template <class A>
void normalise(const View& out, const View& mean, const View& variance, const View& x, const View& weight,
               const View& bias, double epsilon) {
  using L = Lanes<A>;
  const int64_t batch = x.layout.sizes[0], n = x.layout.sizes[2];
  parallel_for(x.layout.sizes[1], 1, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t c = begin; c < end; ++c) {
      const Rows<A> in(channel_of(x, c), n), result(channel_of(out, c), n);
      const Moments m = moments_of(in, batch, n);
      set_item<A>(mean, c, m.mean);
      set_item<A>(variance, c, m.variance);
      const double factor = static_cast<double>(item_or(weight, c, A(1))) / std::sqrt(m.variance + epsilon);
      const L center(static_cast<A>(m.mean)), scale(static_cast<A>(factor)), shift(item_or(bias, c, A(0)));
      for (int64_t i = 0; i < batch; ++i) {
        const A* const from = in.read(i);
        A* const to = result.write(i);
        each_step(n, [&](int64_t at, int64_t left) HWY_ATTR {
          ((L::load(from + at, left, A(0)) - center) * scale + shift).store(to + at, left);
        });
        result.finish(to, i);
      }
    }
  });
}

/// dx = w rstd (g - mean(g) - xhat mean(g xhat))
template <class A>
void differentiate(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                   const View& mean, const View& rstd, const View& weight) {
  using L = Lanes<A>;
  const int64_t batch = x.layout.sizes[0], n = x.layout.sizes[2];
  const double count = static_cast<double>(batch) * static_cast<double>(n);
  parallel_for(x.layout.sizes[1], 1, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t c = begin; c < end; ++c) {
      const Rows<A> in(channel_of(x, c), n), gradient(channel_of(g, c), n);
      const A average = item_or(mean, c, A(0)), inverse = item_or(rstd, c, A(1));
      const L center(average);
      double sum = 0, dot = 0;
      for (int64_t i = 0; i < batch; ++i) {
        const A* const xs = in.read(i);
        const A* const gs = gradient.read(i);
        sum += sum_lines<A>(n, [&](int64_t at, int64_t left) HWY_ATTR { return L::load(gs + at, left, A(0)); });
        dot += sum_lines<A>(n, [&](int64_t at, int64_t left) HWY_ATTR {
          return L::load(gs + at, left, A(0)) * (L::load(xs + at, left, average) - center);
        });
      }
      dot *= static_cast<double>(inverse);
      set_item<A>(dweight, c, dot);
      set_item<A>(dbias, c, sum);
      if (dx.data == nullptr) continue;
      const Rows<A> result(channel_of(dx, c), n);
      const L mean_g(static_cast<A>(sum / count));
      const L slope(static_cast<A>(dot / count * static_cast<double>(inverse))),
          scale(item_or(weight, c, A(1)) * inverse);
      for (int64_t i = 0; i < batch; ++i) {
        const A* const xs = in.read(i);
        const A* const gs = gradient.read(i);
        A* const to = result.write(i);
        each_step(n, [&](int64_t at, int64_t left) HWY_ATTR {
          const L centered = L::load(xs + at, left, average) - center;
          ((L::load(gs + at, left, A(0)) - mean_g - centered * slope) * scale).store(to + at, left);
        });
        result.finish(to, i);
      }
    }
  });
}

void normalise_any(const View& out, const View& mean, const View& variance, const View& x, const View& weight,
                   const View& bias, double epsilon) {
  if (x.layout.dtype == DType::f64) normalise<double>(out, mean, variance, x, weight, bias, epsilon);
  else normalise<float>(out, mean, variance, x, weight, bias, epsilon);
}
void differentiate_any(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                       const View& mean, const View& rstd, const View& weight) {
  if (x.layout.dtype == DType::f64) differentiate<double>(dx, dweight, dbias, g, x, mean, rstd, weight);
  else differentiate<float>(dx, dweight, dbias, g, x, mean, rstd, weight);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(normalise_any);
HWY_EXPORT(differentiate_any);

void batch_norm(const View& out, const View& mean, const View& variance, const View& x, const View& weight,
                const View& bias, double epsilon) {
  if (!is_computable_float(x.layout.dtype)) unsupported("batch_norm", x);
  if (x.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(normalise_any)(out, mean, variance, x, weight, bias, epsilon);
}

void batch_norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& mean, const View& rstd, const View& weight) {
  if (!is_computable_float(x.layout.dtype)) unsupported("batch_norm_gradient", x);
  if (x.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(differentiate_any)(dx, dweight, dbias, g, x, mean, rstd, weight);
}

}  // namespace weft::cpu
#endif
