// Integer functions, select and the conversions that are calls.
#include "builtins.h"

#define INTEGER_FUNCTIONS(type, code, utype, bits, low, high)                                                    \
  BUILTIN(type, "_Z3min" code code, (type x, type y), y < x ? y : x)                                             \
  BUILTIN(type, "_Z3max" code code, (type x, type y), x < y ? y : x)                                             \
  BUILTIN(type, "_Z5clamp" code code code, (type x, type y, type z), x < y ? y : (z < x ? z : x))                \
  BUILTIN(utype, "_Z3abs" code, (type x), x < 0 ? (utype)(0 - (utype)x) : (utype)x)                              \
  BUILTIN(utype, "_Z8abs_diff" code code, (type x, type y),                                                      \
          x < y ? (utype)((utype)y - (utype)x) : (utype)((utype)x - (utype)y))                                   \
  BUILTIN(type, "_Z6mul_hi" code code, (type x, type y), (type)(((wide_##type)x * (wide_##type)y) >> bits))      \
  BUILTIN(type, "_Z6mad_hi" code code code, (type x, type y, type z),                                            \
          (type)((utype)(((wide_##type)x * (wide_##type)y) >> bits) + (utype)z))                                 \
  BUILTIN(type, "_Z4hadd" code code, (type x, type y), (type)(((wide)x + y) >> 1))                               \
  BUILTIN(type, "_Z5rhadd" code code, (type x, type y), (type)(((wide)x + y + 1) >> 1))                          \
  BUILTIN_BODY(type, "_Z7add_sat" code code, (type x, type y), wide sum = (wide)x + y;                           \
               return (type)(sum < low    ? low                                                                  \
                             : sum > high ? high                                                                 \
                                          : sum);)                                                               \
  BUILTIN_BODY(type, "_Z7sub_sat" code code, (type x, type y), wide difference = (wide)x - y;                    \
               return (type)(difference < low    ? low                                                           \
                             : difference > high ? high                                                          \
                                                 : difference);)                                                 \
  BUILTIN_BODY(type, "_Z6rotate" code code, (type x, type y), uint n = (uint)y & (bits - 1); utype u = (utype)x; \
               return (type)(n ? (utype)(u << n) | (utype)(u >> (bits - n)) : u);)                               \
  BUILTIN(type, "_Z8popcount" code, (type x), (type)__builtin_popcountl((utype)x))                               \
  BUILTIN(type, "_Z3clz" code, (type x), (type)((utype)x ? __builtin_clzl((utype)x) - (64 - bits) : bits))       \
  BUILTIN(type, "_Z3ctz" code, (type x), (type)((utype)x ? __builtin_ctzl((utype)x) : bits))

typedef long wide_schar, wide_short, wide_int, wide_uchar, wide_ushort;
typedef ulong wide_uint;
typedef __int128 wide_long;
typedef unsigned __int128 wide_ulong;
FOR_EACH_INTEGER(INTEGER_FUNCTIONS)

BUILTIN(int, "_Z5mul24ii", (int x, int y), (int)((uint)x*(uint)y))
BUILTIN(uint, "_Z5mul24jj", (uint x, uint y), (x) * (y))
BUILTIN(int, "_Z5mad24iii", (int x, int y, int z), (int)((uint)x*(uint)y + (uint)z))
BUILTIN(uint, "_Z5mad24jjj", (uint x, uint y, uint z), (x) * (y) + z)

// select(a, b, c) of scalars is c ? b : a; masks come signed or unsigned.
#define SELECT(type, code, mask, mask_code) \
  BUILTIN(type, "_Z6select" code code mask_code, (type a, type b, mask c), c ? b : a)
SELECT(schar, "c", schar, "c")
SELECT(schar, "c", uchar, "h")
SELECT(uchar, "h", schar, "c")
SELECT(uchar, "h", uchar, "h")
SELECT(short, "s", short, "s")
SELECT(short, "s", ushort, "t")
SELECT(ushort, "t", short, "s")
SELECT(ushort, "t", ushort, "t")
SELECT(int, "i", int, "i")
SELECT(int, "i", uint, "j")
SELECT(uint, "j", int, "i")
SELECT(uint, "j", uint, "j")
SELECT(long, "l", long, "l")
SELECT(long, "l", ulong, "m")
SELECT(ulong, "m", long, "l")
SELECT(ulong, "m", ulong, "m")
SELECT(float, "f", int, "i")
SELECT(float, "f", uint, "j")
SELECT(double, "d", long, "l")
SELECT(double, "d", ulong, "m")

// Conversions: saturated between integers, saturated or rounded from floating point.
#define SATURATE(type, length, name, low, high, from, from_code)        \
  BUILTIN(type, "_Z" length "convert_" name "_sat" from_code, (from x), \
          (type)((wide)x < (wide)low ? low : ((wide)x > (wide)high ? high : (type)x)))
#define SATURATE_REAL(type, symbol, low, high, from, rounded)                                                      \
  BUILTIN_BODY(type, symbol, (from x), double v = rounded; if (v != v) return 0; if (v <= (double)low) return low; \
               if (v >= (double)high) return high; return (type)v;)
#define CONVERT_REAL(type, length, long_length, name, low, high, from, code)                                 \
  SATURATE_REAL(type, "_Z" length "convert_" name "_sat" code, low, high, from, x)                           \
  SATURATE_REAL(type, "_Z" long_length "convert_" name "_sat_rte" code, low, high, from, __builtin_rint(x))  \
  SATURATE_REAL(type, "_Z" long_length "convert_" name "_sat_rtz" code, low, high, from, x)                  \
  SATURATE_REAL(type, "_Z" long_length "convert_" name "_sat_rtn" code, low, high, from, __builtin_floor(x)) \
  SATURATE_REAL(type, "_Z" long_length "convert_" name "_sat_rtp" code, low, high, from, __builtin_ceil(x))  \
  BUILTIN(type, "_Z" length "convert_" name "_rte" code, (from x), (type)__builtin_rint(x))                  \
  BUILTIN(type, "_Z" length "convert_" name "_rtz" code, (from x), (type)x)                                  \
  BUILTIN(type, "_Z" length "convert_" name "_rtn" code, (from x), (type)__builtin_floor(x))                 \
  BUILTIN(type, "_Z" length "convert_" name "_rtp" code, (from x), (type)__builtin_ceil(x))
#define CONVERT_TO(type, length, long_length, name, low, high)         \
  SATURATE(type, length, name, low, high, schar, "c")                  \
  SATURATE(type, length, name, low, high, uchar, "h")                  \
  SATURATE(type, length, name, low, high, short, "s")                  \
  SATURATE(type, length, name, low, high, ushort, "t")                 \
  SATURATE(type, length, name, low, high, int, "i")                    \
  SATURATE(type, length, name, low, high, uint, "j")                   \
  SATURATE(type, length, name, low, high, long, "l")                   \
  SATURATE(type, length, name, low, high, ulong, "m")                  \
  CONVERT_REAL(type, length, long_length, name, low, high, float, "f") \
  CONVERT_REAL(type, length, long_length, name, low, high, double, "d")

CONVERT_TO(schar, "16", "20", "char", -128, 127)
CONVERT_TO(uchar, "17", "21", "uchar", 0, 255)
CONVERT_TO(short, "17", "21", "short", -32768, 32767)
CONVERT_TO(ushort, "18", "22", "ushort", 0, 65535)
CONVERT_TO(int, "15", "19", "int", (-2147483647 - 1), 2147483647)
CONVERT_TO(uint, "16", "20", "uint", 0, 4294967295u)
CONVERT_TO(long, "16", "20", "long", (-9223372036854775807 - 1), 9223372036854775807)
CONVERT_TO(ulong, "17", "21", "ulong", 0, 18446744073709551615u)

// To floating point, to nearest (the only mode that is not already exact or an instruction).
#define NEAREST(from, code)                                        \
  BUILTIN(float, "_Z17convert_float_rte" code, (from x), (float)x) \
  BUILTIN(double, "_Z18convert_double_rte" code, (from x), (double)x)
NEAREST(schar, "c")
NEAREST(uchar, "h")
NEAREST(short, "s")
NEAREST(ushort, "t")
NEAREST(int, "i")
NEAREST(uint, "j")
NEAREST(long, "l")
NEAREST(ulong, "m")
NEAREST(float, "f")
NEAREST(double, "d")
