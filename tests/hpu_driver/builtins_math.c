// Floating-point functions, in float and double.
#include "builtins.h"

// MATH_1("3", exp): float exp(float) through expf, double exp(double) through exp.
#define MATH_1(length, name) MATH_1_AS(length, #name, name)
#define MATH_1_AS(length, ocl, name)                                     \
  BUILTIN(float, "_Z" length ocl "f", (float x), __builtin_##name##f(x)) \
  BUILTIN(double, "_Z" length ocl "d", (double x), __builtin_##name(x))
#define MATH_2(length, name) MATH_2_AS(length, #name, name)
#define MATH_2_AS(length, ocl, name)                                                  \
  BUILTIN(float, "_Z" length ocl "ff", (float x, float y), __builtin_##name##f(x, y)) \
  BUILTIN(double, "_Z" length ocl "dd", (double x, double y), __builtin_##name(x, y))

// An expression that serves both types; `type` names the one in hand.
#define FORMULA_1(name, ...) FORMULA_1_(float, "f", name, __VA_ARGS__) FORMULA_1_(double, "d", name, __VA_ARGS__)
#define FORMULA_1_(type, code, name, ...) BUILTIN(type, "_Z" name code, (type x), (type)(__VA_ARGS__))
#define FORMULA_2(name, ...) FORMULA_2_(float, "f", name, __VA_ARGS__) FORMULA_2_(double, "d", name, __VA_ARGS__)
#define FORMULA_2_(type, code, name, ...) BUILTIN(type, "_Z" name code code, (type x, type y), (type)(__VA_ARGS__))
#define FORMULA_3(name, ...) FORMULA_3_(float, "f", name, __VA_ARGS__) FORMULA_3_(double, "d", name, __VA_ARGS__)
#define FORMULA_3_(type, code, name, ...) \
  BUILTIN(type, "_Z" name code code code, (type x, type y, type z), (type)(__VA_ARGS__))

MATH_1("3", exp)
MATH_1("4", exp2)
MATH_1("5", expm1)
MATH_1("3", log)
MATH_1("4", log2)
MATH_1("5", log10)
MATH_1("5", log1p)
MATH_1("4", logb)
MATH_1("4", sqrt)
MATH_1("4", cbrt)
MATH_1("3", sin)
MATH_1("3", cos)
MATH_1("3", tan)
MATH_1("4", asin)
MATH_1("4", acos)
MATH_1("4", atan)
MATH_1("4", sinh)
MATH_1("4", cosh)
MATH_1("4", tanh)
MATH_1("5", asinh)
MATH_1("5", acosh)
MATH_1("5", atanh)
MATH_1("3", erf)
MATH_1("4", erfc)
MATH_1("6", tgamma)
MATH_1("5", floor)
MATH_1("4", ceil)
MATH_1("5", trunc)
MATH_1("5", round)
MATH_1("4", rint)
MATH_1("4", fabs)

MATH_2("3", pow)
MATH_2("5", atan2)
MATH_2("4", fmod)
MATH_2("9", remainder)
MATH_2("4", fmin)
MATH_2("4", fmax)
MATH_2("4", fdim)
MATH_2("5", hypot)
MATH_2("8", copysign)
MATH_2("9", nextafter)
MATH_2_AS("4", "powr", pow)

#define PI 3.14159265358979323846
#define DEGREES (180 / PI)

// Exact for both types: the float forms round a double result once.
static double sign_of(double x) {
  if (__builtin_isnan(x)) return 0;
  return x > 0 ? 1 : (x < 0 ? -1 : x);
}
static double larger_magnitude(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y);
  return a > b ? x : (b > a ? y : __builtin_fmax(x, y));
}
static double smaller_magnitude(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y);
  return a < b ? x : (b < a ? y : __builtin_fmin(x, y));
}
static double smoothstep_of(double low, double high, double x) {
  double t = (x - low) / (high - low);
  t = t < 0 ? 0 : (t > 1 ? 1 : t);
  return t * t * (3 - 2 * t);
}

FORMULA_1("4sign", sign_of(x))
FORMULA_1("7degrees", (x) * (__typeof__(x))DEGREES)
FORMULA_1("7radians", (x) / (__typeof__(x))DEGREES)
FORMULA_1("5sinpi", __builtin_sin(PI*(x - 2 * __builtin_rint(x / 2))))
FORMULA_1("5cospi", __builtin_cos(PI*(x - 2 * __builtin_rint(x / 2))))
FORMULA_1("5tanpi", __builtin_tan(PI*(x - __builtin_rint(x))))
FORMULA_1("6asinpi", __builtin_asin(x) / PI)
FORMULA_1("6acospi", __builtin_acos(x) / PI)
FORMULA_1("6atanpi", __builtin_atan(x) / PI)
FORMULA_2("3min", y < x ? y : x)
FORMULA_2("3max", x < y ? y : x)
FORMULA_2("4step", y < x ? 0 : 1)
FORMULA_2("6maxmag", larger_magnitude(x, y))
FORMULA_2("6minmag", smaller_magnitude(x, y))
FORMULA_3("3mad", (x) * (y) + z)
FORMULA_3("5clamp", x < y ? y : (z < x ? z : x))
FORMULA_3("3mix", x + (y - x) * z)
FORMULA_3("10smoothstep", smoothstep_of(x, y, z))
BUILTIN(float, "_Z5rsqrtf", (float x), 1 / __builtin_sqrtf(x))
BUILTIN(double, "_Z5rsqrtd", (double x), 1 / __builtin_sqrt(x))
BUILTIN(float, "_Z3fmafff", (float x, float y, float z), __builtin_fmaf(x, y, z))
BUILTIN(double, "_Z3fmaddd", (double x, double y, double z), __builtin_fma(x, y, z))
BUILTIN(float, "_Z3nanj", (uint payload), (void)payload, __builtin_nanf(""))
BUILTIN(double, "_Z3nanm", (ulong payload), (void)payload, __builtin_nan(""))

// The fast variants promise less, never more.
#define NATIVE(length_native, length_half, name)                                            \
  BUILTIN(float, "_Z" length_native "native_" #name "f", (float x), __builtin_##name##f(x)) \
  BUILTIN(float, "_Z" length_half "half_" #name "f", (float x), __builtin_##name##f(x))
NATIVE("10", "8", exp)
NATIVE("11", "9", exp2)
NATIVE("10", "8", log)
NATIVE("11", "9", log2)
NATIVE("12", "10", log10)
NATIVE("10", "8", sin)
NATIVE("10", "8", cos)
NATIVE("10", "8", tan)
NATIVE("11", "9", sqrt)
#define NATIVE_RECIPROCALS(prefix, rsqrt, recip, divide, powr)                   \
  BUILTIN(float, "_Z" rsqrt prefix "_rsqrtf", (float x), 1 / __builtin_sqrtf(x)) \
  BUILTIN(float, "_Z" recip prefix "_recipf", (float x), 1 / x)                  \
  BUILTIN(float, "_Z" divide prefix "_divideff", (float x, float y), x / y)      \
  BUILTIN(float, "_Z" powr prefix "_powrff", (float x, float y), __builtin_powf(x, y))
NATIVE_RECIPROCALS("native", "12", "12", "13", "11")
NATIVE_RECIPROCALS("half", "10", "10", "11", "9")

// Not known to the compiler by a builtin name.
extern float exp10f(float x);
extern double exp10(double x);
BUILTIN(float, "_Z5exp10f", (float x), exp10f(x))
BUILTIN(double, "_Z5exp10d", (double x), exp10(x))
BUILTIN(float, "_Z12native_exp10f", (float x), exp10f(x))

// Functions with an integer argument or result.
#define WITH_INTEGERS(type, code, suffix)                                                   \
  BUILTIN(type, "_Z5ldexp" code "i", (type x, int n), __builtin_ldexp##suffix(x, n))        \
  BUILTIN(type, "_Z4pown" code "i", (type x, int n), (type)__builtin_pow(x, n))             \
  BUILTIN(type, "_Z5rootn" code "i", (type x, int n),                                       \
          (type)(x < 0 && n % 2 ? -__builtin_pow(-x, 1.0 / n) : __builtin_pow(x, 1.0 / n))) \
  BUILTIN(int, "_Z5ilogb" code, (type x), __builtin_ilogb##suffix(x))
WITH_INTEGERS(float, "f", f)
WITH_INTEGERS(double, "d", )

// Predicates.
#define PREDICATES(type, code)                                                           \
  BUILTIN(int, "_Z5isnan" code, (type x), __builtin_isnan(x))                            \
  BUILTIN(int, "_Z5isinf" code, (type x), __builtin_isinf(x) != 0)                       \
  BUILTIN(int, "_Z8isfinite" code, (type x), __builtin_isfinite(x))                      \
  BUILTIN(int, "_Z8isnormal" code, (type x), __builtin_isnormal(x))                      \
  BUILTIN(int, "_Z7signbit" code, (type x), __builtin_signbit(x) != 0)                   \
  BUILTIN(int, "_Z7isequal" code code, (type x, type y), x == y)                         \
  BUILTIN(int, "_Z10isnotequal" code code, (type x, type y), x != y)                     \
  BUILTIN(int, "_Z9isgreater" code code, (type x, type y), x > y)                        \
  BUILTIN(int, "_Z14isgreaterequal" code code, (type x, type y), x >= y)                 \
  BUILTIN(int, "_Z6isless" code code, (type x, type y), x < y)                           \
  BUILTIN(int, "_Z11islessequal" code code, (type x, type y), x <= y)                    \
  BUILTIN(int, "_Z13islessgreater" code code, (type x, type y), x<y || x> y)             \
  BUILTIN(int, "_Z9isordered" code code, (type x, type y), !__builtin_isunordered(x, y)) \
  BUILTIN(int, "_Z11isunordered" code code, (type x, type y), __builtin_isunordered(x, y))
PREDICATES(float, "f")
PREDICATES(double, "d")

// lgamma goes through the reentrant form: the plain one writes a global.
extern float lgammaf_r(float x, int* sign);
extern double lgamma_r(double x, int* sign);
BUILTIN_BODY(float, "_Z6lgammaf", (float x), int sign; return lgammaf_r(x, &sign);)
BUILTIN_BODY(double, "_Z6lgammad", (double x), int sign; return lgamma_r(x, &sign);)

// Results through pointers, which may point into any address space.
#define THROUGH_POINTER(space, p, type, code, suffix)                                                            \
  BUILTIN_BODY(type, "_Z4modf" code p code, (type x, space type * whole), type w;                                \
               type part = __builtin_modf##suffix(x, &w); *whole = w; return part;)                              \
  BUILTIN_BODY(type, "_Z5fract" code p code, (type x, space type * whole), type w = __builtin_floor##suffix(x);  \
               *whole = w;                                                                                       \
               return __builtin_fmin##suffix(x - w, sizeof(type) == 4 ? 0x1.fffffep-1 : 0x1.fffffffffffffp-1);)  \
  BUILTIN_BODY(type, "_Z6sincos" code p code, (type x, space type * cosine), *cosine = __builtin_cos##suffix(x); \
               return __builtin_sin##suffix(x);)                                                                 \
  BUILTIN_BODY(type, "_Z5frexp" code p "i", (type x, space int* exponent), int e;                                \
               type part = __builtin_frexp##suffix(x, &e); *exponent = e; return part;)                          \
  BUILTIN_BODY(type, "_Z8lgamma_r" code p "i", (type x, space int* sign), int s = 1;                             \
               type value = lgamma##suffix##_r(x, &s); *sign = s; return value;)                                 \
  BUILTIN_BODY(type, "_Z6remquo" code code p "i", (type x, type y, space int* quotient), int q;                  \
               type rest = __builtin_remquo##suffix(x, y, &q); *quotient = q; return rest;)
FOR_EACH_POINTER(THROUGH_POINTER, float, "f", f)
FOR_EACH_POINTER(THROUGH_POINTER, double, "d", )
