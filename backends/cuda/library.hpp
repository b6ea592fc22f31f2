// cuBLASLt, opened at the first matrix product: linked, its half a gigabyte would slow every program's start.
#pragma once

#include <cublasLt.h>

#include "device.hpp"

namespace weft::cuda {

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

/// The functions, or nullptr where the library is not found. Asks once.
const LtApi* find_lt();
/// As above, once it is known to be there.
inline const LtApi& lt() { return *find_lt(); }

inline void check(cublasStatus_t status, const char* function, int device) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    raise_failure(function, static_cast<int>(status), lt().cublasLtGetStatusString(status), device);
}
#define WEFT_LT(device, function, ...) ::weft::cuda::check(::weft::cuda::lt().function(__VA_ARGS__), #function, device)

}  // namespace weft::cuda
