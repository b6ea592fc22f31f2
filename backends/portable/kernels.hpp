// The kernels of every device. Each file device/<family>.inc lists its kernels beside their entries; CUDA's lists, the
// SPIR-V modules and the names for the host side are generated from it. A listed kernel without a body, or a call of an
// unlisted one, does not compile. The pointwise kernels are the rows of functors/rows.hpp beside those here.
#pragma once

// Where they are compiled, by file and by the numbers that they compute with. CMake reads this, too.
// clang-format off
#define WEFT_PORTABLE_MODULES(X) \
  X(pointwise_f32) X(pointwise_f64) X(pointwise_i64) X(pointwise_u64) \
  X(reduce_f32) X(reduce_f64) X(reduce_i64) X(reduce_u64) \
  X(matmul_f32) X(matmul_f64) X(matmul_i64) \
  X(random_f32) X(random_f64) X(random_i64) \
  X(rows_f32) X(rows_f64) \
  X(attention_f32) X(attention_f64) X(network_f32) X(network_f64) \
  X(gather_f32) X(gather_f64) X(fourier_f32) X(fourier_f64) \
  X(move_any) X(index_any) X(quantize_any)
// clang-format on

// WEFT_<FAMILY>_KERNELS(X) calls X(name, numbers): `any` that the file is compiled for, or `floats` alone.
#define WEFT_NAMES_ONLY
#include "device/attention.inc"
#include "device/fourier.inc"
#include "device/gather.inc"
#include "device/index.inc"
#include "device/matmul.inc"
#include "device/move.inc"
#include "device/network.inc"
#include "device/pointwise.inc"
#include "device/quantize.inc"
#include "device/random.inc"
#include "device/reduce.inc"
#include "device/rows.inc"
#undef WEFT_NAMES_ONLY
