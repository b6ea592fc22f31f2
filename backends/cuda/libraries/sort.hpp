// CUB's radix sort. Included by sort.cu too, so no header that nvcc cannot read may be included here.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace weft::cuda {

/// Sorts `count` pairs by the lowest `bits` bits of their keys; equal ones keep their order. `memory` has the bytes
/// that the same call with null tells in `bytes_needed`.
cudaError_t radix_sort(void* memory, size_t& bytes_needed, const uint64_t* keys, uint64_t* keys_out,
                       const int64_t* order, int64_t* order_out, int64_t count, int bits, cudaStream_t stream);

}  // namespace weft::cuda
