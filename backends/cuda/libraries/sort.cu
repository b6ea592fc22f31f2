#include "sort.hpp"

#include <cub/device/device_radix_sort.cuh>

namespace weft::cuda {

cudaError_t radix_sort(void* memory, size_t& bytes_needed, const uint64_t* keys, uint64_t* keys_out,
                       const int64_t* order, int64_t* order_out, int64_t count, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(memory, bytes_needed, keys, keys_out, order, order_out, count, 0, bits,
                                         stream);
}

}  // namespace weft::cuda
