#include "simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/random.cpp"
#include <hwy/foreach_target.h>
#include "simd/small_baseline-inl.hpp"

#include "kernels.hpp"
#include "lines.hpp"
#include "thread_pool.hpp"
#include "../../tensor/philox.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements that are drawn into a buffer at a time.
constexpr int64_t batch = 2048;

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t words_overrun = 0;
void draw_words(uint32_t* words, PhiloxSeed seed, int64_t first, int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxWords r = philox4x32_10(seed.key, seed.subsequence, seed.offset + static_cast<uint64_t>(first + b));
    for (int k = 0; k < 4; ++k) words[4 * b + k] = r.word[k];
  }
}
#else
constexpr int chains = HWY_TARGET == HWY_AVX3 ? 4 : 2;
constexpr int64_t words_overrun = 4 * chains * 8;

/// Each 64-bit lane holds one counter's word in its low half; several chains hide the latency of the multiplications.
/// May write up to words_overrun words more than asked for.
void draw_words(uint32_t* words, PhiloxSeed seed, int64_t first, int64_t blocks) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto product = [&](V x, V multiplier)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, multiplier)); };
  const V m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u), low = hn::Set(d, 0xffffffffu);
  for (int64_t b = 0; b < blocks; b += chains * lanes) {
    V x0[chains], x1[chains], x2[chains], x3[chains];
    for (int c = 0; c < chains; ++c) {
      x0[c] = hn::Add(hn::Iota(d, 0), hn::Set(d, seed.offset + static_cast<uint64_t>(first + b + c * lanes)));
      x1[c] = hn::ShiftRight<32>(x0[c]);
      x2[c] = hn::Set(d, seed.subsequence);
      x3[c] = hn::Set(d, seed.subsequence >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(seed.key), k1 = static_cast<uint32_t>(seed.key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const V key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
      for (int c = 0; c < chains; ++c) {
        const V p0 = product(x0[c], m0), p1 = product(x2[c], m1);
        x0[c] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), x1[c]), key0);
        x2[c] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), x3[c]), key1);
        x1[c] = p1;
        x3[c] = p0;
      }
    }
    for (int c = 0; c < chains; ++c) {
      const V first_half = hn::Or(hn::And(x0[c], low), hn::ShiftLeft<32>(x1[c]));
      const V second_half = hn::Or(hn::And(x2[c], low), hn::ShiftLeft<32>(x3[c]));
      uint64_t* to = reinterpret_cast<uint64_t*>(words + 4 * (b + c * lanes));
      hn::StoreInterleaved2(first_half, second_half, d, to);
    }
  }
}
#endif

HWY_INLINE uint64_t pair_at(const uint32_t* words, int64_t i) {
  return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
}

void uniform_numbers(float* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, DType t, double a, double b) {
  const UniformRange<float> range = uniform_range(t, a, b);
  if (t == DType::f16)
    for (int64_t i = 0; i < n; ++i) to[i] = place(unit_f16(w[i]), range);
  else if (t == DType::bf16)
    for (int64_t i = 0; i < n; ++i) to[i] = place(unit_bf16(w[i]), range);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = place(unit_f32(w[i]), range);
}
void uniform_numbers(double* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, DType, double a, double b) {
  const UniformRange<double> range = uniform_range_f64(a, b);
  for (int64_t i = 0; i < n; ++i) to[i] = place(unit_f64(pair_at(w, i)), range);
}

/// `to` has room for an even number of elements.
void normal_numbers(float* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, DType, double mean,
                    double deviation) {
  const float m = static_cast<float>(mean), s = static_cast<float>(deviation);
  for (int64_t i = 0; i < n; i += 2) {
    const NormalPair<float> z = normal_pair(w[i], w[i + 1]);
    to[i] = m + s * z.first;
    to[i + 1] = m + s * z.second;
  }
}
void normal_numbers(double* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, DType, double mean,
                    double deviation) {
  for (int64_t i = 0; i < n; i += 2) {
    const NormalPair<double> z = normal_pair(pair_at(w, i), pair_at(w, i + 1));
    to[i] = mean + deviation * z.first;
    to[i + 1] = mean + deviation * z.second;
  }
}

void bernoulli_numbers(int32_t* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, double probability) {
  const uint64_t threshold = bernoulli_threshold(probability);
  if (threshold > 0xffffffffu) {
    for (int64_t i = 0; i < n; ++i) to[i] = 1;
  } else {
    const uint32_t narrow = static_cast<uint32_t>(threshold);
    for (int64_t i = 0; i < n; ++i) to[i] = w[i] < narrow;
  }
}

void integer_numbers(int64_t* HWY_RESTRICT to, const uint32_t* HWY_RESTRICT w, int64_t n, int words, int64_t low,
                     int64_t high) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (range == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = integer_below(words == 2 ? pair_at(w, i) : w[i], low, range);
    return;
  }
  // The remainder by multiplications: the quotient is at most 1 too small.
  __extension__ using Wide = unsigned __int128;
  const uint64_t inverse = ~uint64_t{0} / range;
  const auto remainder = [=](uint64_t x) {
    uint64_t rest = x - static_cast<uint64_t>(static_cast<Wide>(x) * inverse >> 64) * range;
    rest -= range & -static_cast<uint64_t>(rest >= range);  // without a branch, which nothing could predict
    return static_cast<int64_t>(static_cast<uint64_t>(low) + rest);
  };
  if (words == 2)
    for (int64_t i = 0; i < n; ++i) to[i] = remainder(pair_at(w, i));
  else
    for (int64_t i = 0; i < n; ++i) to[i] = remainder(w[i]);
}

struct Batch {
  alignas(64) uint32_t words[2 * batch + words_overrun];
  alignas(64) float floats[batch];
  alignas(64) double doubles[batch];
  alignas(64) int64_t integers[batch];
};

template <class A>
void draw_floats(A* buffer, Batch& m, char* to, int64_t step, int64_t n, DType t, Distribution distribution, double a,
                 double b) {
  // An odd count of normal numbers needs room for one more.
  A* const y = n % 2 == 0 ? write_line(buffer, to, step, n, t) : buffer;
  if (distribution == Distribution::uniform) uniform_numbers(y, m.words, n, t, a, b);
  else normal_numbers(y, m.words, n, t, a, b);
  finish_line(y, to, step, n, t);
}

/// Elements [first, first + n), first a multiple of 4, to a line.
void draw_batch(Batch& m, char* to, int64_t step, int64_t first, int64_t n, DType t, Distribution distribution,
                PhiloxSeed seed, Scalar first_number, Scalar second_number) {
  const double a = first_number.to<double>(), b = second_number.to<double>();
  const int words = philox_words_per_element(t, distribution == Distribution::bernoulli);
  draw_words(m.words, seed, first / 4 * words, philox_blocks(n, t, distribution));
  if (distribution == Distribution::bernoulli) {
    int32_t* const hits = reinterpret_cast<int32_t*>(m.floats);
    bernoulli_numbers(hits, m.words, n, a);
    store_line(to, step, t, static_cast<const int32_t*>(hits), n);
  } else if (distribution == Distribution::integers) {
    int64_t* const y = write_line(m.integers, to, step, n, t);
    integer_numbers(y, m.words, n, words, first_number.to<int64_t>(), second_number.to<int64_t>());
    finish_line(y, to, step, n, t);
  } else if (t == DType::f64) {
    draw_floats(m.doubles, m, to, step, n, t, distribution, a, b);
  } else {
    draw_floats(m.floats, m, to, step, n, t, distribution, a, b);
  }
}

void draw(const View& out, Distribution distribution, PhiloxSeed seed, Scalar a, Scalar b) {
  const DType t = out.layout.dtype;
  const int64_t item = itemsize(t);
  const bool contiguous = out.layout.contiguous;
  const Layout* const layouts[] = {&out.layout};
  const Walk<1> walk = walk_of(layouts, 0, out.layout.rank);
  parallel_for(out.layout.numel, 32 * batch, [&](int64_t begin, int64_t end) HWY_ATTR {
    Batch m;
    alignas(64) char line[batch * 8];
    for (int64_t i = begin; i < end; i += batch) {
      const int64_t n = end - i < batch ? end - i : batch;
      char* const to = contiguous ? bytes(out) + i * item : line;
      draw_batch(m, to, item, i, n, t, distribution, seed, a, b);
      if (contiguous) continue;
      Cursor<1> at(walk, i);
      for (int64_t j = 0; j < n; ++j, at.next()) {
        for (int64_t k = 0; k < item; ++k) bytes(out)[at.offset[0] + k] = line[j * item + k];
      }
    }
  });
}

/// Computed in B, which is unsigned for integers: those of a u64 range may pass the largest signed one.
template <class A, class B>
void arange_numbers(char* to, int64_t step, DType t, B start, B increment, int64_t begin, int64_t end) {
  alignas(64) A buffer[batch];
  for (int64_t i = begin; i < end; i += batch) {
    const int64_t n = end - i < batch ? end - i : batch;
    A* const y = write_line(buffer, to + i * step, step, n, t);
    for (int64_t j = 0; j < n; ++j) y[j] = static_cast<A>(start + static_cast<B>(i + j) * increment);
    finish_line(y, to + i * step, step, n, t);
  }
}

void count_up(const View& out, Scalar start, Scalar increment) {
  const int64_t step = out.layout.strides[0];
  const DType t = out.layout.dtype;
  const bool floating = is_floating(t) || start.is_floating() || increment.is_floating();
  parallel_for(out.layout.numel, 32 * batch, [&](int64_t begin, int64_t end) HWY_ATTR {
    if (floating) {
      arange_numbers<double>(bytes(out), step, t, start.to<double>(), increment.to<double>(), begin, end);
    } else {
      arange_numbers<int64_t>(bytes(out), step, t, start.to<uint64_t>(), increment.to<uint64_t>(), begin, end);
    }
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(draw);
HWY_EXPORT(count_up);

void random(const View& out, Distribution distribution, PhiloxSeed seed, Scalar a, Scalar b) {
  const bool floats_only = distribution == Distribution::uniform || distribution == Distribution::normal;
  const DType t = out.layout.dtype;
  if (floats_only ? !is_computable_float(t) : !is_computable(t)) unsupported("random", out);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(draw)(out, distribution, seed, a, b);
}

void arange(const View& out, Scalar start, Scalar step) {
  if (!is_computable(out.layout.dtype)) unsupported("arange", out);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(count_up)(at_least_1d(out), start, step);
}

}  // namespace weft::cpu
#endif
