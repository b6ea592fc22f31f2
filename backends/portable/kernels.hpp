// The kernels that every device has, named here and nowhere else: by file, where they are compiled, and by the numbers
// that they compute with. CUDA's lists, the SPIR-V modules and the names that the host side calls them by are made from
// this; what is named and not written, or called and not named, does not compile. Read by nvcc, by clang for OpenCL
// and, for the names of the modules, by CMake. The pointwise kernels are the rows of functors/rows.hpp beside those
// here.
#pragma once

// clang-format off
#define WEFT_PORTABLE_MODULES(X) \
  X(pointwise_f32) X(pointwise_f64) X(pointwise_i64) X(pointwise_u64) \
  X(reduce_f32) X(reduce_f64) X(reduce_i64) X(reduce_u64) \
  X(matmul_f32) X(matmul_f64) X(matmul_i64) \
  X(random_f32) X(random_f64) X(random_i64) \
  X(rows_f32) X(rows_f64) \
  X(move_any) X(index_any)

// X(name, numbers): `any` that the file is compiled for, or `floats` alone.
#define WEFT_POINTWISE_KERNELS(X) X(convert_real, floats) X(convert_whole, floats) X(adam, floats) X(sgd, floats)
#define WEFT_REDUCE_KERNELS(X) \
  X(reduce_sum, any) X(reduce_prod, any) X(reduce_max, any) X(reduce_min, any) X(reduce_any, any) X(reduce_all, any) \
  X(arg_reduce, any) X(cumsum, any) X(variance, floats) X(put_sum, any) X(put_prod, any) X(put_max, any) X(put_min, any)
#define WEFT_MATMUL_KERNELS(X) X(matmul_large, any) X(matmul_small, any)
#define WEFT_RANDOM_KERNELS(X) X(draw, any) X(arange, any)
#define WEFT_ROWS_KERNELS(X) \
  X(softmax, any) X(softmax_gradient, any) X(norm, any) X(norm_gradient, any) X(norm_columns, any) \
  X(cross_entropy, any) X(cross_entropy_gradient, any)
#define WEFT_MOVE_KERNELS(X) X(move, any) X(fill, any) X(where, any)
#define WEFT_INDEX_KERNELS(X) \
  X(index_select, any) X(gather, any) X(index_get, any) X(destinations, any) X(put_last, any) X(sort_keys, any) \
  X(sort_block, any) X(sort_merge, any) X(sorted, any) X(search, any) X(mask_count, any) X(nonzero, any) \
  X(masked_select, any) X(masked_scatter, any)
// clang-format on
