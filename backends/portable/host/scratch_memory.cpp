#include "scratch_memory.hpp"

#include "command_notes.hpp"
#include "../../queued/allocator.hpp"
#include "../../../tensor/large_storage.hpp"

namespace weft::portable::host {

ScratchMemory::ScratchMemory(Accelerator& device, size_t bytes)
    : device_(device),
      bytes_(bytes),
      noted_(notes_of(device.queue())),
      data_(noted_ != nullptr ? noted_->resources->take_scratch(bytes) : device.allocator().allocate(bytes)) {
  if (data_ == nullptr) detail::raise_out_of_memory(device.device(), bytes, " for intermediate results");
}

ScratchMemory::~ScratchMemory() {
  if (noted_ != nullptr) noted_->resources->return_scratch(data_);
  else device_.allocator().free(data_, bytes_);
}

}  // namespace weft::portable::host
