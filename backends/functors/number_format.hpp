// The layout of float and double, and the polynomials of their elementary functions, shared by SIMD registers
// (backends/cpu/simd/simd_math-inl.hpp) and single numbers (map/elementary.hpp).
#pragma once

#include <cstdint>

namespace weft::detail {

/// The layout of an IEEE number: the bits of the mantissa, the bias of the exponent, and constants for range reduction.
template <class T>
struct NumberFormat;

template <>
struct NumberFormat<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr Bits root_half = 0x3f3504f3u, one = 0x3f800000u, whole_pattern = 0x4b000000u;
  static constexpr float shifter = 12582912.0f, whole = 8388608.0f;
  static constexpr float smallest_normal = 0x1p-126f, to_normal = 0x1p25f, to_normal_log2 = 25;
  static constexpr float log2_e = 1.4426950408889634f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float exp_low = -104, exp_high = 89;
  /// (exp(r) - 1 - r) / r² in r
  static constexpr float exp_tail[] = {0.500000008104993246f,   0.166666667904450395f,   0.0416662623274035042f,
                                       0.00833328040235857424f, 0.00139465042407909697f, 0.000199097148580294721f};
  /// (2^r - 1) / r in r
  static constexpr float exp2_tail[] = {0.6931472f,   0.2402265f,    0.05550357f,
                                        0.009618083f, 0.0013390863f, 0.00015453163f};
  static constexpr float exp2_low = -151;
  /// (log(1 + f) - f + f² / 2) / f³ in f
  static constexpr float log_tail[] = {0.33333310898963846f,   -0.250000162790580403f, 0.200022041836097843f,
                                       -0.166676437161100898f, 0.14217891534678843f,   -0.124112686867607378f,
                                       0.119047121285221418f,  -0.116464344164938319f, 0.0667527189197764733f};
};

template <>
struct NumberFormat<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr Bits root_half = 0x3fe6a09e667f3bcdull, one = 0x3ff0000000000000ull;
  static constexpr Bits whole_pattern = 0x4330000000000000ull;
  static constexpr double shifter = 6755399441055744.0, whole = 4503599627370496.0;
  static constexpr double smallest_normal = 0x1p-1022, to_normal = 0x1p54, to_normal_log2 = 54;
  static constexpr double log2_e = 1.4426950408889634;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double exp_low = -746, exp_high = 710;
  /// (exp(r) - 1 - r) / r² in r
  static constexpr double exp_tail[] = {0.5,
                                        0.166666666666666846,
                                        0.041666666666666714,
                                        0.00833333333331626057,
                                        0.00138888888888635635,
                                        0.000198412698980622146,
                                        0.0000248015873639910276,
                                        2.75572333580418894e-6,
                                        2.75572413845585959e-7,
                                        2.51125147400622008e-8,
                                        2.09245482304247042e-9};
  /// (2^r - 1) / r in r
  static constexpr double exp2_tail[] = {0.6931471805599453,    0.24022650695910097,    0.0555041086648216,
                                         0.009618129107606888,  0.0013333558146416936,  0.0001540353044173605,
                                         1.525273382983612e-05, 1.3215442587921336e-06, 1.0178062445844584e-07,
                                         7.072585949340003e-09, 4.454960598224245e-10};
  static constexpr double exp2_low = -1076;
  /// (log(1 + f) / s - 2) / z in z, where s = f / (2 + f) and z = s²
  static constexpr double log_tail[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                        2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                        1.479819860511658591e-01};
};

}  // namespace weft::detail
