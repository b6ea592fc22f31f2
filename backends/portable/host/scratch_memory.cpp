#include "scratch_memory.hpp"

#include "../../queued/allocator.hpp"
#include "../../../tensor/large_storage.hpp"

namespace weft::portable::host {

ScratchMemory::ScratchMemory(Accelerator& device, size_t bytes)
    : device_(device), bytes_(bytes), data_(device.allocator().allocate(bytes)) {
  if (data_ == nullptr) detail::raise_out_of_memory(device.device(), bytes, " for intermediate results");
}

ScratchMemory::~ScratchMemory() { device_.allocator().free(data_, bytes_); }

}  // namespace weft::portable::host
