#include "command_notes.hpp"

#include "accelerator.hpp"
#include "../../queued/allocator.hpp"
#include "../../watch/recorded_kernel.hpp"

namespace weft::portable::host {

constinit thread_local CommandNotes* command_notes = nullptr;

CommandResources::~CommandResources() {
  if (!index_calls_.empty()) {
    try {
      queue_.drain();
    } catch (...) {  // the device is lost
    }
    queue_.release_index_calls(index_calls_);
  }
  for (const Block& block : blocks_) queue_.accelerator().allocator().free(block.data, block.bytes);
}

void* CommandResources::take_scratch(size_t bytes) {
  for (Block& block : blocks_) {
    if (block.used || block.bytes < bytes) continue;
    block.used = true;
    return block.data;
  }
  blocks_.reserve(blocks_.size() + 1);
  void* const data = queue_.accelerator().allocator().allocate(bytes);
  if (data != nullptr) blocks_.push_back({data, bytes, true});
  return data;
}

void CommandResources::return_scratch(void* data) noexcept {
  for (Block& block : blocks_) block.used &= block.data != data;
}

uint32_t CommandResources::take_index_call() {
  index_calls_.reserve(index_calls_.size() + 1);
  index_calls_.push_back(queue_.hold_index_call());
  return index_calls_.back();
}

namespace {

class NotingScope {
 public:
  explicit NotingScope(CommandNotes& notes) { command_notes = &notes; }
  ~NotingScope() { command_notes = nullptr; }
  NotingScope(const NotingScope&) = delete;
};

class DeviceNotes final : public KernelNotes {
 public:
  explicit DeviceNotes(DeviceQueue& queue) : queue_(queue), notes_(queue) {}

  bool run(RecordedKernel& kernel) override {
    const auto before = static_cast<std::ptrdiff_t>(notes_.commands.size());
    {
      const NotingScope scope(notes_);
      kernel.run();
    }
    if (!std::exchange(notes_.refused, false)) return true;
    notes_.commands.erase(notes_.commands.begin() + before, notes_.commands.end());
    return false;
  }

  std::unique_ptr<CommandBatch> batch() override {
    return queue_.make_batch(std::exchange(notes_, CommandNotes(queue_)));
  }

 private:
  DeviceQueue& queue_;
  CommandNotes notes_;
};

}  // namespace

void DeviceQueue::note_launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) const {
  if (CommandNotes* const notes = notes_of(*this)) {
    notes->commands.emplace_back(NotedLaunch{&kernel, grid, KeptArguments(arguments, count)});
  }
}

void DeviceQueue::note_copy(void* to, const void* from, size_t bytes) const {
  if (CommandNotes* const notes = notes_of(*this)) notes->commands.emplace_back(NotedCopy{to, from, bytes});
}

void DeviceQueue::note_fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) const {
  CommandNotes* const notes = notes_of(*this);
  if (notes == nullptr) return;
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_bytes);
  notes->commands.emplace_back(NotedFill{to, value, pattern_bytes, bytes});
}

void DeviceQueue::refuse_notes() noexcept {
  if (command_notes != nullptr) command_notes->refused = true;
}

std::unique_ptr<KernelNotes> note_kernels_of(DeviceQueue& queue) { return std::make_unique<DeviceNotes>(queue); }

}  // namespace weft::portable::host
