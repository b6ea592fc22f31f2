// Fused optimizer steps: one pass over every parameter, in pieces of fixed size.
#include "simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels.hpp"
#include "thread_pool.hpp"

#ifndef WEFT_CPU_OPTIMIZER_ONCE
#define WEFT_CPU_OPTIMIZER_ONCE
namespace weft::cpu {
namespace {

/// A step's constants, each rounded once to the parameters' type.
template <class T>
struct AdamFactors {
  T one_minus_beta1, beta2, one_minus_beta2, root_factor, epsilon, step_size, keep, l2;

  explicit AdamFactors(const AdamSettings& s)
      : one_minus_beta1(static_cast<T>(1 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        one_minus_beta2(static_cast<T>(1 - s.beta2)),
        root_factor(static_cast<T>(1 / std::sqrt(s.bias_correction2))),
        epsilon(static_cast<T>(s.epsilon)),
        step_size(static_cast<T>(s.learning_rate / s.bias_correction1)),
        keep(static_cast<T>(s.decoupled ? 1 - s.learning_rate * s.weight_decay : 1)),
        l2(static_cast<T>(s.decoupled ? 0 : s.weight_decay)) {}
};

template <class T>
struct SgdFactors {
  T learning_rate, momentum, one_minus_dampening, l2;
  bool nesterov, first_step;

  explicit SgdFactors(const SgdSettings& s)
      : learning_rate(static_cast<T>(s.learning_rate)),
        momentum(static_cast<T>(s.momentum)),
        one_minus_dampening(static_cast<T>(1 - s.dampening)),
        l2(static_cast<T>(s.weight_decay)),
        nesterov(s.nesterov),
        first_step(s.first_step) {}
};

/// Whole slots, or elements [begin, end) of one where end is not negative.
struct Piece {
  size_t slot, end_slot;
  int64_t begin, end;
};

}  // namespace
}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using V = hn::Vec<Tag<T>>;

/// Four arrays read side by side are more than the CPU's own prefetching keeps up with.
constexpr int64_t prefetch_ahead = 2048;
template <class... T>
HWY_INLINE void prefetch_at(int64_t i, const T*... arrays) {
  (__builtin_prefetch(reinterpret_cast<const char*>(arrays + i) + prefetch_ahead), ...);
}

/// Some neighbouring elements of an array: a whole vector, or its first `count` lanes.
template <class T, bool whole>
struct Lane {
  int64_t i, count;
  HWY_INLINE V<T> load(const T* from) const {
    if constexpr (whole) return hn::LoadU(Tag<T>(), from + i);
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[hn::MaxLanes(Tag<T>())] = {};
    for (int64_t k = 0; k < count; ++k) buffer[k] = from[i + k];
    return hn::Load(Tag<T>(), buffer);
#else
    return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), from + i);
#endif
  }
  HWY_INLINE void store(V<T> value, T* to) const {
    if constexpr (whole) return hn::StoreU(value, Tag<T>(), to + i);
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[hn::MaxLanes(Tag<T>())];
    hn::Store(value, Tag<T>(), buffer);
    for (int64_t k = 0; k < count; ++k) to[i + k] = buffer[k];
#else
    hn::BlendedStore(value, hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), to + i);
#endif
  }
};

template <class T, class F>
HWY_INLINE void each_lane(int64_t n, F f) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(Lane<T, true>{i, lanes});
  if (i < n) f(Lane<T, false>{i, n - i});
}

/// The constants of AdamFactors, one register each.
template <class T>
struct AdamVectors {
  V<T> one_minus_beta1, beta2, one_minus_beta2, root_factor, epsilon, step_size, keep, l2;
  bool decays;
  HWY_INLINE explicit AdamVectors(const AdamFactors<T>& f)
      : one_minus_beta1(hn::Set(Tag<T>(), f.one_minus_beta1)),
        beta2(hn::Set(Tag<T>(), f.beta2)),
        one_minus_beta2(hn::Set(Tag<T>(), f.one_minus_beta2)),
        root_factor(hn::Set(Tag<T>(), f.root_factor)),
        epsilon(hn::Set(Tag<T>(), f.epsilon)),
        step_size(hn::Set(Tag<T>(), f.step_size)),
        keep(hn::Set(Tag<T>(), f.keep)),
        l2(hn::Set(Tag<T>(), f.l2)),
        decays(f.l2 != 0) {}
};

template <class T>
HWY_INLINE void adam_elements(const AdamSlot& slot, int64_t begin, int64_t n, const AdamVectors<T>& f) {
  T* p = static_cast<T*>(slot.parameter.data) + begin;
  const T* g = static_cast<const T*>(slot.gradient.data) + begin;
  T* m = static_cast<T*>(slot.first_moment.data) + begin;
  T* v = static_cast<T*>(slot.second_moment.data) + begin;
  each_lane<T>(n, [&](auto lane) HWY_ATTR {
    prefetch_at(lane.i, p, g, m, v);
    const V<T> before = lane.load(p);
    V<T> gradient = lane.load(g), first = lane.load(m), second = lane.load(v);
    if (f.decays) gradient = hn::Add(gradient, hn::Mul(f.l2, before));
    first = hn::Add(first, hn::Mul(f.one_minus_beta1, hn::Sub(gradient, first)));
    second = hn::Add(hn::Mul(f.beta2, second), hn::Mul(f.one_minus_beta2, hn::Mul(gradient, gradient)));
    lane.store(first, m);
    lane.store(second, v);
    const V<T> denominator = hn::Add(hn::Mul(hn::Sqrt(second), f.root_factor), f.epsilon);
    const V<T> step = hn::Mul(f.step_size, hn::Div(first, denominator));
    lane.store(hn::Sub(hn::Mul(f.keep, before), step), p);
  });
}

template <class T>
HWY_INLINE void sgd_elements(const SgdSlot& slot, int64_t begin, int64_t n, const SgdFactors<T>& f) {
  T* p = static_cast<T*>(slot.parameter.data) + begin;
  const T* g = static_cast<const T*>(slot.gradient.data) + begin;
  T* b = slot.momentum_buffer.data != nullptr ? static_cast<T*>(slot.momentum_buffer.data) + begin : nullptr;
  const Tag<T> d;
  const V<T> rate = hn::Set(d, f.learning_rate), momentum = hn::Set(d, f.momentum), l2 = hn::Set(d, f.l2);
  const V<T> fresh = hn::Set(d, f.one_minus_dampening);
  each_lane<T>(n, [&](auto lane) HWY_ATTR {
    const V<T> before = lane.load(p);
    V<T> step = lane.load(g);
    if (f.l2 != 0) step = hn::Add(step, hn::Mul(l2, before));
    if (b != nullptr) {
      const V<T> buffer = f.first_step ? step : hn::Add(hn::Mul(momentum, lane.load(b)), hn::Mul(fresh, step));
      lane.store(buffer, b);
      step = f.nesterov ? hn::Add(step, hn::Mul(momentum, buffer)) : buffer;
    }
    lane.store(hn::Sub(before, hn::Mul(rate, step)), p);
  });
}

void adam_piece(const AdamSlot* slots, const Piece& piece, const AdamSettings& settings) {
  const AdamVectors<float> single{AdamFactors<float>(settings)};
  const AdamVectors<double> wide{AdamFactors<double>(settings)};
  for (size_t i = piece.slot; i < piece.end_slot; ++i) {
    const int64_t n = piece.end < 0 ? slots[i].parameter.layout.numel : piece.end - piece.begin;
    if (slots[i].parameter.layout.dtype == DType::f32) adam_elements(slots[i], piece.begin, n, single);
    else adam_elements(slots[i], piece.begin, n, wide);
  }
}

void sgd_piece(const SgdSlot* slots, const Piece& piece, const SgdSettings& settings) {
  const SgdFactors<float> single(settings);
  const SgdFactors<double> wide(settings);
  for (size_t i = piece.slot; i < piece.end_slot; ++i) {
    const int64_t n = piece.end < 0 ? slots[i].parameter.layout.numel : piece.end - piece.begin;
    if (slots[i].parameter.layout.dtype == DType::f32) sgd_elements(slots[i], piece.begin, n, single);
    else sgd_elements(slots[i], piece.begin, n, wide);
  }
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(adam_piece);
HWY_EXPORT(sgd_piece);

namespace {

/// Elements of a piece: small slots are gathered to that many, large ones are cut.
constexpr int64_t piece_size = 16384;

template <class Slot>
std::vector<Piece> cut(std::span<const Slot> slots) {
  std::vector<Piece> pieces;
  int64_t gathered = piece_size;  // elements in the last piece; a part of a slot counts as full
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t n = slots[i].parameter.layout.numel;
    if (n > piece_size) {
      for (int64_t begin = 0; begin < n; begin += piece_size) {
        pieces.push_back({i, i + 1, begin, std::min(begin + piece_size, n)});
      }
      gathered = piece_size;
    } else if (pieces.empty() || gathered + n > piece_size) {
      pieces.push_back({i, i + 1, 0, -1});
      gathered = n;
    } else if (pieces.back().end < 0) {
      pieces.back().end_slot = i + 1;
      gathered += n;
    }
  }
  return pieces;
}

template <class Slot, class Settings>
void run(std::span<const Slot> slots, const char* kernel, const Settings& settings,
         void (*body)(const Slot*, const Piece&, const Settings&)) {
  int64_t total = 0;
  for (const Slot& slot : slots) {
    const DType type = slot.parameter.layout.dtype;
    if (type != DType::f32 && type != DType::f64) unsupported(kernel, slot.parameter);
    total += slot.parameter.layout.numel;
  }
  if (total <= 2 * piece_size) return body(slots.data(), {0, slots.size(), 0, -1}, settings);
  const std::vector<Piece> pieces = cut(slots);
  parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(slots.data(), pieces[static_cast<size_t>(i)], settings);
  });
}

}  // namespace

void adam(std::span<const AdamSlot> slots, const AdamSettings& settings) {
  run(slots, "adam", settings, HWY_DYNAMIC_DISPATCH(adam_piece));
}
void sgd(std::span<const SgdSlot> slots, const SgdSettings& settings) {
  run(slots, "sgd", settings, HWY_DYNAMIC_DISPATCH(sgd_piece));
}

}  // namespace weft::cpu
#endif
