// Convolutions of single channels. A channel is copied with its padding, every stride-th element of a line side by
// side, so that the inputs of one tap for neighbouring outputs are contiguous.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/convolution/depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "../lines.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"
#include "shape.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// A padded channel: `lines` of `stride` phases with `width` elements each.
struct Plane {
  int64_t depth, height, stride, width;

  explicit Plane(const ConvolutionShape& s)
      : depth(s.reach(0)),
        height(s.reach(1)),
        stride(std::min(s.steps.stride[2], s.reach(2))),
        width((s.reach(2) + stride - 1) / stride + lane_count) {}
  int64_t line() const { return stride * width; }
  int64_t size() const { return depth * height * line(); }
};

/// Calls f(line of the channel, line of the plane) for those that both have.
template <class F>
void for_lines(const ConvolutionShape& s, const Plane& plane, F&& f) {
  const auto& padding = s.steps.padding;
  for (int64_t i = 0; i < std::min(s.in[0], plane.depth - padding[0]); ++i) {
    for (int64_t j = 0; j < std::min(s.in[1], plane.height - padding[1]); ++j) {
      f((i * s.in[1] + j) * s.in[2], ((i + padding[0]) * plane.height + j + padding[1]) * plane.line());
    }
  }
}
/// Calls f(element of a line of the channel, element of that of the plane).
template <class F>
HWY_INLINE void for_elements(const ConvolutionShape& s, const Plane& plane, F&& f) {
  const int64_t padding = s.steps.padding[2], count = std::min(s.in[2], s.reach(2) - padding);
  if (plane.stride == 1) {
    for (int64_t k = 0; k < count; ++k) f(k, k + padding);
  } else {
    for (int64_t k = 0; k < count; ++k) f(k, (k + padding) % plane.stride * plane.width + (k + padding) / plane.stride);
  }
}

template <class T>
void fill_plane(const ConvolutionShape& s, const Plane& plane, const T* x, T* to) {
  std::fill_n(to, plane.size(), T(0));
  for_lines(s, plane, [&](int64_t from, int64_t line) {
    for_elements(s, plane, [&](int64_t k, int64_t p) { to[line + p] = x[from + k]; });
  });
}
template <class T>
void read_plane(const ConvolutionShape& s, const Plane& plane, const T* from, T* dx) {
  std::fill_n(dx, s.in_size(), T(0));
  for_lines(s, plane, [&](int64_t to, int64_t line) {
    for_elements(s, plane, [&](int64_t k, int64_t p) { dx[to + k] = from[line + p]; });
  });
}

/// The offset in the plane of the element under each tap of output 0.
void find_taps(const ConvolutionShape& s, const Plane& plane, int64_t* at) {
  for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
    for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
      const int64_t line = (k0 * s.steps.dilation[0] * plane.height + k1 * s.steps.dilation[1]) * plane.line();
      for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2) {
        const int64_t k = k2 * s.steps.dilation[2];
        *at++ = line + k % plane.stride * plane.width + k / plane.stride;
      }
    }
  }
}
/// Calls f(first output of a line, the plane under it) for all lines of outputs.
template <class F>
HWY_INLINE void for_output_lines(const ConvolutionShape& s, const Plane& plane, F&& f) {
  for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
    for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
      f((o0 * s.out[1] + o1) * s.out[2],
        (o0 * s.steps.stride[0] * plane.height + o1 * s.steps.stride[1]) * plane.line());
    }
  }
}

/// One channel and one of its outputs; `at` has the taps' places in the plane.
template <class T>
struct Single {
  using L = Lanes<T>;
  const ConvolutionShape& s;
  const Plane& plane;
  int64_t taps;
  const int64_t* at;

  void forward(const T* x, const T* w, T bias, T* y) const {
    for_output_lines(s, plane, [&](int64_t line, int64_t under) HWY_ATTR {
      int64_t o = 0;
      for (; o + 2 * lane_count <= s.out[2]; o += 2 * lane_count) {
        const T* const from = x + under + o;
        L low(bias), high(bias);
        for (int64_t k = 0; k < taps; ++k) {
          const L weight(w[k]);
          low = low + L::load(from + at[k]) * weight;
          high = high + L::load(from + at[k] + lane_count) * weight;
        }
        low.store(y + line + o);
        high.store(y + line + o + lane_count);
      }
      for (; o < s.out[2]; o += lane_count) {
        L sum(bias);
        for (int64_t k = 0; k < taps; ++k) sum = sum + L::load(x + under + o + at[k]) * L(w[k]);
        sum.store(y + line + o, s.out[2] - o);
      }
    });
  }
  /// Adds to the plane's gradient.
  void by_data(const T* g, const T* w, T* dx) const {
    for_output_lines(s, plane, [&](int64_t line, int64_t under) HWY_ATTR {
      for (int64_t k = 0; k < taps; ++k) {
        const L weight(w[k]);
        T* const to = dx + under + at[k];
        each_step(s.out[2], [&](int64_t o, int64_t left) HWY_ATTR {
          (L::load(to + o) + L::load(g + line + o, left, T(0)) * weight).store(to + o, left);
        });
      }
    });
  }
  /// Adds the gradient of one example.
  void by_weight(const T* x, const T* g, double* dw) const {
    for (int64_t k = 0; k < taps; ++k) {
      L sum(T(0));
      for_output_lines(s, plane, [&](int64_t line, int64_t under) HWY_ATTR {
        const T* const from = x + under + at[k];
        each_step(s.out[2], [&](int64_t o, int64_t left)
                                HWY_ATTR { sum = sum + L::load(g + line + o, left, T(0)) * L::load(from + o); });
      });
      dw[k] += static_cast<double>(sum_of(sum));
    }
  }
};

template <class T>
void run(Convolution product, const ConvolutionShape& s, T* out, const T* a, const T* b, const T* bias) {
  const Plane plane(s);
  const int64_t taps = s.taps(), positions = s.out_size();
  const Scratch places(taps * static_cast<int64_t>(sizeof(int64_t)));
  find_taps(s, plane, places.as<int64_t>());
  const Single<T> single{s, plane, taps, places.as<int64_t>()};
  const int64_t bytes = plane.size() * static_cast<int64_t>(sizeof(T));
  if (product == Convolution::by_weight) {
    parallel_for(s.groups, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
      const Scratch memory(bytes), sums(s.outputs * taps * static_cast<int64_t>(sizeof(double)));
      double* const dw = sums.as<double>();
      for (int64_t g = begin; g < end; ++g) {
        std::fill_n(dw, s.outputs * taps, 0.0);
        for (int64_t n = 0; n < s.batch; ++n) {
          fill_plane(s, plane, a + (n * s.groups + g) * s.in_size(), memory.as<T>());
          for (int64_t o = 0; o < s.outputs; ++o) {
            single.by_weight(memory.as<T>(), b + ((n * s.groups + g) * s.outputs + o) * positions, dw + o * taps);
          }
        }
        for (int64_t i = 0; i < s.outputs * taps; ++i) out[g * s.outputs * taps + i] = static_cast<T>(dw[i]);
      }
    });
    return;
  }
  parallel_for(s.batch * s.groups, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
    const Scratch memory(bytes);
    for (int64_t channel = begin; channel < end; ++channel) {
      if (product == Convolution::forward) fill_plane(s, plane, a + channel * s.in_size(), memory.as<T>());
      else std::fill_n(memory.as<T>(), plane.size(), T(0));
      for (int64_t o = 0; o < s.outputs; ++o) {
        const int64_t output = channel % s.groups * s.outputs + o, at = (channel * s.outputs + o) * positions;
        const T* const w = b + output * taps;
        if (product == Convolution::by_data) single.by_data(a + at, w, memory.as<T>());
        else single.forward(memory.as<T>(), w, bias != nullptr ? bias[output] : T(0), out + at);
      }
      if (product == Convolution::by_data) read_plane(s, plane, memory.as<T>(), out + channel * s.in_size());
    }
  });
}

void run_f32(Convolution product, const ConvolutionShape& s, float* out, const float* a, const float* b,
             const float* bias) {
  run(product, s, out, a, b, bias);
}
void run_f64(Convolution product, const ConvolutionShape& s, double* out, const double* a, const double* b,
             const double* bias) {
  run(product, s, out, a, b, bias);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(run_f32);
HWY_EXPORT(run_f64);

void depthwise(Convolution product, const ConvolutionShape& shape, float* out, const float* a, const float* b,
               const float* bias) {
  HWY_DYNAMIC_DISPATCH(run_f32)(product, shape, out, a, b, bias);
}
void depthwise(Convolution product, const ConvolutionShape& shape, double* out, const double* a, const double* b,
               const double* bias) {
  HWY_DYNAMIC_DISPATCH(run_f64)(product, shape, out, a, b, bias);
}

}  // namespace weft::cpu
#endif
