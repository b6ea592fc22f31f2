// The radix sort that replaces CUB's, which needs a GPU.
#include <algorithm>
#include <numeric>
#include <vector>

#include "stand_in.hpp"
#include "../../backends/cuda/libraries/sort.hpp"

namespace weft::cuda {

cudaError_t radix_sort(void* memory, size_t& bytes_needed, const uint64_t* keys, uint64_t* keys_out,
                       const int64_t* order, int64_t* order_out, int64_t count, int bits, cudaStream_t stream) {
  constexpr size_t bytes = 1000;
  if (memory == nullptr) {
    bytes_needed = bytes;
    return cudaSuccess;
  }
  if (bytes_needed < bytes || bits < 1 || bits > 64) return cudaErrorInvalidValue;
  const bool queued = testing::run_on(stream, [=] {
    const uint64_t mask = ~uint64_t{0} >> (64 - bits);
    std::vector<int64_t> places(static_cast<size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(),
                     [&](int64_t a, int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (size_t i = 0; i < places.size(); ++i) keys_out[i] = keys[places[i]], order_out[i] = order[places[i]];
  });
  return queued ? cudaSuccess : cudaErrorUnknown;
}

}  // namespace weft::cuda
