// Fixed-width integers, and the 8- and 16-bit floating-point storage types as bit operations. Compiled by g++, by nvcc
// and by clang as C++ for OpenCL, so it includes no standard headers for devices.
#pragma once

#if defined(__OPENCL_CPP_VERSION__)
#define WEFT_FN inline
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#else
#include <cstdint>
#if defined(__CUDACC__)
#define WEFT_FN __host__ __device__ __forceinline__
#else
#define WEFT_FN inline __attribute__((always_inline))
#endif
#endif

namespace weft {

/// The bits of a float.
WEFT_FN uint32_t float_bits(float value) {
#if defined(__OPENCL_CPP_VERSION__)
  return as_uint(value);
#elif defined(__CUDACC__)
  union {
    float f;
    uint32_t u;
  } pun;
  pun.f = value;
  return pun.u;
#else
  return __builtin_bit_cast(uint32_t, value);
#endif
}

/// The float of these bits.
WEFT_FN float float_from_bits(uint32_t bits) {
#if defined(__OPENCL_CPP_VERSION__)
  return as_float(bits);
#elif defined(__CUDACC__)
  union {
    float f;
    uint32_t u;
  } pun;
  pun.u = bits;
  return pun.f;
#else
  return __builtin_bit_cast(float, bits);
#endif
}

/// IEEE 754 binary16 as storage; arithmetic happens in float.
struct float16 {
  uint16_t bits;
};
/// The upper half of an IEEE 754 binary32 as storage; arithmetic happens in float.
struct bfloat16 {
  uint16_t bits;
};
/// OCP FP8 E4M3 "fn": no infinities, largest 448, NaN is 0x7F and 0xFF (OCP 8-bit floating point specification).
struct float8_e4m3fn {
  uint8_t bits;
};
/// OCP FP8 E5M2: IEEE-like with infinities, largest finite 57344.
struct float8_e5m2 {
  uint8_t bits;
};
/// As E4M3 and E5M2 with an exponent bias greater by 1. Without infinities and -0; NaN is 0x80. The largest values are
/// 240 and 57344 (Noune et al., 8-bit numerical formats for deep neural networks, 2022).
struct float8_e4m3fnuz {
  uint8_t bits;
};
struct float8_e5m2fnuz {
  uint8_t bits;
};
/// 2^(bits - 127); NaN is 0xFF. Without sign, zero and infinity (OCP microscaling formats specification).
struct float8_e8m0fnu {
  uint8_t bits;
};

/// Exact.
WEFT_FN float to_float(bfloat16 x) { return float_from_bits((uint32_t)x.bits << 16); }

/// Exact.
WEFT_FN float to_float(float16 x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31u;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 31u) return float_from_bits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0u) {
    const float magnitude = (float)mantissa * 5.9604644775390625e-8f;  // 2^-24
    return float_from_bits(float_bits(magnitude) | sign);
  }
  return float_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// Exact.
WEFT_FN float to_float(float8_e5m2 x) {
  float16 wide = {(uint16_t)((uint16_t)x.bits << 8)};
  return to_float(wide);
}

/// Exact.
WEFT_FN float to_float(float8_e4m3fn x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x80u) << 24;
  const uint32_t magnitude = x.bits & 0x7fu;
  if (magnitude == 0x7fu) return float_from_bits(sign | 0x7fc00000u);
  if (magnitude < 8u) {  // subnormal: multiples of 2^-9
    return float_from_bits(float_bits((float)magnitude * 0.001953125f) | sign);
  }
  return float_from_bits(sign | ((magnitude << 20) + (120u << 23)));
}

/// Exact.
WEFT_FN float to_float(float8_e4m3fnuz x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x80u) << 24;
  const uint32_t magnitude = x.bits & 0x7fu;
  if (x.bits == 0x80u) return float_from_bits(0x7fc00000u);
  if (magnitude < 8u) {  // subnormal: multiples of 2^-10
    return float_from_bits(float_bits((float)magnitude * 0.0009765625f) | sign);
  }
  return float_from_bits(sign | ((magnitude << 20) + (119u << 23)));
}

/// Exact.
WEFT_FN float to_float(float8_e5m2fnuz x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x80u) << 24;
  const uint32_t magnitude = x.bits & 0x7fu;
  if (x.bits == 0x80u) return float_from_bits(0x7fc00000u);
  if (magnitude < 4u) {  // subnormal: multiples of 2^-17
    return float_from_bits(float_bits((float)magnitude * 7.62939453125e-6f) | sign);
  }
  return float_from_bits(sign | ((magnitude << 21) + (111u << 23)));
}

/// Exact.
WEFT_FN float to_float(float8_e8m0fnu x) {
  if (x.bits == 0xffu) return float_from_bits(0x7fc00000u);
  return float_from_bits(x.bits == 0 ? 0x400000u : (uint32_t)x.bits << 23);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
WEFT_FN bfloat16 to_bfloat16(float value) {
  const uint32_t u = float_bits(value);
  bfloat16 r;
  if ((u & 0x7fffffffu) > 0x7f800000u) {
    r.bits = (uint16_t)((u >> 16) | 0x40u);
  } else {
    r.bits = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  return r;
}

/// Rounds to nearest, ties to even; values above 65504 become infinity.
WEFT_FN float16 to_float16(float value) {
  uint32_t u = float_bits(value);
  const uint32_t sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  float16 r;
  if (u > 0x7f800000u) {
    r.bits = (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
  } else if (u >= 0x47800000u) {
    r.bits = (uint16_t)(sign | 0x7c00u);
  } else if (u < 0x38800000u) {  // subnormal: adding 0.5 rounds at 2^-24
    const float shifted = float_from_bits(u) + 0.5f;
    r.bits = (uint16_t)(sign | (float_bits(shifted) - 0x3f000000u));
  } else {
    u += 0xc8000fffu + ((u >> 13) & 1u);
    r.bits = (uint16_t)(sign | (u >> 13));
  }
  return r;
}

/// Rounds to nearest even. Values beyond the range and infinities become the largest value of the same sign (E4M3 has
/// no infinity).
WEFT_FN float8_e4m3fn to_float8_e4m3fn(float value) {
  uint32_t u = float_bits(value);
  const uint32_t sign = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  float8_e4m3fn r;
  if (u > 0x7f800000u) {
    r.bits = (uint8_t)(sign | 0x7fu);
  } else if (u > 0x43e00000u) {  // 448
    r.bits = (uint8_t)(sign | 0x7eu);
  } else if (u < 0x3c800000u) {  // below 2^-6: subnormal, adding 2^14 rounds at 2^-9
    const float shifted = float_from_bits(u) + 16384.0f;
    r.bits = (uint8_t)(sign | (float_bits(shifted) - 0x46800000u));
  } else {
    u += 0xc407ffffu + ((u >> 20) & 1u);
    r.bits = (uint8_t)(sign | (u >> 20));
  }
  return r;
}

/// Rounds to nearest even; values beyond the range become infinity.
WEFT_FN float8_e5m2 to_float8_e5m2(float value) {
  uint32_t u = float_bits(value);
  const uint32_t sign = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  float8_e5m2 r;
  if (u > 0x7f800000u) {
    r.bits = (uint8_t)(sign | 0x7fu);
  } else if (u >= 0x47800000u) {
    r.bits = (uint8_t)(sign | 0x7cu);
  } else if (u < 0x38800000u) {  // below 2^-14: subnormal, adding 2^7 rounds at 2^-16
    const float shifted = float_from_bits(u) + 128.0f;
    r.bits = (uint8_t)(sign | (float_bits(shifted) - 0x43000000u));
  } else {
    u += 0xc80fffffu + ((u >> 21) & 1u);
    r.bits = (uint8_t)(sign | (u >> 21));
  }
  return r;
}

/// Rounds to nearest even; values beyond the range and infinities become NaN.
WEFT_FN float8_e4m3fnuz to_float8_e4m3fnuz(float value) {
  uint32_t u = float_bits(value);
  const uint32_t sign = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  float8_e4m3fnuz r;
  if (u >= 0x43780000u) {  // 248, between 240 and 256
    r.bits = 0x80u;
    return r;
  }
  if (u < 0x3c000000u) {  // below 2^-7: subnormal, adding 2^13 rounds at 2^-10
    u = float_bits(float_from_bits(u) + 8192.0f) - 0x46000000u;
  } else {
    u = (u + 0xc487ffffu + ((u >> 20) & 1u)) >> 20;
  }
  r.bits = (uint8_t)(u == 0 ? 0 : sign | u);
  return r;
}

/// Rounds to nearest even; values beyond the range and infinities become NaN.
WEFT_FN float8_e5m2fnuz to_float8_e5m2fnuz(float value) {
  uint32_t u = float_bits(value);
  const uint32_t sign = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  float8_e5m2fnuz r;
  if (u >= 0x47700000u) {  // 61440, between 57344 and 65536
    r.bits = 0x80u;
    return r;
  }
  if (u < 0x38000000u) {  // below 2^-15: subnormal, adding 2^6 rounds at 2^-17
    u = float_bits(float_from_bits(u) + 64.0f) - 0x42800000u;
  } else {
    u = (u + 0xc88fffffu + ((u >> 21) & 1u)) >> 21;
  }
  r.bits = (uint8_t)(u == 0 ? 0 : sign | u);
  return r;
}

/// Rounds to the nearest power of two, ties to the larger one, and up between 2^-127 and 2^-126. Values that round
/// beyond 2^127 and infinities become NaN. The sign is dropped and 0 becomes 2^-127. All as in PyTorch and ONNX.
WEFT_FN float8_e8m0fnu to_float8_e8m0fnu(float value) {
  const uint32_t u = float_bits(value) & 0x7fffffffu;
  const uint32_t to_next = u < 0x800000u ? 0x3fffffu : 0x400000u;
  float8_e8m0fnu r;
  r.bits = (uint8_t)(u >= 0x7f800000u ? 0xffu : (u + to_next) >> 23);
  return r;
}

// ---- rounding to odd: an inexact result has its last bit set. Rounding it again, to 16 or 8 bits, then gives the
// correctly rounded exact value (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008) ----

#if !defined(__OPENCL_CPP_VERSION__) || defined(WEFT_HAS_DOUBLE)
/// The float towards 0 of x, with its last bit set if x is not exact.
WEFT_FN float odd_float(double x) {
  const float nearest = (float)x;
  const double back = (double)nearest;
  const uint32_t lost = back != x, beyond = x < 0 ? back < x : back > x;
  return float_from_bits((float_bits(nearest) - beyond) | lost);
}
#endif

/// As above, of an integer.
WEFT_FN float odd_float(uint64_t x) {
  float scale = 1;
  while ((x >> 24) != 0) {
    x = (x >> 8) | ((x & 0xffu) != 0);
    scale *= 256;
  }
  return (float)x * scale;
}

WEFT_FN float odd_float(int64_t x) { return x < 0 ? -odd_float((uint64_t)0 - (uint64_t)x) : odd_float((uint64_t)x); }

}  // namespace weft
