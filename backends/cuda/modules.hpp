// The portable kernels as nvcc compiled them: a list for each family and number type. Included by .cu files too, so no
// header that nvcc cannot read may be included here.
#pragma once

namespace weft::cuda {

struct KernelEntry {
  const char* name;      ///< null at a list's end
  const void* function;  ///< as cudaLaunchKernel takes it
};

// In the order of portable::Module.
// clang-format off
#define WEFT_CUDA_MODULES(X) \
  X(pointwise_f32) X(pointwise_f64) X(pointwise_i64) \
  X(reduce_f32) X(reduce_f64) X(reduce_i64) \
  X(matmul_f32) X(matmul_f64) X(matmul_i64) \
  X(random_f32) X(random_f64) X(random_i64) \
  X(rows_f32) X(rows_f64) \
  X(move_any)
// clang-format on
#define WEFT_MODULE(name) extern const KernelEntry name##_kernels[];
WEFT_CUDA_MODULES(WEFT_MODULE)
#undef WEFT_MODULE

// For the .cu files, after a portable *.inc: a list's rows.
#define WEFT_TEXT_(x) #x
#define WEFT_TEXT(x) WEFT_TEXT_(x)
#define WEFT_ENTRY(name) {WEFT_TEXT(WEFT_NAMED(name)), reinterpret_cast<const void*>(portable::WEFT_NAMED(name))},
#define WEFT_LIST(family) extern const KernelEntry WEFT_JOIN(WEFT_JOIN(family, WEFT_SUFFIX), kernels)[]

}  // namespace weft::cuda
