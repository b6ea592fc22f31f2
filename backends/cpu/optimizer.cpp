// Fused optimizer steps: one pass over every parameter, in pieces of fixed size.
#include "simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
#include "simd/small_baseline-inl.hpp"
#include "simd/simd-inl.hpp"

#include <algorithm>
#include <vector>

#include "kernels.hpp"
#include "pointwise/loops.hpp"
#include "thread_pool.hpp"

#ifndef WEFT_CPU_OPTIMIZER_ONCE
#define WEFT_CPU_OPTIMIZER_ONCE
namespace weft::cpu {
namespace {

/// Whole slots, or elements [begin, end) of one where end is not negative.
struct SlotRange {
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
  HWY_INLINE Vec<T> load(const T* from) const {
    if constexpr (whole) return hn::LoadU(Tag<T>(), from + i);
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[hn::MaxLanes(Tag<T>())] = {};
    for (int64_t k = 0; k < count; ++k) buffer[k] = from[i + k];
    return hn::Load(Tag<T>(), buffer);
#else
    return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), from + i);
#endif
  }
  HWY_INLINE void store(Vec<T> value, T* to) const {
    if constexpr (whole) return hn::StoreU(value.raw, Tag<T>(), to + i);
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[hn::MaxLanes(Tag<T>())];
    hn::Store(value.raw, Tag<T>(), buffer);
    for (int64_t k = 0; k < count; ++k) to[i + k] = buffer[k];
#else
    hn::BlendedStore(value.raw, hn::FirstN(Tag<T>(), static_cast<size_t>(count)), Tag<T>(), to + i);
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

/// Steps n elements; state[k] is read and written for the first F::states.
template <class T, class F>
HWY_NOINLINE void step_elements(T* p, const T* g, T* const (&state)[3], int64_t n,
                                const OptimizerFactors<Vec<T>>& factors) {
  const OptimizerFactors<Vec<T>> f = factors;  // in registers, which the stores below cannot reach
  T *const a = state[0], *const b = state[1], *const c = state[2];
  each_lane<T>(n, [&](auto lane) HWY_ATTR WEFT_INLINE {
    if constexpr (F::states == 2) prefetch_at(lane.i, p, g, a, b);
    if constexpr (F::states == 3) prefetch_at(lane.i, p, g, a, b, c);
    Vec<T> value = lane.load(p), s[3];
    if constexpr (F::states > 0) s[0] = lane.load(a);
    if constexpr (F::states > 1) s[1] = lane.load(b);
    if constexpr (F::states > 2) s[2] = lane.load(c);
    F::step(value, lane.load(g), s[0], s[1], s[2], f);
    if constexpr (F::states > 0) lane.store(s[0], a);
    if constexpr (F::states > 1) lane.store(s[1], b);
    if constexpr (F::states > 2) lane.store(s[2], c);
    lane.store(value, p);
  });
}

/// Elements [begin, begin + n) of a slot in its own dtype.
template <class T, class F>
HWY_INLINE void step_slot(const OptimizerSlot& slot, int64_t begin, int64_t n, const OptimizerFactors<Vec<T>>& f) {
  const auto at = [&](const View& view) HWY_ATTR { return static_cast<T*>(view.data) + begin; };
  T* const state[3] = {at(slot.state[0]), at(slot.state[1]), at(slot.state[2])};
  step_elements<T, F>(at(slot.parameter), at(slot.gradient), state, n, f);
}

/// The same for 16-bit parameters: blocks that stay in the cache are widened, stepped in f32 and rounded.
template <class F>
HWY_INLINE void step_small_slot(const OptimizerSlot& slot, int64_t begin, int64_t n,
                                const OptimizerFactors<Vec<float>>& f) {
  constexpr int64_t block = 512;
  const int type = static_cast<int>(slot.parameter.layout.dtype), wide = static_cast<int>(DType::f32);
  const UnaryLoop widen = convert_loops.loop[wide][type], narrow = convert_loops.loop[type][wide];
  alignas(64) float p[block], g[block];
  for (int64_t i = begin; i < begin + n; i += block) {
    const int64_t count = std::min(block, begin + n - i);
    char* const parameter = static_cast<char*>(slot.parameter.data) + 2 * i;
    const auto at = [&](const View& view) HWY_ATTR { return static_cast<float*>(view.data) + i; };
    float* const state[3] = {at(slot.state[0]), at(slot.state[1]), at(slot.state[2])};
    widen(p, parameter, count);
    widen(g, static_cast<const char*>(slot.gradient.data) + 2 * i, count);
    step_elements<float, F>(p, g, state, count, f);
    narrow(parameter, p, count);
  }
}

/// The factors, one register each. By reference: factors_in is not compiled for the target, so it can't be handed one.
template <class T>
HWY_INLINE OptimizerFactors<Vec<T>> registers(const OptimizerSettings& settings) {
  Vec<T> made;
  return factors_in<Vec<T>>(settings, [&](double x) HWY_ATTR -> const Vec<T>& { return made = Vec<T>(x); });
}

template <class F>
void step_piece(const OptimizerSlot* slots, const SlotRange& piece, const OptimizerSettings& settings) {
  const auto single = registers<float>(settings);
  const auto wide = registers<double>(settings);
  for (size_t i = piece.slot; i < piece.end_slot; ++i) {
    const Layout& layout = slots[i].parameter.layout;
    const int64_t n = piece.end < 0 ? layout.numel : piece.end - piece.begin;
    if (layout.dtype == DType::f32) step_slot<float, F>(slots[i], piece.begin, n, single);
    else if (layout.dtype == DType::f64) step_slot<double, F>(slots[i], piece.begin, n, wide);
    else step_small_slot<F>(slots[i], piece.begin, n, single);
  }
}

using PieceFunction = void (*)(const OptimizerSlot*, const SlotRange&, const OptimizerSettings&);
PieceFunction piece_function(OptimizerStep step) {
#define WEFT_ROW(name, F, ...) step_piece<functors::F>,
  constexpr PieceFunction functions[] = {WEFT_OPTIMIZER_STEPS(WEFT_ROW)};
#undef WEFT_ROW
  return functions[static_cast<int>(step)];
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(piece_function);

namespace {

/// Elements of a piece: small slots are gathered to that many, large ones are cut.
constexpr int64_t piece_size = 16384;

std::vector<SlotRange> cut(std::span<const OptimizerSlot> slots) {
  std::vector<SlotRange> pieces;
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

}  // namespace

void optimizer_step(OptimizerStep step, std::span<const OptimizerSlot> slots, const OptimizerSettings& settings) {
  int64_t total = 0;
  for (const OptimizerSlot& slot : slots) {
    const DType type = slot.parameter.layout.dtype;
    const bool is_small = type == DType::f16 || type == DType::bf16;
    if (!is_small && type != DType::f32 && type != DType::f64) unsupported("optimizer_step", slot.parameter);
    total += slot.parameter.layout.numel;
  }
  const auto body = HWY_DYNAMIC_DISPATCH(piece_function)(step);
  if (total <= 2 * piece_size) return body(slots.data(), {0, slots.size(), 0, -1}, settings);
  const std::vector<SlotRange> pieces = cut(slots);
  parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(slots.data(), pieces[static_cast<size_t>(i)], settings);
  });
}

}  // namespace weft::cpu
#endif
