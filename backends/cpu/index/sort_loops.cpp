#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/sort_loops.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <bit>
#include <cstring>

#include "../lines.hpp"
#include "sort_keys.hpp"
#include "sort_loops.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void read_keys(void* to, const void* from, int64_t n, bool descending) {
  using Key = Unsigned<sizeof(T)>;
  Key* const keys = static_cast<Key*>(to);
  const T* const elements = static_cast<const T*>(from);
  const Key flip = descending ? static_cast<Key>(~Key(0)) : Key(0);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Key>(sort_key(elements[i]) ^ flip);
}

template <class Key>
KeyRange range_of(const void* from, int64_t n) {
  const Key* const keys = static_cast<const Key*>(from);
  Key lowest = static_cast<Key>(~Key(0)), highest = 0;
  for (int64_t i = 0; i < n; ++i) {
    lowest = keys[i] < lowest ? keys[i] : lowest;
    highest = keys[i] > highest ? keys[i] : highest;
  }
  return {lowest, highest};
}

template <class Key>
void lowest_of_groups(void* to, int64_t groups, const void* from, int64_t n) {
  Key* const least = static_cast<Key*>(to);
  const Key* const keys = static_cast<const Key*>(from);
  const hn::ScalableTag<Key> d;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(d)), width = 4 * lanes;
  const int64_t rows = n / groups;
  for (int64_t first = 0; first + width <= groups; first += width) {
    const Key* row = keys + first;
    auto a = hn::LoadU(d, row), b = hn::LoadU(d, row + lanes);
    auto c = hn::LoadU(d, row + 2 * lanes), e = hn::LoadU(d, row + 3 * lanes);
    for (int64_t r = 1; r < rows; ++r) {
      row += groups;
      a = hn::Min(a, hn::LoadU(d, row));
      b = hn::Min(b, hn::LoadU(d, row + lanes));
      c = hn::Min(c, hn::LoadU(d, row + 2 * lanes));
      e = hn::Min(e, hn::LoadU(d, row + 3 * lanes));
    }
    hn::StoreU(a, d, least + first);
    hn::StoreU(b, d, least + first + lanes);
    hn::StoreU(c, d, least + first + 2 * lanes);
    hn::StoreU(e, d, least + first + 3 * lanes);
  }
  for (int64_t j = groups / width * width; j < groups; ++j) {
    least[j] = keys[j];
    for (int64_t r = 1; r < rows; ++r) least[j] = keys[r * groups + j] < least[j] ? keys[r * groups + j] : least[j];
  }
  for (int64_t i = rows * groups; i < n; ++i) {
    const int64_t j = i - rows * groups;
    least[j] = keys[i] < least[j] ? keys[i] : least[j];
  }
}

template <class Key>
int64_t positions_up_to(uint32_t* to, uint64_t last, const void* from, int64_t n) {
  const Key limit = static_cast<Key>(last);
  const Key* const keys = static_cast<const Key*>(from);
  const hn::ScalableTag<Key> d;
  const auto highest = hn::Set(d, limit);
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(d)), block = 4 * lanes;
  const auto any = [&](int64_t at) HWY_ATTR {
    const auto part = hn::LoadU(d, keys + at);
    return hn::Min(part, highest) == part;
  };
  int64_t count = 0, i = 0;
  while (i + block <= n) {
    const auto first = hn::Or(any(i), any(i + lanes)), second = hn::Or(any(i + 2 * lanes), any(i + 3 * lanes));
    if (hn::AllFalse(d, hn::Or(first, second))) {
      i += block;
      continue;
    }
    for (int64_t end = i + block; i < end;) {
      uint8_t hits[8] = {};
      hn::StoreMaskBits(d, any(i), hits);
      uint64_t left;
      std::memcpy(&left, hits, sizeof left);
      for (; left != 0; left &= left - 1) to[count++] = static_cast<uint32_t>(i + std::countr_zero(left));
      i += lanes;
    }
  }
  for (; i < n; ++i) {
    to[count] = static_cast<uint32_t>(i);
    count += keys[i] <= limit;
  }
  return count;
}

template <class Key>
void ranks_of(int32_t* to, const void* from, int64_t n) {
  constexpr int64_t most = 32;
  const Key* const keys = static_cast<const Key*>(from);
  const hn::CappedTag<Key, most> d;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(d));
  const auto lane = hn::Iota(d, Key{0});
  HWY_ALIGN Key ranks[most];
  for (int64_t i = 0; i < n; i += lanes) {
    const auto here = hn::LoadU(d, keys + i);
    auto rank = hn::Zero(d);
    const int64_t own = i + lanes < n ? i + lanes : n;
    for (int64_t j = 0; j < i; ++j) {  // of those before, the ones that are not above
      const auto other = hn::Set(d, keys[j]);
      rank = hn::Sub(rank, hn::VecFromMask(d, hn::Min(other, here) == other));
    }
    for (int64_t j = i; j < own; ++j) {
      const auto other = hn::Set(d, keys[j]), lower = hn::Min(other, here);
      const auto before = lane > hn::Set(d, static_cast<Key>(j - i));
      rank = hn::Sub(rank, hn::VecFromMask(d, hn::And(lower == other, hn::Or(hn::Not(lower == here), before))));
    }
    for (int64_t j = own; j < n; ++j) {  // of those behind, the ones that are below
      rank = hn::Sub(rank, hn::VecFromMask(d, hn::Not(hn::Min(hn::Set(d, keys[j]), here) == here)));
    }
    hn::Store(rank, d, ranks + i);
  }
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int32_t>(ranks[i]);
}

/// Bisects for a block of keys at a time, in steps that are the same for all of them.
template <bool right, class Key>
void places_in(int64_t* to, const Key* sorted, int64_t count, const Key* keys, int64_t n) {
  constexpr int64_t block = 256;
  int32_t place[block];
  for (int64_t i = 0; i < n; i += block) {
    const int64_t size = n - i < block ? n - i : block;
    for (int64_t j = 0; j < size; ++j) place[j] = 0;
    const auto step = [&](int32_t probe, int32_t by) HWY_ATTR {
      const Key* const at = sorted + probe;
#pragma GCC ivdep
      for (int64_t j = 0; j < size; ++j) {
        const bool beyond = right ? at[place[j]] <= keys[i + j] : at[place[j]] < keys[i + j];
        place[j] += beyond ? by : 0;
      }
    };
    auto left = static_cast<int32_t>(count);
    for (; left > 1; left -= left / 2) step(left / 2 - 1, left / 2);
    if (left == 1) step(0, 1);
    for (int64_t j = 0; j < size; ++j) to[i + j] = place[j];
  }
}

template <class Key>
void places_of(int64_t* to, const void* sorted, int64_t count, const void* keys, int64_t n, bool right) {
  const auto search = right ? places_in<true, Key> : places_in<false, Key>;
  search(to, static_cast<const Key*>(sorted), count, static_cast<const Key*>(keys), n);
}

template <class T>
constexpr KeyLoops loops_for() {
  using Key = Unsigned<sizeof(T)>;
  return {read_keys<T>, range_of<Key>, lowest_of_groups<Key>, positions_up_to<Key>, ranks_of<Key>, places_of<Key>};
}

const KeyLoops* chosen_loops(DType dtype) {
  const KeyLoops* chosen = nullptr;
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_computable(dtype_of<T>())) {
      static constexpr KeyLoops loops = loops_for<T>();
      chosen = &loops;
    }
  });
  return chosen;
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(chosen_loops);
const KeyLoops& key_loops(DType dtype) { return *HWY_DYNAMIC_DISPATCH(chosen_loops)(dtype); }
}  // namespace weft::cpu
#endif
