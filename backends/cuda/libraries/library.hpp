// NVIDIA's libraries, opened at their first use: linked, their gigabyte would slow every program's start.
#pragma once

#include <cublasLt.h>

#include "../device.hpp"
#if WEFT_HAS_CUDNN
#include <cudnn_graph.h>
#endif

namespace weft::cuda {

// ---- cuBLASLt, for matrix products ----------------------------------------------------------------------------------

// clang-format off
#define WEFT_LT_FUNCTIONS(X) \
  X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetStatusString) X(cublasLtMatmul) X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)
// clang-format on

struct LtApi {
#define WEFT_LT_POINTER(name) decltype(&::name) name;
  WEFT_LT_FUNCTIONS(WEFT_LT_POINTER)
#undef WEFT_LT_POINTER
};

/// The functions, or nullptr if the library is not found. The result is cached.
const LtApi* find_lt();
/// As above, once it is known to be there.
inline const LtApi& lt() { return *find_lt(); }

inline void check(cublasStatus_t status, const char* function, int device) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    raise_failure(function, static_cast<int>(status), lt().cublasLtGetStatusString(status), device);
}
/// WEFT_LT(device, function, arguments) calls and checks.
#define WEFT_LT(device, function, ...) ::weft::cuda::check(::weft::cuda::lt().function(__VA_ARGS__), #function, device)

// ---- cuDNN, for convolutions and attention --------------------------------------------------------------------------
#if WEFT_HAS_CUDNN

// clang-format off
#define WEFT_DNN_FUNCTIONS(X) \
  X(cudnnGetVersion) X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetErrorString) \
  X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendFinalize) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) \
  X(cudnnBackendExecute)
// clang-format on

struct DnnApi {
#define WEFT_DNN_POINTER(name) decltype(&::name) name;
  WEFT_DNN_FUNCTIONS(WEFT_DNN_POINTER)
#undef WEFT_DNN_POINTER
};

/// The functions, or nullptr if the library is not found or WEFT_CUDNN=0 selects Weft's own kernels. The result is
/// cached.
const DnnApi* find_dnn();
/// As above, once it is known to be there.
inline const DnnApi& dnn() { return *find_dnn(); }

inline void check(cudnnStatus_t status, const char* function, int device) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    raise_failure(function, static_cast<int>(status), dnn().cudnnGetErrorString(status), device);
}
/// WEFT_DNN(device, function, arguments) calls and checks.
#define WEFT_DNN(device, function, ...) \
  ::weft::cuda::check(::weft::cuda::dnn().function(__VA_ARGS__), #function, device)

#endif

}  // namespace weft::cuda
