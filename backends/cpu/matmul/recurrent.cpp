// Recurrent layers. A thread takes some rows of the batch through all steps, with the weight packed once for all of
// them: each step is a product of the states and one pass over the result, which stays in the cache.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/matmul/recurrent.cpp"
#include <hwy/foreach_target.h>
#include "../simd/simd-inl.hpp"

#include <algorithm>

#include "../../recurrent_steps.hpp"
#include "../kernels.hpp"
#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "gemm.hpp"

#ifndef WEFT_CPU_RECURRENT_ONCE
#define WEFT_CPU_RECURRENT_ONCE
namespace weft::cpu {
namespace {

template <class T>
T* data_of(const View& view) {
  return static_cast<T*>(view.data);
}

/// Rows of scratch are this much wider than their numbers: rows a multiple of a page apart are slow to read.
constexpr int64_t row_gap = 16;

/// How many rows of the batch are worth a thread of their own.
inline int64_t rows_per_thread(const RecurrentSteps& steps, int64_t weights) {
  constexpr int64_t worthwhile = int64_t{1} << 20, block = 24;
  const int64_t row = std::max<int64_t>(weights, 1) * std::max<int64_t>(steps.count, 1);
  return (worthwhile / row / block + 1) * block;
}

}  // namespace
}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// Some neighbouring units: a whole register, or its first ones.
template <class T>
struct Units {
  static constexpr int64_t whole = HWY_LANES(T);
  int64_t at, left;
  HWY_INLINE Vec<T> load(const T* from) const {
    if (left >= whole) return hn::LoadU(Tag<T>(), from + at);
    return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<size_t>(left)), Tag<T>(), from + at);
  }
  HWY_INLINE void store(Vec<T> x, T* to) const {
    if (left >= whole) hn::StoreU(x.raw, Tag<T>(), to + at);
    else hn::BlendedStore(x.raw, hn::FirstN(Tag<T>(), static_cast<size_t>(left)), Tag<T>(), to + at);
  }
};

/// Calls f for all units, a register at a time.
template <class T, class F>
HWY_INLINE void each_unit(int64_t n, F&& f) {
  constexpr int64_t lanes = HWY_LANES(T);
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) f(Units<T>{j, lanes});
  if (j < n) f(Units<T>{j, n - j});
}

template <class C, class T>
struct Layer {
  static constexpr int gates_count = C::gates;
  static constexpr bool is_lstm = gates_count == 4, is_gru = gates_count == 3;
  int64_t hidden, batch;
  const RecurrentSteps& steps;

  // ---- forward ----

  T *out, *gates, *kept, *state, *cell;
  const T* bias;
  Panels<T> weight;  ///< Wᵀ: [hidden, gates * hidden]

  T* row_of(T* matrix, int64_t row) const { return matrix != nullptr ? matrix + row * hidden : nullptr; }

  /// One row of a step: `product` is W h.
  HWY_INLINE void advance(int64_t row, int64_t b, const T* product, T* h) const {
    T *gate = gates + row * gates_count * hidden, *y = out + row * hidden;
    T *c = row_of(cell, b), *keep = row_of(kept, row);
    each_unit<T>(hidden, [&](Units<T> u) HWY_ATTR WEFT_INLINE {
      Vec<T> g[gates_count], k = Vec<T>(0), before = Vec<T>(0);
#pragma GCC unroll 4
      for (int i = 0; i < gates_count; ++i) {
        g[i] = u.load(gate + i * hidden);
        if (!is_gru || i < 2) g[i] = g[i] + u.load(product + i * hidden);
      }
      if constexpr (is_gru) {
        k = u.load(product + 2 * hidden);
        if (bias != nullptr) k = k + u.load(bias);
        before = u.load(h);
      }
      if constexpr (is_lstm) before = u.load(c);
      const Vec<T> next = C::step(g, before, k);
      if (keep != nullptr) {
#pragma GCC unroll 4
        for (int i = 0; i < gates_count; ++i) u.store(g[i], gate + i * hidden);
        if constexpr (is_lstm || is_gru) u.store(k, keep);
      }
      if constexpr (is_lstm) u.store(k, c);
      u.store(next, h);
      u.store(next, y);
    });
  }

  void forward(int64_t begin, int64_t end) const {
    const int64_t rows = end - begin, width = gates_count * hidden, apart = hidden + row_gap, wide = width + row_gap;
    const Workspace scratch(static_cast<size_t>(rows * (apart + wide)) * sizeof(T));
    T *h = scratch.as<T>(), *product = h + rows * apart;
    for (int64_t i = 0; i < rows; ++i) std::copy_n(state + (begin + i) * hidden, hidden, h + i * apart);
    each_recurrent_step(steps, batch, false, [&](const RecurrentStep& step) {
      const int64_t count = std::min(end, step.count) - begin;
      if (count <= 0) return;
      panels_gemm(count, width, hidden, Matrix<T>{h, apart, 1}, weight, Addend<T>(), product, wide);
      for (int64_t i = 0; i < count; ++i) advance(step.first + begin + i, begin + i, product + i * wide, h + i * apart);
    });
    for (int64_t i = 0; i < rows; ++i) std::copy_n(h + i * apart, hidden, state + (begin + i) * hidden);
  }
};

template <class C, class T>
struct LayerGradient {
  static constexpr int gates_count = C::gates;
  static constexpr bool is_lstm = gates_count == 4, is_gru = gates_count == 3;
  int64_t hidden, batch;
  const RecurrentSteps& steps;
  T *dgates, *dkept, *dstate, *dcell;
  const T *g, *out, *gates, *kept, *first_state, *first_cell;
  Panels<T> weight;  ///< W: [gates * hidden, hidden]

  template <class P>
  P* row_of(P* matrix, int64_t row) const {
    return matrix != nullptr ? matrix + row * hidden : nullptr;
  }

  /// The backward of one row of a step. `dh_row` is the gradient of its state, and becomes the direct part of the
  /// previous state's gradient; `d_row` is the part through the gates.
  HWY_INLINE void retreat(int64_t row, int64_t b, const T* before_row, T* dh_row, T* d_row) const {
    const T* gate = is_lstm || is_gru ? gates + row * gates_count * hidden : out + row * hidden;
    const T *keep = row_of(kept, row), *from = row_of(g, row);
    T *to = dgates + row * gates_count * hidden, *dk_row = row_of(dkept, row), *dc = row_of(dcell, b);
    each_unit<T>(hidden, [&](Units<T> u) HWY_ATTR WEFT_INLINE {
      Vec<T> v[gates_count], d[gates_count], k = Vec<T>(0), before = Vec<T>(0), dcell_ = Vec<T>(0), dk = Vec<T>(0);
#pragma GCC unroll 4
      for (int i = 0; i < gates_count; ++i) v[i] = u.load(gate + i * hidden);
      if constexpr (is_lstm || is_gru) k = u.load(keep), before = u.load(before_row);
      if constexpr (is_lstm) dcell_ = u.load(dc);
      Vec<T> dh = u.load(dh_row);
      if (from != nullptr) dh = dh + u.load(from);
      const Vec<T> rest = C::gradient(d, dcell_, dk, dh, v, k, before);
#pragma GCC unroll 4
      for (int i = 0; i < gates_count; ++i) {
        u.store(d[i], to + i * hidden);
        u.store(is_gru && i == 2 ? dk : d[i], d_row + i * hidden);
      }
      if constexpr (is_lstm) u.store(dcell_, dc);
      if constexpr (is_gru) u.store(dk, dk_row), u.store(rest, dh_row);
    });
  }

  void backward(int64_t begin, int64_t end) const {
    const int64_t rows = end - begin, width = gates_count * hidden, apart = hidden + row_gap, wide = width + row_gap;
    const Workspace scratch(static_cast<size_t>(rows * (apart + wide)) * sizeof(T));
    T *dh = scratch.as<T>(), *d = dh + rows * apart;
    for (int64_t i = 0; i < rows; ++i) std::copy_n(dstate + (begin + i) * hidden, hidden, dh + i * apart);
    const T *values = is_lstm ? kept : out, *first = is_lstm ? first_cell : first_state;
    each_recurrent_step(steps, batch, true, [&](const RecurrentStep& step) {
      const int64_t count = std::min(end, step.count) - begin;
      if (count <= 0) return;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t b = begin + i;
        const T* before = b < step.known ? values + (step.before + b) * hidden : first + b * hidden;
        retreat(step.first + b, b, before, dh + i * apart, d + i * wide);
      }
      panels_gemm(count, hidden, width, Matrix<T>{d, wide, 1}, weight, is_gru ? Addend<T>{dh, apart} : Addend<T>(), dh,
                  apart);
    });
    for (int64_t i = 0; i < rows; ++i) std::copy_n(dh + i * apart, hidden, dstate + (begin + i) * hidden);
  }
};

template <class C, class T>
void run(const View& out, const View& gates, const View& kept, const View& state, const View& cell, const View& weight,
         const View& bias, const RecurrentSteps& steps) {
  const int64_t batch = state.layout.sizes[0], hidden = state.layout.sizes[1], width = C::gates * hidden;
  const Workspace packed(static_cast<size_t>(packed_size<T>(width, hidden)) * sizeof(T));
  const Panels<T> panels = pack_right(width, hidden, Matrix<T>{data_of<T>(weight), 1, hidden}, packed.as<T>());
  const Layer<C, T> layer{hidden,
                          batch,
                          steps,
                          data_of<T>(out),
                          data_of<T>(gates),
                          data_of<T>(kept),
                          data_of<T>(state),
                          data_of<T>(cell),
                          data_of<T>(bias),
                          panels};
  parallel_for(batch, rows_per_thread(steps, width * hidden),
               [&](int64_t begin, int64_t end) { layer.forward(begin, end); });
}

template <class C, class T>
void run_gradient(const View& dgates, const View& dkept, const View& dstate, const View& dcell, const View& g,
                  const View& out, const View& gates, const View& kept, const View& first_state, const View& first_cell,
                  const View& weight, const RecurrentSteps& steps) {
  const int64_t batch = dstate.layout.sizes[0], hidden = dstate.layout.sizes[1], width = C::gates * hidden;
  const Workspace packed(static_cast<size_t>(packed_size<T>(hidden, width)) * sizeof(T));
  const Panels<T> panels = pack_right(hidden, width, Matrix<T>{data_of<T>(weight), hidden, 1}, packed.as<T>());
  const LayerGradient<C, T> layer{hidden,
                                  batch,
                                  steps,
                                  data_of<T>(dgates),
                                  data_of<T>(dkept),
                                  data_of<T>(dstate),
                                  data_of<T>(dcell),
                                  data_of<T>(g),
                                  data_of<T>(out),
                                  data_of<T>(gates),
                                  data_of<T>(kept),
                                  data_of<T>(first_state),
                                  data_of<T>(first_cell),
                                  panels};
  parallel_for(batch, rows_per_thread(steps, width * hidden),
               [&](int64_t begin, int64_t end) { layer.backward(begin, end); });
}

/// f<cell, type>()
template <class F>
void for_cell(Cell cell, DType dtype, F&& f) {
  const auto typed = [&]<class C>(C) {
    if (dtype == DType::f64) f.template operator()<C, double>();
    else f.template operator()<C, float>();
  };
  switch (cell) {
    case Cell::tanh:
      return typed(functors::TanhCell());
    case Cell::relu:
      return typed(functors::ReluCell());
    case Cell::lstm:
      return typed(functors::LstmCell());
    case Cell::gru:
      return typed(functors::GruCell());
  }
}

void recurrent_any(const View& out, const View& gates, const View& kept, const View& state, const View& cell,
                   const View& weight, const View& bias, Cell which, const RecurrentSteps& steps) {
  for_cell(which, out.layout.dtype,
           [&]<class C, class T>() { run<C, T>(out, gates, kept, state, cell, weight, bias, steps); });
}

void recurrent_gradient_any(const View& dgates, const View& dkept, const View& dstate, const View& dcell, const View& g,
                            const View& out, const View& gates, const View& kept, const View& first_state,
                            const View& first_cell, const View& weight, Cell which, const RecurrentSteps& steps) {
  for_cell(which, dstate.layout.dtype, [&]<class C, class T>() {
    run_gradient<C, T>(dgates, dkept, dstate, dcell, g, out, gates, kept, first_state, first_cell, weight, steps);
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(recurrent_any);
HWY_EXPORT(recurrent_gradient_any);

namespace {

void check_wide(const char* kernel, const View& view) {
  if (view.layout.dtype != DType::f32 && view.layout.dtype != DType::f64) unsupported(kernel, view);
}

}  // namespace

void recurrent(const View& out, const View& gates, const View& kept, const View& state, const View& cell,
               const View& weight, const View& bias, Cell which, const RecurrentSteps& steps) {
  check_wide("recurrent", state);
  if (state.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(recurrent_any)(out, gates, kept, state, cell, weight, bias, which, steps);
}

void recurrent_gradient(const View& dgates, const View& dkept, const View& dstate, const View& dcell, const View& g,
                        const View& out, const View& gates, const View& kept, const View& first_state,
                        const View& first_cell, const View& weight, Cell which, const RecurrentSteps& steps) {
  check_wide("recurrent_gradient", dstate);
  if (dstate.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(recurrent_gradient_any)
  (dgates, dkept, dstate, dcell, g, out, gates, kept, first_state, first_cell, weight, which, steps);
}

}  // namespace weft::cpu
#endif
