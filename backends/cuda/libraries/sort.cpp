#include "sort.hpp"

#include "../queue.hpp"
#include "../../portable/host/scratch_memory.hpp"

namespace weft::cuda {

bool CudaDevice::sort_pairs(const portable::host::PairsToSort& pairs) {
  constexpr int64_t least_length = int64_t{1} << 16;  // merging takes as many passes there as the digits of a key
  constexpr int64_t most_lines = 64;
  if (pairs.length < least_length || pairs.lines > most_lines) return false;
  auto& stream_queue = static_cast<CudaQueue&>(queue());
  const CurrentDevice current(index());
  const auto sort_line = [pairs](int64_t line, void* memory, size_t& bytes, cudaStream_t stream) {
    const int64_t first = line * pairs.length;
    return radix_sort(memory, bytes, pairs.keys + first, pairs.keys_out + first, pairs.order + first,
                      pairs.order_out + first, pairs.length, pairs.bits, stream);
  };
  size_t bytes = 0;
  check(sort_line(0, nullptr, bytes, stream_queue.stream()), "cub::DeviceRadixSort::SortPairs", index());
  const portable::host::ScratchMemory memory(*this, bytes);
  stream_queue.run_library([=, this, data = memory.data()](cudaStream_t stream) {
    for (int64_t line = 0; line < pairs.lines; ++line) {
      size_t same = bytes;
      check(sort_line(line, data, same, stream), "cub::DeviceRadixSort::SortPairs", index());
    }
  });
  return true;
}

}  // namespace weft::cuda
