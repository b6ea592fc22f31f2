#include "scratch_memory.hpp"

#include <fmt/format.h>

#include "../../queued/allocator.hpp"
#include "../../../tensor/error.hpp"

namespace weft::portable::host {

ScratchMemory::ScratchMemory(Accelerator& device, size_t bytes)
    : device_(device), bytes_(bytes), data_(device.allocator().allocate(bytes)) {
  if (data_ != nullptr) return;
  const MemoryStats s = device.allocator().stats();
  const CallPlace place = detail::current_call;
  throw OutOfMemoryError(
      format_error({.op = place.op != nullptr ? place.entry : "memory",
                    .problem = fmt::format("no {} bytes for intermediate results on {}", bytes, device.device().name()),
                    .details = fmt::format("{} allocated, {} reserved, {} free, limit {}", s.allocated, s.reserved,
                                           s.free, s.limit)},
                   place.where),
      bytes, s.allocated, s.reserved, s.limit);
}

ScratchMemory::~ScratchMemory() { device_.allocator().free(data_, bytes_); }

}  // namespace weft::portable::host
