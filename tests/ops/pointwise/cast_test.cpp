// Conversions to the small floating-point formats, against their definitions.
#include <algorithm>
#include <cstring>
#include <string>

#include <weft/autograd/node.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Codes = std::vector<uint8_t>;

Codes codes(const Tensor& x) {
  Codes out(static_cast<size_t>(x.numel()));
  std::memcpy(out.data(), x.contiguous().data_ptr(), out.size());
  return out;
}
/// Every bit pattern of an 8- or 16-bit format, in order.
template <class Bits>
Tensor all_bits(DType format) {
  const Tensor out = empty({int64_t{1} << (8 * sizeof(Bits))}, format);
  for (int64_t i = 0; i < out.numel(); ++i) static_cast<Bits*>(out.data_ptr())[i] = static_cast<Bits>(i);
  return out;
}
Tensor all_codes(DType format) { return all_bits<uint8_t>(format); }
Tensor all_patterns(DType format) { return all_bits<uint16_t>(format); }

constexpr DType with_mantissa[] = {f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz};
constexpr DType eight_bits[] = {f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu};

/// The code that a number is rounded to, by a search for the nearest number of the format, ties to the even code.
class Nearest {
 public:
  explicit Nearest(DType format)
      : has_infinity_(format == f8_e5m2), one_zero_(format == f8_e4m3fnuz || format == f8_e5m2fnuz) {
    const Doubles held = values(all_codes(format));
    for (int code = 0; code < 128; ++code) {
      if (std::isfinite(held[static_cast<size_t>(code)])) numbers_.push_back(held[static_cast<size_t>(code)]);
    }
  }
  uint8_t operator()(double x) const {
    if (!one_zero_) return with_sign(x);
    const double half_gap = (numbers_.back() - numbers_[numbers_.size() - 2]) / 2;
    if (!(std::fabs(x) < numbers_.back() + half_gap)) return 0x80;
    const uint8_t code = with_sign(x);
    return code == 0x80 ? 0 : code;
  }

 private:
  uint8_t with_sign(double x) const {
    const uint8_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return sign | 0x7f;
    const double magnitude = std::fabs(x), last = numbers_.back(), gap = last - numbers_[numbers_.size() - 2];
    const auto top = static_cast<uint8_t>(numbers_.size() - 1);
    if (has_infinity_ && magnitude >= last + gap / 2) return static_cast<uint8_t>(sign | (top + 1));
    if (magnitude >= last) return static_cast<uint8_t>(sign | top);
    const auto above = std::ranges::upper_bound(numbers_, magnitude);
    const auto code = static_cast<uint8_t>(above - numbers_.begin());
    const double up = *above - magnitude, down = magnitude - *(above - 1);
    const bool rises = up < down || (up == down && code % 2 == 0);
    return static_cast<uint8_t>(sign | (rises ? code : code - 1));
  }

  bool has_infinity_, one_zero_;
  std::vector<double> numbers_;  // of the codes from 0, in order
};

TEST(Cast, WorkedCasesOfTheEightBitFormats) {
  const Doubles x = {
      0.0,          -0.0, 1,        -1,       0.1, 0.3, 1.0625,  1.125,           1.1875,  3.5,
      17,           18,   19,       240,      448, 480, 0x1p-10, 0x1p-10 * 1.001, 0x1p-17, 0x1p-17 * 1.001,
      1.5 * 0x1p-9, nan,  infinity, -infinity};
  const Codes e4m3{0x00, 0x80, 0x38, 0xB8, 0x1D, 0x2A, 0x38, 0x39, 0x3A, 0x46, 0x58, 0x59,
                   0x5A, 0x77, 0x7E, 0x7E, 0x00, 0x01, 0x00, 0x00, 0x02, 0x7F, 0x7E, 0xFE};
  const Codes e5m2{0x00, 0x80, 0x3C, 0xBC, 0x2E, 0x35, 0x3C, 0x3C, 0x3D, 0x43, 0x4C, 0x4C,
                   0x4D, 0x5C, 0x5F, 0x60, 0x14, 0x14, 0x00, 0x01, 0x1A, 0x7F, 0x7C, 0xFC};
  EXPECT_EQ(codes(doubles(x).to(f8_e4m3fn)), e4m3);
  EXPECT_EQ(codes(doubles(x).to(f8_e5m2)), e5m2);
  EXPECT_EQ(codes(doubles(x).to(f32).to(f8_e4m3fn)), e4m3);
  EXPECT_EQ(codes(doubles(x).to(f32).to(f8_e5m2)), e5m2);
  const Codes e4m3fnuz{0x00, 0x00, 0x40, 0xC0, 0x25, 0x32, 0x40, 0x41, 0x42, 0x4E, 0x60, 0x61,
                       0x62, 0x7F, 0x80, 0x80, 0x01, 0x01, 0x00, 0x00, 0x03, 0x80, 0x80, 0x80};
  const Codes e5m2fnuz{0x00, 0x00, 0x40, 0xC0, 0x32, 0x39, 0x40, 0x40, 0x41, 0x47, 0x50, 0x50,
                       0x51, 0x60, 0x63, 0x64, 0x18, 0x18, 0x01, 0x01, 0x1E, 0x80, 0x80, 0x80};
  const Codes e8m0fnu{0x00, 0x00, 0x7F, 0x7F, 0x7C, 0x7D, 0x7F, 0x7F, 0x7F, 0x81, 0x83, 0x83,
                      0x83, 0x87, 0x88, 0x88, 0x75, 0x75, 0x6E, 0x6E, 0x77, 0xFF, 0xFF, 0xFF};
  for (const Tensor& given : {doubles(x), doubles(x).to(f32)}) {
    EXPECT_EQ(codes(given.to(f8_e4m3fnuz)), e4m3fnuz);
    EXPECT_EQ(codes(given.to(f8_e5m2fnuz)), e5m2fnuz);
    EXPECT_EQ(codes(given.to(f8_e8m0fnu)), e8m0fnu);
  }
}

TEST(Cast, RoundsOnceFromEveryWiderType) {
  EXPECT_EQ(codes(tensor({1.0625f + 0x1p-20f}).to(f8_e4m3fn)), Codes{0x39});
  EXPECT_EQ(codes(doubles({1.0625 + 0x1p-40}).to(f8_e4m3fn)), Codes{0x39});
  EXPECT_EQ(values(doubles({1 + 0x1p-8 + 0x1p-50, 1 + 0x1p-8}).to(bf16)), (Doubles{1 + 0x1p-7, 1}));
  EXPECT_EQ(values(doubles({1 + 0x1p-11 + 0x1p-50, 1 + 0x1p-11}).to(f16)), (Doubles{1 + 0x1p-10, 1}));
  const int64_t tie = (int64_t{1} << 40) + (int64_t{1} << 32);
  EXPECT_EQ(values(tensor({tie + 1, tie, -tie - 1}).to(bf16)), (Doubles{0x1p40 + 0x1p33, 0x1p40, -0x1p40 - 0x1p33}));
  // A sum of 16-bit floats is rounded once too: it is kept in double until it is written.
  const Tensor terms = tensor({1.0, 0x1p-11, 0x1p-24}).to(f16);
  EXPECT_EQ(sum(terms).item<double>(), 1 + 0x1p-10);
}

TEST(Cast, EveryHalfAndBrainFloatGoesToTheNearestEightBits) {
  for (const DType to : with_mantissa) {
    const Nearest nearest(to);
    for (const DType from : {f16, bf16}) {
      const Tensor x = all_patterns(from);
      const Doubles held = values(x);
      const Codes rounded = codes(x.to(to)), wide = codes(x.to(f64).to(to));
      for (size_t i = 0; i < held.size(); ++i) {
        const uint8_t expected = nearest(held[i]);
        ASSERT_EQ(rounded[i], expected) << name(from) << " to " << name(to) << " of " << held[i];
        ASSERT_EQ(wide[i], expected) << name(from) << " by f64 to " << name(to) << " of " << held[i];
      }
    }
  }
}

TEST(Cast, EveryCodeComesBackByEveryWiderType) {
  for (const DType format : eight_bits) {
    const Tensor x = all_codes(format);
    const Doubles held = values(x);
    for (const DType wide : {bf16, f16, f32, f64, c64}) {
      if (wide == f16 && format == f8_e8m0fnu) continue;
      const Tensor again = x.to(wide);
      const Codes back = codes((wide == c64 ? real(again) : again).to(format));
      for (size_t i = 0; i < 256; ++i) {
        if (!std::isnan(held[i])) EXPECT_EQ(back[i], i) << name(wide);
        else EXPECT_TRUE(std::isnan(held[back[i]])) << name(wide);
      }
    }
  }
}

TEST(Cast, NeverFallsWhereTheNumberRises) {
  const Tensor x = all_patterns(bf16).slice(0, 0, 1 << 15).to(f32);
  for (const DType to : {f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu, f16, bf16}) {
    const Doubles rounded = values(x.to(to)), given = values(x);
    for (size_t i = 1; i < rounded.size() && !std::isnan(given[i]); ++i) {
      const bool overflows = std::isnan(rounded[i]);
      ASSERT_TRUE(overflows || rounded[i] >= rounded[i - 1]) << name(to) << " of " << given[i];
      ASSERT_TRUE(!overflows || given[i] > 200) << name(to) << " of " << given[i];
    }
  }
}

TEST(Cast, OverflowFollowsTheOption) {
  const Doubles x = {448, 464, 464.25, 480, 61439, 61440, 65520, 1e30, -1e30, infinity, -infinity, nan, 3};
  const auto cast_to = [&](DType from, DType to, Overflow overflow) {
    return values(doubles(x).to(from).cast(to, overflow));
  };
  for (const DType from : {f64, f32}) {
    SCOPED_TRACE(name(from));
    expect_near(cast_to(from, f8_e4m3fn, Overflow::ieee),
                {448, 448, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, 3});
    const Doubles held = {448, 448, 448, 448, 448, 448, 448, 448, -448, 448, -448, nan, 3};
    expect_near(cast_to(from, f8_e4m3fn, Overflow::saturate), held);
    expect_near(cast_to(from, f8_e4m3fn, Overflow::by_format), held);
    const Doubles infinite = {448,      448,       448,      512,       57344, infinity, infinity,
                              infinity, -infinity, infinity, -infinity, nan,   3};
    expect_near(cast_to(from, f8_e5m2, Overflow::ieee), infinite);
    expect_near(cast_to(from, f8_e5m2, Overflow::by_format), infinite);
    expect_near(cast_to(from, f8_e5m2, Overflow::saturate),
                {448, 448, 448, 512, 57344, 57344, 57344, 57344, -57344, 57344, -57344, nan, 3});
    for (const Overflow overflow : {Overflow::ieee, Overflow::by_format}) {
      expect_near(cast_to(from, f8_e4m3fnuz, overflow),
                  {nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, 3});
      expect_near(cast_to(from, f8_e5m2fnuz, overflow),
                  {448, 448, 448, 512, 57344, nan, nan, nan, nan, nan, nan, nan, 3});
      expect_near(cast_to(from, f8_e8m0fnu, overflow),
                  {512, 512, 512, 512, 65536, 65536, 65536, 0x1p100, 0x1p100, nan, nan, nan, 4});
    }
    expect_near(cast_to(from, f8_e4m3fnuz, Overflow::saturate),
                {240, 240, 240, 240, 240, 240, 240, 240, -240, 240, -240, nan, 3});
    expect_near(cast_to(from, f8_e5m2fnuz, Overflow::saturate),
                {448, 448, 448, 512, 57344, 57344, 57344, 57344, -57344, 57344, -57344, nan, 3});
    EXPECT_EQ(cast_to(from, f8_e8m0fnu, Overflow::saturate)[9], 0x1p127);
    EXPECT_EQ(cast_to(from, f16, Overflow::saturate)[6], 65504);
    EXPECT_EQ(cast_to(from, f16, Overflow::saturate)[9], 65504);
    EXPECT_EQ(cast_to(from, bf16, Overflow::saturate)[9], 0x1.fep127);
  }
  EXPECT_EQ(values(doubles({infinity, -infinity}).to(f16).cast(bf16, Overflow::saturate)),
            (Doubles{0x1.fep127, -0x1.fep127}));
  EXPECT_EQ(values(doubles({1e300}).cast(f32, Overflow::saturate)), (Doubles{std::numeric_limits<float>::max()}));
  EXPECT_EQ(values(doubles({infinity}).to(f8_e5m2).cast(f64, Overflow::saturate)),
            (Doubles{std::numeric_limits<double>::max()}));
  EXPECT_TRUE(std::isnan(doubles({infinity}).to(f8_e5m2).cast(f8_e4m3fn, Overflow::ieee).item<double>()));
  const Tensor whole = tensor({int64_t{1} << 62, int64_t{-100000}, int64_t{7}});
  EXPECT_EQ(values(whole.cast(f16, Overflow::saturate)), (Doubles{65504, -65504, 7}));
  EXPECT_EQ(values(whole.cast(f8_e5m2, Overflow::saturate)), (Doubles{57344, -57344, 7}));
  EXPECT_EQ(values(whole.cast(i32, Overflow::saturate)), values(whole.to(i32)));
}

TEST(Cast, GradientsPassThroughSaturatedElements) {
  const Tensor x = tensor({1.f, 1e9f}).requires_grad_();
  x.cast(f8_e5m2, Overflow::saturate).to(f32).sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 1}));
  EXPECT_STREQ(x.cast(f8_e4m3fn, Overflow::ieee).impl()->node->op, "cast");
}

TEST(EightBitFloats, AreComparedByValue) {
  for (const DType format : eight_bits) {
    const Tensor x = all_codes(format), wide = x.to(f32), y = x.flip({0});
    EXPECT_EQ(values(x == y), values(wide == y.to(f32)));
    EXPECT_EQ(values(x < y), values(wide < y.to(f32)));
    EXPECT_EQ(values(x >= 0.5), values(wide >= 0.5));
    EXPECT_EQ(values(2 > x.t()), values(wide < 2));
    EXPECT_EQ(values(x != wide), values(wide != wide));
    EXPECT_EQ(values(x == all_codes(f8_e5m2)), values(wide == all_codes(f8_e5m2).to(f32)));
    EXPECT_EQ(values(isnan(x)), values(isnan(wide)));
    EXPECT_EQ(values(isinf(x)), values(isinf(wide)));
    EXPECT_EQ(values(isfinite(x)), values(isfinite(wide)));
    EXPECT_EQ(values(logical_not(x)), values(wide == 0));
  }
  EXPECT_FALSE(isinf(all_codes(f8_e4m3fn)).any().item<bool>());
  EXPECT_EQ(isfinite(all_codes(f8_e4m3fn)).sum().item<int>(), 254);
  for (const DType format : {f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
    EXPECT_EQ(isfinite(all_codes(format)).sum().item<int>(), 255);
    EXPECT_FALSE(isinf(all_codes(format)).any().item<bool>());
    EXPECT_THROW(all_codes(format) + 1.0, DTypeError);
  }
  EXPECT_EQ(isinf(all_codes(f8_e5m2)).sum().item<int>(), 2);
  EXPECT_THROW(all_codes(f8_e5m2) + 1.0, DTypeError);
}

TEST(EightBitFloats, AreTrueUnlessZero) {
  const int zeros_of[] = {2, 2, 1, 1, 0};
  for (size_t i = 0; i < 5; ++i) {
    const Tensor x = all_codes(eight_bits[i]);
    const int64_t count = 256 - zeros_of[i];
    EXPECT_EQ(x.to(boolean).sum().item<int64_t>(), count) << name(x.dtype());
    EXPECT_EQ(count_nonzero(x).item<int64_t>(), count) << name(x.dtype());
    EXPECT_EQ(nonzero(x).size(0), count) << name(x.dtype());
  }
}

TEST(EightBitFloats, PropertiesFollowTheFormat) {
  for (const DType t : eight_bits) {
    EXPECT_EQ(itemsize(t), 1);
    EXPECT_TRUE(is_floating(t) && is_inexact(t) && is_storage_only(t) && !is_complex(t) && !is_integer(t));
    EXPECT_EQ(is_signed(t), t != f8_e8m0fnu);
    EXPECT_EQ(compute_type(t), f32);
    EXPECT_EQ(dtype_from_name(name(t)), t);
    EXPECT_THROW(promote(t, f32), DTypeError);
    EXPECT_THROW(promote(t, c64), DTypeError);
  }
  EXPECT_STREQ(name(f8_e4m3fnuz), "float8_e4m3fnuz");
  EXPECT_STREQ(name(f8_e8m0fnu), "float8_e8m0fnu");
  EXPECT_NE(tensor({0.5, 3.0, 448.0}).to(f8_e8m0fnu).text().find("5.1200e+02"), std::string::npos);
}

}  // namespace
}  // namespace weft::testing
