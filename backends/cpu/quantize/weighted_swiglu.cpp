// The gated linear unit of experts, times each token's weight, quantised in the same pass; and its gradient.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/quantize/weighted_swiglu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "../kernels.hpp"
#include "fp8-inl.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../pointwise/loops.hpp"
#include "scale_rule.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

using L = Lanes<float>;
constexpr int64_t block = 128, most = 2048;

float number(const View& v, int64_t i) {
  float x;
  std::memcpy(&x, bytes(v) + i * v.layout.strides[0], 4);
  return x;
}

const char* place(const View& v, int64_t i, int64_t j) {
  return bytes(v) + i * v.layout.strides[0] + j * v.layout.strides[1];
}
char* target(const View& v, int64_t i, int64_t j) { return const_cast<char*>(place(v, i, j)); }

void load(float* to, const View& v, int64_t i, int64_t j, int64_t n) {
  load_line(to, place(v, i, j), v.layout.strides[1], n, v.layout.dtype);
}
void store(const View& v, int64_t i, int64_t j, const float* from, int64_t n) {
  store_line(target(v, i, j), v.layout.strides[1], v.layout.dtype, from, n);
}

/// y = silu(a) * b by the loop of the op swiglu.
void swiglu_line(float* y, const float* a, const float* b, int64_t n) {
  binary_loops.loop[static_cast<int>(BinaryOp::swiglu)][slot_f32][0](y, a, b, n);
}

void times(float* to, const float* from, float by, int64_t n) {
  const L factor(by);
  each_step(n, [&](int64_t i, int64_t left) HWY_ATTR { (L::load(from + i, left, 0) * factor).store(to + i, left); });
}

/// Calls body(row, column, count) for lines of at most `most` columns that cover rows x n.
template <class Body>
void each_line(int64_t rows, int64_t n, Body&& body) {
  const int64_t across = (n + most - 1) / most;
  parallel_for(rows * across, rows_per_chunk(std::min(n, most)), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t j = at % across * most;
      body(at / across, j, std::min(most, n - j));
    }
  });
}

template <class F>
void quantize_as(const View& codes, const View& scale, const View& x, const View& prob, const ScaleRule& rule) {
  const int64_t n = codes.layout.sizes[1];
  each_line(codes.layout.sizes[0], n, [&](int64_t i, int64_t j, int64_t count) HWY_ATTR {
    alignas(64) float a[most], b[most];
    load(a, x, i, j, count);
    load(b, x, i, n + j, count);
    swiglu_line(a, a, b, count);
    if (prob.data != nullptr) times(a, a, number(prob, i), count);
    // Rounded as the op's result would be.
    alignas(64) float rounded[most];
    store_line(reinterpret_cast<char*>(rounded), itemsize(x.layout.dtype), x.layout.dtype, a, count);
    load_line(a, reinterpret_cast<const char*>(rounded), itemsize(x.layout.dtype), count, x.layout.dtype);
    for (int64_t p = 0; p < count; p += block) {
      const int64_t width = std::min(block, count - p);
      const float by = rule.multiplier(fp8::largest_finite(a + p, width, 0));
      *reinterpret_cast<float*>(target(scale, i, (j + p) / block)) = 1 / by;
      fp8::encode_line<F>(reinterpret_cast<uint8_t*>(target(codes, i, j + p)), a + p, by, width);
    }
  });
}

void quantize_any(const View& codes, const View& scale, const View& x, const View& prob, bool power_of_two) {
  if (codes.layout.dtype == DType::f8_e4m3fn) quantize_as<fp8::E4m3>(codes, scale, x, prob, {448, 0, power_of_two});
  else quantize_as<fp8::E5m2>(codes, scale, x, prob, {57344, 0, power_of_two});
}

/// da and db from the incoming gradient, g times the weight.
HWY_INLINE void gradient_step(float* a, float* b, const float* g, float weight, int64_t i, int64_t left) {
  const L x = L::load(a + i, left, 0), up = L::load(b + i, left, 0), d = L::load(g + i, left, 0) * L(weight);
  const L e = exp(L(0.0f) - x);
  L s, finite;
  WEFT_EACH_PART(L::count) {
    const auto one = hn::Set(L::D(), 1.0f), bound = hn::Set(L::D(), 1e9f);
    s.part[k] = hn::Div(one, hn::Add(one, e.part[k]));
    finite.part[k] = hn::IfThenElse(hn::Lt(x.part[k], hn::Neg(bound)), hn::Neg(bound), x.part[k]);
    finite.part[k] = hn::IfThenElse(hn::Gt(x.part[k], bound), bound, finite.part[k]);
  }
  (d * up * s * (L(1.0f) + finite * (L(1.0f) - s))).store(a + i, left);
  L unbounded;
  WEFT_EACH_PART(L::count) {
    const auto bound = hn::Set(L::D(), -1e9f);
    unbounded.part[k] = hn::IfThenElse(hn::Lt(x.part[k], bound), bound, x.part[k]);
  }
  (d * (unbounded * s)).store(b + i, left);
}

void gradient_any(const View& dx, const View& dprob, const View& y, const View& x, const View& g, const View& prob) {
  const int64_t rows = y.layout.sizes[0], n = y.layout.sizes[1];
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    alignas(64) float a[most], b[most], in[most], out[most];
    for (int64_t i = begin; i < end; ++i) {
      const float weight = number(prob, i);
      double sum = 0;
      for (int64_t j = 0; j < n; j += most) {
        const int64_t count = std::min(most, n - j);
        load(a, x, i, j, count);
        load(b, x, i, n + j, count);
        load(in, g, i, j, count);
        swiglu_line(out, a, b, count);
        sum += sum_lines<float>(count, [&](int64_t k, int64_t left)
                                           HWY_ATTR { return L::load(in + k, left, 0) * L::load(out + k, left, 0); });
        times(out, out, weight, count);
        store(y, i, j, out, count);
        each_step(count, [&](int64_t k, int64_t left) HWY_ATTR { gradient_step(a, b, in, weight, k, left); });
        store(dx, i, j, a, count);
        store(dx, i, n + j, b, count);
      }
      const auto total = static_cast<float>(sum);
      std::memcpy(bytes(dprob) + i * dprob.layout.strides[0], &total, 4);
    }
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(quantize_any);
HWY_EXPORT(gradient_any);

void weighted_swiglu_quantize(const View& codes, const View& scale, const View& x, const View& prob,
                              bool power_of_two) {
  if (codes.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(quantize_any)(codes, scale, x, prob, power_of_two);
}
void weighted_swiglu_gradient(const View& dx, const View& dprob, const View& y, const View& x, const View& g,
                              const View& prob) {
  HWY_DYNAMIC_DISPATCH(gradient_any)(dx, dprob, y, x, g, prob);
}

}  // namespace weft::cpu
#endif
