#include <algorithm>
#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/philox.hpp>

namespace weft {
namespace {

using namespace test;

constexpr PhiloxSeed seed{0x123456789abcdef0, 3, 0xfffffffe};

HostArray drawn(DType dtype, int64_t n, Distribution distribution, double a, double b, PhiloxSeed from = seed) {
  HostArray out(dtype, {.sizes = {n}});
  cpu::random(out.view, distribution, from, a, b);
  return out;
}

TEST(Philox, KnownAnswers) {
  const PhiloxWords zero = philox4x32_10(0, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627E8D5u);
  EXPECT_EQ(zero.word[1], 0xE169C58Du);
  EXPECT_EQ(zero.word[2], 0xBC57AC4Cu);
  EXPECT_EQ(zero.word[3], 0x9B00DBD8u);
  const PhiloxWords ones = philox4x32_10(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.word[0], 0x408F276Du);
  EXPECT_EQ(ones.word[1], 0x41C83B0Eu);
  EXPECT_EQ(ones.word[2], 0xA20BC7C6u);
  EXPECT_EQ(ones.word[3], 0x6D5451FDu);
  const PhiloxWords pi = philox4x32_10(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull);
  EXPECT_EQ(pi.word[0], 0xd16cfe09u);
  EXPECT_EQ(pi.word[1], 0x94fdccebu);
  EXPECT_EQ(pi.word[2], 0x5001e420u);
  EXPECT_EQ(pi.word[3], 0x24126ea1u);
}

TEST(Philox, CountersUsed) {
  EXPECT_EQ(philox_blocks(0, f32, Distribution::uniform), 0);
  EXPECT_EQ(philox_blocks(1, f32, Distribution::uniform), 1);
  EXPECT_EQ(philox_blocks(4, bf16, Distribution::normal), 1);
  EXPECT_EQ(philox_blocks(5, i32, Distribution::integers), 2);
  EXPECT_EQ(philox_blocks(5, f64, Distribution::normal), 3);
  EXPECT_EQ(philox_blocks(5, i64, Distribution::integers), 3);
  EXPECT_EQ(philox_blocks(5, f64, Distribution::bernoulli), 2);
  EXPECT_EQ(philox_blocks(int64_t{1} << 62, f64, Distribution::uniform), int64_t{1} << 61);
}

/// The word, or pair of words, of element i by the definition.
uint64_t words_of(DType dtype, Distribution distribution, int64_t i) {
  const int words = philox_words_per_element(dtype, distribution == Distribution::bernoulli);
  const int64_t first = i * words;
  const PhiloxWords block = philox4x32_10(seed.key, seed.subsequence, seed.offset + static_cast<uint64_t>(first / 4));
  const uint64_t low = block.word[first % 4];
  return words == 1 ? low : low | static_cast<uint64_t>(block.word[first % 4 + 1]) << 32;
}

TEST(Random, UniformByItsDefinition) {
  for (const int64_t n : {1, 3, 4, 31, 2049, 70003}) {
    const HostArray x = drawn(f32, n, Distribution::uniform, 0, 1), y = drawn(f64, n, Distribution::uniform, 0, 1);
    const HostArray h = drawn(f16, n, Distribution::uniform, 0, 1), b = drawn(bf16, n, Distribution::uniform, 0, 1);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(x.get(i), std::ldexp(double(words_of(f32, Distribution::uniform, i) >> 8), -24));
      ASSERT_EQ(y.get(i), std::ldexp(double(words_of(f64, Distribution::uniform, i) >> 11), -53));
      ASSERT_EQ(h.get(i), std::ldexp(double(words_of(f16, Distribution::uniform, i) >> 21), -11));
      ASSERT_EQ(b.get(i), std::ldexp(double(words_of(bf16, Distribution::uniform, i) >> 24), -8));
    }
  }
}

TEST(Random, UniformNeverReachesItsUpperBound) {
  for (const DType dtype : float_types) {
    for (const auto& [low, high] :
         {std::pair{0.0, 1.0}, {1.0, 2.0}, {-3.0, -1.0}, {-1.0, 0.0}, {0.1, 0.3}, {1000.0, 1001.0}}) {
      const HostArray x = drawn(dtype, 200000, Distribution::uniform, low, high);
      for (int64_t i = 0; i < x.numel(); ++i) {
        ASSERT_LT(x.get(i), high) << name(dtype);
        ASSERT_GE(x.get(i), low - std::abs(low) * epsilon(dtype)) << name(dtype);
      }
    }
    EXPECT_EQ(drawn(dtype, 1, Distribution::uniform, 2, 2).get(0), 2);
  }
}

TEST(Random, IntegersByTheirDefinition) {
  for (const DType dtype : {i32, i64, f32, u8}) {
    const HostArray x = drawn(dtype, 1001, Distribution::integers, 3, 103);
    for (int64_t i = 0; i < x.numel(); ++i) {
      ASSERT_EQ(x.get(i), 3 + double(words_of(dtype, Distribution::integers, i) % 100));
    }
  }
  for (const uint64_t range : {UINT64_C(1), UINT64_C(7), UINT64_C(0xffffffff), UINT64_C(1) << 32,
                               (UINT64_C(1) << 33) + 4, UINT64_C(1) << 52}) {
    const HostArray x = drawn(i64, 1001, Distribution::integers, 0, static_cast<double>(range));
    for (int64_t i = 0; i < x.numel(); ++i) {
      ASSERT_EQ(x.get(i), double(words_of(i64, Distribution::integers, i) % range)) << range;
    }
  }
  const HostArray wide = drawn(i64, 1000, Distribution::integers, -0x1p62, 0x1p62);
  int negative = 0;
  for (int64_t i = 0; i < 1000; ++i) negative += wide.get(i) < 0;
  EXPECT_NEAR(negative, 500, 80);
}

TEST(Random, BernoulliDoesNotDependOnTheType) {
  const HostArray reference = drawn(boolean, 5000, Distribution::bernoulli, 0.3, 0);
  double sum = 0;
  for (double v : reference.values()) sum += v;
  EXPECT_NEAR(sum / 5000, 0.3, 0.03);
  for (const DType dtype : real_types) {
    EXPECT_EQ(drawn(dtype, 5000, Distribution::bernoulli, 0.3, 0).values(), reference.values()) << name(dtype);
    for (double v : drawn(dtype, 999, Distribution::bernoulli, 1, 0).values()) ASSERT_EQ(v, 1);
    for (double v : drawn(dtype, 999, Distribution::bernoulli, 0, 0).values()) ASSERT_EQ(v, 0);
  }
}

TEST(Random, NormalByBoxAndMuller) {
  const HostArray x = drawn(f32, 9999, Distribution::normal, 0, 1), y = drawn(f64, 9999, Distribution::normal, 0, 1);
  for (int64_t i = 0; i < 9998; ++i) {
    for (const bool wide : {false, true}) {
      const DType dtype = wide ? f64 : f32;
      const int shift = wide ? 11 : 8, bits = wide ? 53 : 24;
      const int64_t pair = i / 2 * 2;
      const double u = std::ldexp(double((words_of(dtype, Distribution::normal, pair) >> shift) + 1), -bits);
      const long double angle =
          std::ldexp((long double)(words_of(dtype, Distribution::normal, pair + 1) >> shift), 1 - bits);
      const long double radius = std::sqrt(-2 * std::log((long double)u));
      const long double turn = angle * 3.14159265358979323846264338327950288L;
      const double expected = static_cast<double>(radius * (i % 2 == 0 ? std::cos(turn) : std::sin(turn)));
      const double actual = wide ? y.get(i) : x.get(i);
      // Within 4 units in the last place, or of the radius' where the angle's function is next to 0.
      ASSERT_NEAR(actual, expected, 8 * epsilon(dtype) * std::max(std::abs(expected), 0.05 * double(radius))) << i;
    }
  }
}

TEST(Random, Moments) {
  for (const DType dtype : float_types) {
    for (const bool normal : {true, false}) {
      const HostArray x = drawn(dtype, 200000, normal ? Distribution::normal : Distribution::uniform, 1, 3);
      double mean = 0, squares = 0;
      for (double v : x.values()) mean += v / 200000;
      for (double v : x.values()) squares += (v - mean) * (v - mean) / 200000;
      EXPECT_NEAR(mean, normal ? 1 : 2, 0.03) << name(dtype);
      EXPECT_NEAR(squares, normal ? 9 : 1.0 / 3, normal ? 0.15 : 0.01) << name(dtype);
    }
  }
}

TEST(Random, ElementsDependOnTheirPositionAlone) {
  for (const auto distribution :
       {Distribution::uniform, Distribution::normal, Distribution::integers, Distribution::bernoulli}) {
    for (const DType dtype : {bf16, f32, f64, i32, i64}) {
      if (!is_floating(dtype) && distribution <= Distribution::normal) continue;
      const double a = distribution == Distribution::bernoulli ? 0.5 : 0, b = 100;
      const std::vector<double> all = drawn(dtype, 10000, distribution, a, b).values();
      for (const int64_t n : {1, 2, 5, 4097}) {
        const std::vector<double> some = drawn(dtype, n, distribution, a, b).values();
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << n;
      }
      PhiloxSeed later = seed;
      later.offset += static_cast<uint64_t>(philox_blocks(1000, dtype, distribution));
      const std::vector<double> rest = drawn(dtype, 100, distribution, a, b, later).values();
      EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + 1000));
      for (const ArrayShape& shape : layouts_of({9, 31, 11})) {
        HostArray strided(dtype, shape);
        cpu::random(strided.view, distribution, seed, a, b);
        const std::vector<double> values = strided.values();
        EXPECT_TRUE(std::equal(values.begin(), values.end(), all.begin()));
      }
    }
  }
  HostArray empty(f32, {.sizes = {0}});
  cpu::random(empty.view, Distribution::normal, seed, 0, 1);
}

TEST(Random, SameBits) {
  expect_same_bits([] {
    std::string bits;
    for (const auto distribution :
         {Distribution::uniform, Distribution::normal, Distribution::integers, Distribution::bernoulli}) {
      for (const DType dtype : {f16, bf16, f32, f64}) bits += bits_of(drawn(dtype, 140001, distribution, 0.25, 7));
    }
    return bits;
  });
}

TEST(Arange, ExactIntegersAndUnroundedSteps) {
  HostArray x(i64, {.sizes = {5}});
  cpu::arange(x.view, int64_t{9007199254740993}, int64_t{-2});
  EXPECT_EQ(static_cast<int64_t*>(x.view.data)[4], 9007199254740985);
  HostArray y(f32, {.sizes = {100001}});
  cpu::arange(y.view, 0.5, 0.1);
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.get(i), static_cast<float>(0.5 + static_cast<double>(i) * 0.1));
  for (const DType dtype : {i8, i16, i32, f16, bf16, f64}) {
    for (const ArrayShape& shape :
         {ArrayShape{.sizes = {7}}, ArrayShape{.sizes = {7}, .gap = 3}, ArrayShape{.sizes = {7}, .backwards = {0}}}) {
      HostArray z(dtype, shape);
      cpu::arange(z.view, 3, -1);
      EXPECT_EQ(z.values(), (std::vector<double>{3, 2, 1, 0, -1, -2, -3}));
    }
  }
  HostArray empty(f32, {.sizes = {0}});
  cpu::arange(empty.view, 0, 1);
}

}  // namespace
}  // namespace weft
