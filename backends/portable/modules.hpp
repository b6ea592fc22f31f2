// The files of kernels, each compiled for some number types. Read by nvcc too.
#pragma once

// clang-format off
#define WEFT_PORTABLE_MODULES(X) \
  X(pointwise_f32) X(pointwise_f64) X(pointwise_i64) X(pointwise_u64) \
  X(reduce_f32) X(reduce_f64) X(reduce_i64) X(reduce_u64) \
  X(matmul_f32) X(matmul_f64) X(matmul_i64) \
  X(random_f32) X(random_f64) X(random_i64) \
  X(rows_f32) X(rows_f64) \
  X(move_any) X(index_any)
// clang-format on
