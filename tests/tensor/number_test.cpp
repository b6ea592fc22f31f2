// Every bit pattern of the small floating-point formats against their definitions in double precision.
#include <weft/tensor/number.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace weft {
namespace {

/// The patterns that are not numbers: those of IEEE 754, NaN alone with all bits set, or NaN alone in place of -0.
enum class Special : uint8_t { ieee, ones, negative_zero };

/// The fields of a format, to decode its bit patterns by definition.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  Special special;

  int width() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign() const { return 1u << (width() - 1); }
  /// The pattern of a number of this magnitude.
  uint32_t with_sign(uint32_t magnitude, uint32_t negative) const {
    return magnitude == 0 && special == Special::negative_zero ? 0 : magnitude | negative;
  }
  double decode(uint32_t bits) const {
    if (special == Special::negative_zero && bits == sign()) return NAN;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const double negative = (bits & sign()) != 0 ? -1 : 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (top && special == Special::ieee) return mantissa == 0 ? negative * INFINITY : NAN;
    if (top && special == Special::ones && mantissa == (1u << mantissa_bits) - 1) return NAN;
    if (exponent == 0) return negative * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return negative * std::ldexp((1u << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
};

template <class T>
constexpr Format format_of = {};
template <>
constexpr Format format_of<float16> = {5, 10, 15, Special::ieee};
template <>
constexpr Format format_of<bfloat16> = {8, 7, 127, Special::ieee};
template <>
constexpr Format format_of<float8_e4m3fn> = {4, 3, 7, Special::ones};
template <>
constexpr Format format_of<float8_e5m2> = {5, 2, 15, Special::ieee};
template <>
constexpr Format format_of<float8_e4m3fnuz> = {4, 3, 8, Special::negative_zero};
template <>
constexpr Format format_of<float8_e5m2fnuz> = {5, 2, 16, Special::negative_zero};

template <class T>
T encode(float x) {
  if constexpr (std::is_same_v<T, float16>) return to_float16(x);
  else if constexpr (std::is_same_v<T, bfloat16>) return to_bfloat16(x);
  else if constexpr (std::is_same_v<T, float8_e4m3fn>) return to_float8_e4m3fn(x);
  else if constexpr (std::is_same_v<T, float8_e5m2>) return to_float8_e5m2(x);
  else if constexpr (std::is_same_v<T, float8_e4m3fnuz>) return to_float8_e4m3fnuz(x);
  else return to_float8_e5m2fnuz(x);
}

template <class T>
class Number : public testing::Test {};
using Types = testing::Types<float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz>;
TYPED_TEST_SUITE(Number, Types);

TYPED_TEST(Number, EveryPatternDecodesToItsDefinition) {
  const Format format = format_of<TypeParam>;
  for (uint32_t bits = 0; bits < 1u << format.width(); ++bits) {
    TypeParam x;
    x.bits = static_cast<decltype(x.bits)>(bits);
    const double expected = format.decode(bits), actual = to_float(x);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
    } else {
      EXPECT_EQ(actual, expected) << bits;
      EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(Number, EveryPatternComesBack) {
  const Format format = format_of<TypeParam>;
  for (uint32_t bits = 0; bits < 1u << format.width(); ++bits) {
    TypeParam x;
    x.bits = static_cast<decltype(x.bits)>(bits);
    const TypeParam back = encode<TypeParam>(to_float(x));
    if (std::isnan(format.decode(bits))) EXPECT_TRUE(std::isnan(to_float(back))) << bits;
    else EXPECT_EQ(uint32_t{back.bits}, bits);
  }
}

/// Between two neighbours: the midpoint rounds to the even one, and floats closer to one of them round to it.
TYPED_TEST(Number, RoundsToNearestEven) {
  const Format format = format_of<TypeParam>;
  for (uint32_t negative : {0u, format.sign()}) {
    for (uint32_t bits = 0; bits + 1 < format.sign(); ++bits) {
      const double low = format.decode(bits), high = format.decode(bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (low + high) / 2;
      const auto rounded = [&](double x) {
        const auto narrow = static_cast<float>(x);
        return uint32_t{encode<TypeParam>(negative != 0 ? -narrow : narrow).bits};
      };
      if (static_cast<double>(static_cast<float>(middle)) != middle) continue;  // below the floats
      const auto at = static_cast<float>(middle);
      const uint32_t below = format.with_sign(bits, negative), above = format.with_sign(bits + 1, negative);
      EXPECT_EQ(rounded(middle), (bits & 1) != 0 ? above : below) << bits;
      EXPECT_EQ(rounded(std::nextafter(at, 0.0f)), below) << bits;
      EXPECT_EQ(rounded(std::nextafter(at, INFINITY)), above) << bits;
    }
  }
}

TYPED_TEST(Number, SpecialValues) {
  EXPECT_TRUE(std::isnan(to_float(encode<TypeParam>(NAN))));
  EXPECT_TRUE(std::isnan(to_float(encode<TypeParam>(-NAN))));
  EXPECT_EQ(uint32_t{encode<TypeParam>(0.0f).bits}, 0u);
  EXPECT_EQ(uint32_t{encode<TypeParam>(-0.0f).bits}, format_of<TypeParam>.with_sign(0, format_of<TypeParam>.sign()));
  EXPECT_EQ(uint32_t{encode<TypeParam>(std::numeric_limits<float>::denorm_min()).bits}, 0u);
}

TEST(NumberRange, BeyondTheLargest) {
  EXPECT_EQ(to_float(to_float16(65504.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_float16(65519.996f)), 65504.0f);
  EXPECT_EQ(to_float(to_float16(65520.0f)), INFINITY);
  EXPECT_EQ(to_float(to_float16(-INFINITY)), -INFINITY);
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_EQ(to_float(to_float8_e5m2(57344.0f)), 57344.0f);
  EXPECT_EQ(to_float(to_float8_e5m2(61439.0f)), 57344.0f);
  EXPECT_EQ(to_float(to_float8_e5m2(61440.0f)), INFINITY);
  EXPECT_EQ(to_float(to_float8_e4m3fn(448.0f)), 448.0f);
  EXPECT_EQ(to_float(to_float8_e4m3fn(463.9f)), 448.0f);
  EXPECT_EQ(to_float(to_float8_e4m3fn(464.0f)), 448.0f);  // a tie, to even
  for (float beyond : {464.00003f, 480.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(to_float(to_float8_e4m3fn(beyond)), 448.0f) << beyond;
    EXPECT_EQ(to_float(to_float8_e4m3fn(-beyond)), -448.0f) << beyond;
  }
  EXPECT_EQ(to_float(to_float8_e4m3fnuz(247.9f)), 240.0f);
  EXPECT_EQ(to_float(to_float8_e5m2fnuz(-61439.0f)), -57344.0f);
  for (float beyond : {248.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(to_float8_e4m3fnuz(beyond).bits, 0x80) << beyond;
    EXPECT_EQ(to_float8_e4m3fnuz(-beyond).bits, 0x80) << beyond;
  }
  for (float beyond : {61440.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(to_float8_e5m2fnuz(beyond).bits, 0x80) << beyond;
    EXPECT_EQ(to_float8_e5m2fnuz(-beyond).bits, 0x80) << beyond;
  }
}

/// Rounding through a float with a sticky bit equals rounding once.
TYPED_TEST(Number, OfDoublesAreRoundedOnce) {
  const Format format = format_of<TypeParam>;
  const auto rounded = [](double x) { return uint32_t{encode<TypeParam>(odd_float(x)).bits}; };
  for (uint32_t negative : {0u, format.sign()}) {
    for (uint32_t bits = 0; bits + 1 < format.sign(); ++bits) {
      const double one = negative != 0 ? -1 : 1, low = one * format.decode(bits), high = one * format.decode(bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (low + high) / 2;
      const uint32_t below = format.with_sign(bits, negative), above = format.with_sign(bits + 1, negative);
      EXPECT_EQ(rounded(low), below) << low;
      EXPECT_EQ(rounded(middle), (bits & 1) != 0 ? above : below) << middle;
      EXPECT_EQ(rounded(std::nextafter(middle, low)), below) << middle;
      EXPECT_EQ(rounded(std::nextafter(middle, high)), above) << middle;
    }
  }
  EXPECT_TRUE(std::isnan(to_float(encode<TypeParam>(odd_float(static_cast<double>(NAN))))));
  EXPECT_EQ(rounded(1e300), rounded(INFINITY));
  EXPECT_EQ(rounded(-1e300), rounded(-INFINITY));
  EXPECT_EQ(rounded(-1e-300), format.with_sign(0, format.sign()));
}

TYPED_TEST(Number, OfWholeNumbersAreRoundedOnce) {
  const Format format = format_of<TypeParam>;
  for (uint32_t bits = 0; bits + 1 < format.sign(); ++bits) {
    const double low = format.decode(bits), high = format.decode(bits + 1), middle = (low + high) / 2;
    if (!(high < 0x1p63) || middle != std::floor(middle)) continue;
    const int64_t x = static_cast<int64_t>(middle);
    const auto rounded = [](int64_t whole) { return uint32_t{encode<TypeParam>(odd_float(whole)).bits}; };
    EXPECT_EQ(rounded(x), (bits & 1) != 0 ? bits + 1 : bits) << x;
    EXPECT_EQ(rounded(x - 1), bits) << x;
    EXPECT_EQ(rounded(x + 1), bits + 1) << x;
    EXPECT_EQ(rounded(-x - 1), (bits + 1) | format.sign()) << x;
    EXPECT_EQ(uint32_t{encode<TypeParam>(odd_float(static_cast<uint64_t>(x) + 1)).bits}, bits + 1) << x;
  }
  EXPECT_EQ(odd_float(std::numeric_limits<int64_t>::min()), -0x1p63f);
  EXPECT_EQ(odd_float(std::numeric_limits<uint64_t>::max()), std::nextafter(0x1p64f, 0.0f));
}

// ---- the format of scales -------------------------------------------------------------------------------------------

int exponent_of(float x) { return to_float8_e8m0fnu(x).bits; }

TEST(Exponent, EveryPatternIsAPowerOfTwoAndComesBack) {
  for (int bits = 0; bits < 255; ++bits) {
    const float x = to_float(float8_e8m0fnu{static_cast<uint8_t>(bits)});
    EXPECT_EQ(x, std::ldexp(1.0f, bits - 127));
    EXPECT_EQ(exponent_of(x), bits);
  }
  EXPECT_TRUE(std::isnan(to_float(float8_e8m0fnu{0xff})));
}

TEST(Exponent, RoundsToNearestAndTiesUp) {
  for (int bits = 1; bits < 255; ++bits) {
    const float low = std::ldexp(1.0f, bits - 127), middle = 1.5f * low;
    EXPECT_EQ(exponent_of(std::nextafter(low, INFINITY)), bits);
    EXPECT_EQ(exponent_of(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(exponent_of(middle), bits + 1);
    EXPECT_EQ(exponent_of(std::nextafter(low, 0.0f)), bits);
    EXPECT_EQ(to_float8_e8m0fnu(odd_float(static_cast<double>(middle))).bits, bits + 1);
    EXPECT_EQ(to_float8_e8m0fnu(odd_float(std::nextafter(static_cast<double>(middle), 0.0))).bits, bits);
  }
}

TEST(Exponent, SpecialValues) {
  EXPECT_EQ(exponent_of(0.0f), 0);
  EXPECT_EQ(exponent_of(-0.0f), 0);
  EXPECT_EQ(exponent_of(0x1p-149f), 0);
  EXPECT_EQ(exponent_of(0x1p-127f), 0);
  EXPECT_EQ(exponent_of(std::nextafter(0x1p-127f, INFINITY)), 1);
  EXPECT_EQ(exponent_of(-4.0f), 129);
  for (float x : {0x1.8p127f, std::numeric_limits<float>::max(), INFINITY, -INFINITY, NAN}) {
    EXPECT_EQ(exponent_of(x), 255) << x;
  }
}

}  // namespace
}  // namespace weft
