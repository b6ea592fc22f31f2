// Compression and expansion by register: AVX-512 moves 16 floats with one instruction, AVX2 by a table; small items go
// through the bit deposit and extract instructions, eight bytes at a time.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/mask_loops.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <bit>
#include <cstring>

#include "mask_loops.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Below this many set bits of 64, items are moved one by one.
constexpr int few = 6;

void bits_loop(uint64_t* words, const uint8_t* from, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(d));
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    uint64_t word = 0;
    if constexpr (lanes >= 8) {
      uint8_t part[8];
      for (int64_t k = 0; k < 64; k += lanes) {
        hn::StoreMaskBits(d, hn::Not(hn::LoadU(d, from + i + k) == hn::Zero(d)), part + k / 8);
      }
      memcpy(&word, part, 8);
    } else {
      for (int k = 0; k < 64; ++k) word |= uint64_t{from[i + k] != 0} << k;
    }
    words[i / 64] = word;
  }
  if (i < n) {
    uint64_t word = 0;
    for (int64_t k = i; k < n; ++k) word |= uint64_t{from[k] != 0} << (k - i);
    words[i / 64] = word;
  }
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define WEFT_HAS_COMPRESS 1

// Not Highway's Compress: its tables are built on the stack by every call.
#if HWY_TARGET == HWY_AVX2
struct CompressTable {
  /// For each mask of 8 lanes of 32 bits the numbers of the set ones, in order.
  uint64_t lanes[256] = {};
  constexpr CompressTable() {
    for (uint64_t mask = 0; mask < 256; ++mask) {
      for (uint64_t lane = 0, count = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) != 0) lanes[mask] |= lane << (8 * count++);
      }
    }
  }
};
constexpr CompressTable compress_table;
#endif

/// Items of a step: a register of them, or 8 bytes.
template <class T>
constexpr int step = sizeof(T) < 4 ? 8 / sizeof(T) : (HWY_TARGET == HWY_AVX2 ? 32 : 64) / sizeof(T);

/// The low `step` bits as a mask of the bytes of 8 bytes of items.
template <class T>
HWY_INLINE uint64_t spread(uint64_t bits) {
  if constexpr (sizeof(T) == 1) return _pdep_u64(bits, 0x0101010101010101) * 0xff;
  else return _pdep_u64(bits, 0x0001000100010001) * 0xffff;
}

/// Writes a whole step of items, of which those with a bit are the first.
template <class T>
HWY_INLINE void compress_step(T* to, const T* from, uint64_t bits) {
  if constexpr (sizeof(T) < 4) {
    uint64_t items;
    memcpy(&items, from, 8);
    items = _pext_u64(items, spread<T>(bits));
    memcpy(to, &items, 8);
  } else {
#if HWY_TARGET == HWY_AVX3
    const __m512i items = _mm512_loadu_si512(from);
    if constexpr (sizeof(T) == 4) {
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), items));
    } else {
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(static_cast<__mmask8>(bits), items));
    }
#else
    if constexpr (sizeof(T) == 8) bits = _pdep_u64(bits, 0x55) * 3;
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&compress_table.lanes[bits]));
    const __m256i items = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32(items, _mm256_cvtepu8_epi32(lanes)));
#endif
  }
}
#else
#define WEFT_HAS_COMPRESS 0
#endif

/// The items with a bit, of 64; writes at most one item beyond `to` + 64.
template <class T>
HWY_INLINE T* compress_word(T* to, const T* from, uint64_t bits) {
#if WEFT_HAS_COMPRESS
  if constexpr (sizeof(T) <= 8) {
    for (int k = 0; k < 64; k += step<T>) {
      const uint64_t mine = bits >> k & ((uint64_t{1} << step<T>)-1);
      compress_step(to, from + k, mine);
      to += std::popcount(mine);
    }
    return to;
  }
#endif
  for (int k = 0; k < 64; ++k) {
    *to = from[k];
    to += bits >> k & 1;
  }
  return to;
}

template <class T>
char* compress_loop(char* out, const char* room, const char* in, const uint64_t* words, int64_t n) {
  T* to = reinterpret_cast<T*>(out);
  auto* end = reinterpret_cast<const T*>(room);
  auto* from = reinterpret_cast<const T*>(in);
  for (int64_t i = 0; i < n; i += 64, ++words, from += 64) {
    uint64_t bits = *words;
    if (bits == 0) continue;
    const int count = std::popcount(bits);
    if (count == 64) {
      memcpy(to, from, 64 * sizeof(T));
      to += 64;
    } else if (count > few && end - to >= 64 + 1 && n - i >= 64) {
      to = compress_word(to, from, bits);
    } else {
      for (; bits != 0; bits &= bits - 1) *to++ = from[std::countr_zero(bits)];
    }
  }
  return reinterpret_cast<char*>(to);
}

template <class T>
HWY_INLINE const T* expand_word(T* to, const T* from, uint64_t bits) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    constexpr int lanes = 64 / sizeof(T);
    for (int k = 0; k < 64; k += lanes) {
      const uint64_t mine = bits >> k & ((uint64_t{1} << lanes) - 1);
      const __m512i old = _mm512_loadu_si512(to + k), next = _mm512_loadu_si512(from);
      const __m512i both = sizeof(T) == 4 ? _mm512_mask_expand_epi32(old, static_cast<__mmask16>(mine), next)
                                          : _mm512_mask_expand_epi64(old, static_cast<__mmask8>(mine), next);
      _mm512_storeu_si512(to + k, both);
      from += std::popcount(mine);
    }
    return from;
  }
#endif
#if WEFT_HAS_COMPRESS
  if constexpr (sizeof(T) < 4) {
    for (int k = 0; k < 64; k += step<T>) {
      const uint64_t mine = bits >> k & ((uint64_t{1} << step<T>)-1), mask = spread<T>(mine);
      uint64_t old, next;
      memcpy(&old, to + k, 8);
      memcpy(&next, from, 8);
      old = (old & ~mask) | _pdep_u64(next, mask);
      memcpy(to + k, &old, 8);
      from += std::popcount(mine);
    }
    return from;
  }
#endif
  for (int k = 0; k < 64; ++k) {
    const bool takes = (bits >> k & 1) != 0;
    to[k] = takes ? *from : to[k];
    from += takes;
  }
  return from;
}

template <class T>
const char* expand_loop(char* out, const char* in, const char* room, const uint64_t* words, int64_t n) {
  T* to = reinterpret_cast<T*>(out);
  auto* from = reinterpret_cast<const T*>(in);
  auto* end = reinterpret_cast<const T*>(room);
  for (int64_t i = 0; i < n; i += 64, ++words, to += 64) {
    uint64_t bits = *words;
    if (bits == 0) continue;
    const int count = std::popcount(bits);
    if (count == 64) {
      memcpy(to, from, 64 * sizeof(T));
      from += 64;
    } else if (count > few && end - from >= 64 + 1 && n - i >= 64) {
      from = expand_word(to, from, bits);
    } else {
      for (; bits != 0; bits &= bits - 1) to[std::countr_zero(bits)] = *from++;
    }
  }
  return reinterpret_cast<const char*>(from);
}

int64_t* positions_loop(int64_t* to, const int64_t* room, int64_t first, const uint64_t* words, int64_t n) {
  int64_t numbers[64];
  for (int64_t i = 0; i < 64; ++i) numbers[i] = first + i;
  for (int64_t i = 0; i < n; i += 64, ++words) {
    uint64_t bits = *words;
    if (std::popcount(bits) > few && room - to >= 64 + 1) {
      to = compress_word(to, numbers, bits);
    } else {
      for (; bits != 0; bits &= bits - 1) *to++ = first + i + std::countr_zero(bits);
    }
    for (int64_t& number : numbers) number += 64;
  }
  return to;
}

constexpr MaskLoops target_loops = {bits_loop,
                                    {compress_loop<uint8_t>, compress_loop<uint16_t>, compress_loop<uint32_t>,
                                     compress_loop<uint64_t>, compress_loop<complex128>},
                                    {expand_loop<uint8_t>, expand_loop<uint16_t>, expand_loop<uint32_t>,
                                     expand_loop<uint64_t>, expand_loop<complex128>},
                                    positions_loop};
const MaskLoops* chosen_loops() { return &target_loops; }
#undef WEFT_HAS_COMPRESS

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(chosen_loops);
const MaskLoops& mask_loops() { return *HWY_DYNAMIC_DISPATCH(chosen_loops)(); }
}  // namespace weft::cpu
#endif
