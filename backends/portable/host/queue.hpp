// A queue of a device that runs portable kernels.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "../../queued/command_queue.hpp"
#include "../../queued/recipe_runner.hpp"
#include "../plan.hpp"

namespace weft {
class CommandBatch;
}

namespace weft::portable::host {

class Accelerator;
struct CommandNotes;

/// Backends derive theirs.
struct Kernel {};

struct Grid {
  std::array<uint32_t, 3> groups = {1, 1, 1};
  std::array<uint32_t, 3> group_size = {1, 1, 1};
};

struct Argument {
  size_t size;
  const void* value;
};

class DeviceQueue : public CommandQueue {
 public:
  DeviceQueue(Accelerator& device, int number);

  Accelerator& accelerator() const { return device_; }

  virtual void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) = 0;
  /// The caller's op and place under a number, for a kernel that checks indices.
  uint32_t note_index_call();
  /// The same for a call that is queued again and again, until it is released.
  uint32_t hold_index_call();
  /// Of calls that have run.
  void release_index_calls(std::span<const uint32_t> calls) noexcept;
  /// Commands of this queue for replay. Only for devices that can replay commands.
  virtual std::unique_ptr<CommandBatch> make_batch(CommandNotes notes);
  /// Where kernels report: memory that the host reads too.
  BadIndex* bad_index() const { return bad_index_; }

 protected:
  /// Also of indices that kernels reported.
  void raise_reported() override;

  // Records the commands of this thread for replay.
  void note_launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) const;
  void note_copy(void* to, const void* from, size_t bytes) const;
  /// The pattern has at most 8 bytes.
  void note_fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) const;
  /// The following commands cannot be replayed.
  static void refuse_notes() noexcept;

  BadIndex* bad_index_ = nullptr;
  std::unique_ptr<RecipeRunner> runner_;  ///< null where launches are queued by their callers

 private:
  void keep_bad_place();
  const CallPlace& place_of(uint32_t call) const;

  Accelerator& device_;
  std::mutex index_mutex_;
  std::array<CallPlace, 1024> index_calls_;
  uint32_t index_call_ = 0;
  std::deque<CallPlace> held_calls_;  ///< by their numbers without the highest bit
  std::vector<uint32_t> free_calls_;
  /// Of the index that went wrong, where its call is no longer among those.
  std::optional<CallPlace> bad_place_;
};

}  // namespace weft::portable::host
