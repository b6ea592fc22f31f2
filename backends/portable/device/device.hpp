// The dialect of portable kernels: one text for nvcc and for clang's C++ for OpenCL, which becomes SPIR-V.
//
// A kernel is WEFT_KERNEL WEFT_NAMED(name)(...) in a file *.inc, which is compiled once for each number type it
// computes in: WEFT_NUMBER is float, double, int64_t or uint64_t, WEFT_SUFFIX names it. The list at the file's top has
// its name (../kernels.hpp), its body is a template in the header beside it. All operands are addresses of bytes; plans
// (plan.hpp) tell their layouts and are passed by value.
#pragma once

#include "../plan.hpp"

#define WEFT_JOIN_(a, b) a##_##b
#define WEFT_JOIN(a, b) WEFT_JOIN_(a, b)
#define WEFT_NAMED(name) WEFT_JOIN(name, WEFT_SUFFIX)

#if defined(__OPENCL_CPP_VERSION__)

#pragma OPENCL EXTENSION __cl_clang_non_portable_kernel_param_types : enable
#pragma OPENCL FP_CONTRACT OFF
#define WEFT_KERNEL __kernel void
#define WEFT_DEVICE inline
#define WEFT_GLOBAL __global
#define WEFT_LOCAL __local
#define WEFT_UNROLL _Pragma("unroll")

namespace weft::portable {
WEFT_DEVICE void weft_barrier() { barrier(CLK_LOCAL_MEM_FENCE); }
WEFT_DEVICE int64_t weft_item() { return (int64_t)get_global_id(0); }
WEFT_DEVICE int weft_local(uint32_t d) { return (int)get_local_id(d); }
WEFT_DEVICE int weft_local_size(uint32_t d) { return (int)get_local_size(d); }
WEFT_DEVICE int64_t weft_group(uint32_t d) { return (int64_t)get_group_id(d); }
}  // namespace weft::portable

#elif defined(__CUDACC__)

#define WEFT_KERNEL __global__ void
#define WEFT_DEVICE __device__ __forceinline__
#define WEFT_GLOBAL
#define WEFT_LOCAL
#define WEFT_UNROLL _Pragma("unroll")

namespace weft::portable {
WEFT_DEVICE void weft_barrier() { __syncthreads(); }
WEFT_DEVICE int64_t weft_item() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
WEFT_DEVICE int weft_local(int d) { return d == 0 ? threadIdx.x : (d == 1 ? threadIdx.y : threadIdx.z); }
WEFT_DEVICE int weft_local_size(int d) { return d == 0 ? blockDim.x : (d == 1 ? blockDim.y : blockDim.z); }
WEFT_DEVICE int64_t weft_group(int d) { return d == 0 ? blockIdx.x : (d == 1 ? blockIdx.y : blockIdx.z); }
}  // namespace weft::portable

#else
#error "portable kernels are compiled by nvcc or by clang for OpenCL"
#endif

// Work-group memory, declared at the top of a kernel.
#if defined(__OPENCL_CPP_VERSION__)
#define WEFT_SHARED(type, name, count) __local type name[count]
#else
#define WEFT_SHARED(type, name, count) __shared__ type name[count]
#endif

namespace weft::portable {

typedef WEFT_GLOBAL char* Out;
typedef const WEFT_GLOBAL char* In;

template <class T>
WEFT_DEVICE T peek(In p) {
  return *(const WEFT_GLOBAL T*)p;
}
template <class T>
WEFT_DEVICE void poke(Out p, T value) {
  *(WEFT_GLOBAL T*)p = value;
}

/// a / b of numbers that are not negative.
WEFT_DEVICE int64_t quotient(int64_t a, int64_t b) {
  return ((uint64_t)a | (uint64_t)b) >> 32 == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/// The row-major coordinates of position i in blocks of these sizes; returns which block.
WEFT_DEVICE int64_t take_apart(int64_t i, const int64_t (&sizes)[3], int64_t (&at)[3]) {
  for (int d = 2; d >= 0; --d) {
    const int64_t next = quotient(i, sizes[d]);
    at[d] = i - next * sizes[d];
    i = next;
  }
  return i;
}

/// The byte offsets of N operands, or of the first few, at a row-major position.
template <class Index, int N>
WEFT_DEVICE void walk_by(const Walk<N>& walk, Index position, int64_t* offset, int operands) {
  for (int k = 0; k < operands; ++k) offset[k] = 0;
  WEFT_UNROLL
  for (int d = 0; d < max_rank; ++d) {
    if (d < walk.rank) {
      Index at = position;
      if (d + 1 < walk.rank) {
        position = at / (Index)walk.sizes[d];
        at -= position * (Index)walk.sizes[d];
      }
      for (int k = 0; k < operands; ++k) offset[k] += (int64_t)at * walk.strides[k][d];
    }
  }
}
template <int N>
WEFT_DEVICE void offsets_at(const Walk<N>& walk, int64_t position, int64_t* offset, int operands = N) {
  if (walk.count <= 0x7fffffff) walk_by<uint32_t>(walk, (uint32_t)position, offset, operands);
  else walk_by<int64_t>(walk, position, offset, operands);
}

// ---- elements as numbers --------------------------------------------------------------------------------------------

/// Rounds toward zero; values out of range give the lowest number, as on the CPU.
template <class Whole, class Real>
WEFT_DEVICE Whole whole_of(Real x, Real limit, Whole lowest) {
  return x >= -limit && x < limit ? (Whole)x : lowest;
}
template <class Real>
WEFT_DEVICE int64_t to_i64(Real x) {
  return whole_of<int64_t>(x, (Real)9223372036854775808.0f, (int64_t)((uint64_t)1 << 63));
}
template <class Real>
WEFT_DEVICE int32_t to_i32(Real x) {
  return whole_of<int32_t>(x, (Real)2147483648.0f, (int32_t)0x80000000u);
}
template <class Real>
WEFT_DEVICE uint64_t to_u64(Real x) {
  const Real half_range = (Real)9223372036854775808.0f;
  if (x >= half_range && x < half_range + half_range) return (uint64_t)to_i64(x - half_range) | (uint64_t)1 << 63;
  return (uint64_t)to_i64(x);
}

WEFT_DEVICE int64_t load_whole(In p, DType t) {
  switch (t) {
    case DType::boolean:
      return peek<uint8_t>(p) != 0;
    case DType::u8:
      return peek<uint8_t>(p);
    case DType::i8:
      return peek<int8_t>(p);
    case DType::u16:
      return peek<uint16_t>(p);
    case DType::i16:
      return peek<int16_t>(p);
    case DType::u32:
      return peek<uint32_t>(p);
    case DType::i32:
      return peek<int32_t>(p);
    default:
      return peek<int64_t>(p);
  }
}
/// Wraps; bool is whether x is not zero.
WEFT_DEVICE void store_whole(Out p, DType t, int64_t x) {
  switch (t) {
    case DType::boolean:
      return poke<uint8_t>(p, x != 0);
    case DType::u8:
    case DType::i8:
      return poke<uint8_t>(p, (uint8_t)x);
    case DType::u16:
    case DType::i16:
      return poke<uint16_t>(p, (uint16_t)x);
    case DType::u32:
    case DType::i32:
      return poke<uint32_t>(p, (uint32_t)x);
    default:
      return poke<int64_t>(p, x);
  }
}

WEFT_DEVICE float load_small_float(In p, DType t) {
  if (t == DType::f16) {
    float16 x;
    x.bits = peek<uint16_t>(p);
    return to_float(x);
  }
  if (t == DType::bf16) {
    bfloat16 x;
    x.bits = peek<uint16_t>(p);
    return to_float(x);
  }
  if (t == DType::f8_e4m3fn) {
    float8_e4m3fn x;
    x.bits = peek<uint8_t>(p);
    return to_float(x);
  }
  float8_e5m2 x;
  x.bits = peek<uint8_t>(p);
  return to_float(x);
}
WEFT_DEVICE void store_small_float(Out p, DType t, float x) {
  if (t == DType::f16) poke<uint16_t>(p, to_float16(x).bits);
  else if (t == DType::bf16) poke<uint16_t>(p, to_bfloat16(x).bits);
  else if (t == DType::f8_e4m3fn) poke<uint8_t>(p, to_float8_e4m3fn(x).bits);
  else poke<uint8_t>(p, to_float8_e5m2(x).bits);
}

/// How elements of any suitable dtype become numbers of type C and back.
template <class C>
struct Memory;

template <>
struct Memory<float> {
  static WEFT_DEVICE float load(In p, DType t) { return t == DType::f32 ? peek<float>(p) : load_small_float(p, t); }
  static WEFT_DEVICE void store(Out p, DType t, float x) {
    if (t == DType::f32) poke<float>(p, x);
    else if (t == DType::boolean) poke<uint8_t>(p, x != 0);
    else store_small_float(p, t, x);
  }
};

template <>
struct Memory<int64_t> {
  static WEFT_DEVICE int64_t load(In p, DType t) { return load_whole(p, t); }
  static WEFT_DEVICE void store(Out p, DType t, int64_t x) { store_whole(p, t, x); }
};

template <>
struct Memory<uint64_t> {
  static WEFT_DEVICE uint64_t load(In p, DType t) { return (uint64_t)load_whole(p, t); }
  static WEFT_DEVICE void store(Out p, DType t, uint64_t x) { store_whole(p, t, (int64_t)x); }
};

#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
template <>
struct Memory<double> {
  static WEFT_DEVICE double load(In p, DType t) {
    return t == DType::f64 ? peek<double>(p) : (double)Memory<float>::load(p, t);
  }
  static WEFT_DEVICE void store(Out p, DType t, double x) {
    if (t == DType::f64) poke<double>(p, x);
    else if (t == DType::boolean) poke<uint8_t>(p, x != 0);
    else Memory<float>::store(p, t, t == DType::f32 ? (float)x : odd_float(x));
  }
};
#endif

// ---- bad indices ----------------------------------------------------------------------------------------------------

/// Remembers the index for the host, which raises IndexError at its next wait. The first report stays.
WEFT_DEVICE void report_index(WEFT_GLOBAL BadIndex* bad, const IndexCheck& check, int64_t index, int64_t size) {
  if (bad->call != 0) return;
  bad->index = index;
  bad->size = size;
  bad->dim = check.dim;
  bad->wraps = check.wraps;
  bad->call = check.call;
}

/// The index from the beginning; one that is out of range is reported and becomes -1.
WEFT_DEVICE int64_t checked_index(int64_t index, int64_t size, const IndexCheck& check, WEFT_GLOBAL BadIndex* bad) {
  const int64_t wrapped = index < 0 && check.wraps != 0 ? index + size : index;
  if (wrapped >= 0 && wrapped < size) return wrapped;
  report_index(bad, check, index, size);
  return -1;
}

}  // namespace weft::portable
