// Shorthand for defining OpenCL C builtins under their mangled names.
#pragma once

#include "kernel_abi.h"

typedef signed char schar;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __int128 wide;

// Replaced by the translator: the state of the running work-item, and a wait for its group.
WeftWorkState* weft_work_state(void);
void weft_work_barrier(void);

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

// BUILTIN(float, "_Z3expf", (float x), expression): a function of any C name with that symbol.
#define BUILTIN(type, symbol, parameters, ...) \
  BUILTIN_(CONCAT(builtin_, __COUNTER__), type, symbol, parameters, __VA_ARGS__)
#define BUILTIN_(name, type, symbol, parameters, ...) \
  type name parameters __asm__(symbol);               \
  __attribute__((always_inline)) type name parameters { return __VA_ARGS__; }

// BODY(...): the same with statements for a body.
#define BUILTIN_BODY(type, symbol, parameters, ...) \
  BUILTIN_BODY_(CONCAT(builtin_, __COUNTER__), type, symbol, parameters, __VA_ARGS__)
#define BUILTIN_BODY_(name, type, symbol, parameters, ...) \
  type name parameters __asm__(symbol);                    \
  __attribute__((always_inline)) type name parameters { __VA_ARGS__ }

// Integer types with their mangling: X(type, code, unsigned type, bits, minimum, maximum).
#define FOR_EACH_SIGNED(X)                             \
  X(schar, "c", uchar, 8, -128, 127)                   \
  X(short, "s", ushort, 16, -32768, 32767)             \
  X(int, "i", uint, 32, (-2147483647 - 1), 2147483647) \
  X(long, "l", ulong, 64, (-9223372036854775807 - 1), 9223372036854775807)
#define FOR_EACH_UNSIGNED(X)             \
  X(uchar, "h", uchar, 8, 0, 255)        \
  X(ushort, "t", ushort, 16, 0, 65535)   \
  X(uint, "j", uint, 32, 0, 4294967295u) \
  X(ulong, "m", ulong, 64, 0, 18446744073709551615u)
#define FOR_EACH_INTEGER(X) FOR_EACH_SIGNED(X) FOR_EACH_UNSIGNED(X)

// Address spaces of pointer arguments: X(qualifier, mangling).
#define AS(n) __attribute__((address_space(n)))
#define FOR_EACH_POINTER(X, ...)  \
  X(AS(0), "P", __VA_ARGS__)      \
  X(AS(1), "PU3AS1", __VA_ARGS__) \
  X(AS(3), "PU3AS3", __VA_ARGS__) \
  X(AS(4), "PU3AS4", __VA_ARGS__)
