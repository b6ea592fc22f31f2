// Records the commands of kernels' host code as they are queued.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "queue.hpp"
#include "../../queued/command_batch.hpp"

namespace weft::portable::host {

/// A launch's arguments, for later.
class KeptArguments {
 public:
  KeptArguments(const Argument* arguments, size_t count) : list_(arguments, arguments + count) {
    size_t bytes = 0;
    for (const Argument& a : list_) bytes += a.size;
    bytes_ = std::make_unique_for_overwrite<char[]>(bytes);
    char* to = bytes_.get();
    for (Argument& a : list_) {
      std::memcpy(to, a.value, a.size);
      a.value = std::exchange(to, to + a.size);
    }
  }
  const std::vector<Argument>& list() const { return list_; }

 private:
  std::vector<Argument> list_;
  std::unique_ptr<char[]> bytes_;
};

struct NotedLaunch {
  Kernel* kernel;
  Grid grid;
  KeptArguments arguments;
};
struct NotedCopy {
  void* to;
  const void* from;
  size_t bytes;
};
struct NotedFill {
  void* to;
  uint64_t pattern;
  size_t pattern_bytes, bytes;
};
/// Commands that a library queues through the native handle of a queue.
struct NotedCall {
  std::function<void(void*)> queue;
};
using NotedCommand = std::variant<NotedLaunch, NotedCopy, NotedFill, NotedCall>;

/// Scratch memory and numbers of index calls that commands use as long as they may run.
class CommandResources {
 public:
  explicit CommandResources(DeviceQueue& queue) : queue_(queue) {}
  /// Waits for the commands where they check indices.
  ~CommandResources();
  CommandResources(const CommandResources&) = delete;

  DeviceQueue& queue() const { return queue_; }
  /// Memory that commands before are done with when those behind them begin; nullptr where there is no more.
  void* take_scratch(size_t bytes);
  void return_scratch(void* data) noexcept;
  uint32_t take_index_call();

 private:
  struct Block {
    void* data;
    size_t bytes;
    bool used;
  };
  DeviceQueue& queue_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> index_calls_;
};

struct CommandNotes {
  explicit CommandNotes(DeviceQueue& queue) : resources(std::make_unique<CommandResources>(queue)) {}

  std::vector<NotedCommand> commands;
  std::unique_ptr<CommandResources> resources;
  bool refused = false;  ///< something was done that cannot be queued again
};

/// Where this thread's commands are noted; else null.
extern constinit thread_local CommandNotes* command_notes;

/// Where a command of `queue` is noted; null where none is, which notes of another queue are refused for.
inline CommandNotes* notes_of(const DeviceQueue& queue) {
  CommandNotes* const notes = command_notes;
  if (notes == nullptr) return nullptr;
  notes->refused |= &queue != &notes->resources->queue();
  return notes->refused ? nullptr : notes;
}

/// For the default queue of a device with batches.
std::unique_ptr<KernelNotes> note_kernels_of(DeviceQueue& queue);

}  // namespace weft::portable::host
