// A queue of a device that runs portable kernels.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "../../queue.hpp"
#include "../../recipe_runner.hpp"
#include "../plan.hpp"
#include "../../../tensor/call.hpp"

namespace weft::portable::host {

class Accelerator;

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

class DeviceQueue : public Queue {
 public:
  DeviceQueue(Accelerator& device, int number);

  Accelerator& accelerator() const { return device_; }

  /// The source may be reused as soon as the call returns.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  /// Between memory of devices and pinned memory.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// `pattern` of 1, 2, 4 or 8 bytes repeated over `bytes`; false where the device has no command for it.
  virtual bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) = 0;
  virtual void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) = 0;
  /// Complete on return; raises what failed.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  void synchronize() final;
  /// Waits; raises DeviceError only.
  virtual void drain() = 0;

  /// The caller's op and place under a number, for a kernel that checks indices.
  uint32_t note_index_call();
  /// Where kernels report: memory that the host reads too.
  BadIndex* bad_index() const { return bad_index_; }
  /// For a function that `call` runs: what it threw is raised by the next wait.
  void keep_failure(std::exception_ptr failure) noexcept;
  /// "3 commands since the last wait, the first of add at train.cpp:12, the last of mul at train.cpp:14": for errors
  /// that do not tell their command. Empty where nothing was queued.
  std::string queued_text();

 protected:
  /// Of a command that is about to be queued.
  void note_command();
  /// For use after a wait: raises what was reported.
  void raise_reported();
  void forget_commands();

  BadIndex* bad_index_ = nullptr;
  std::unique_ptr<RecipeRunner> runner_;  ///< null where launches are queued by their callers

 private:
  void keep_bad_place();
  const CallPlace& place_of(uint32_t call) const;

  Accelerator& device_;
  std::mutex index_mutex_;
  std::array<CallPlace, 1024> index_calls_;
  uint32_t index_call_ = 0;
  /// Of the index that went wrong, where its call is no longer among those.
  std::optional<CallPlace> bad_place_;
  std::exception_ptr failure_;
  std::mutex command_mutex_;
  CallPlace first_, last_;
  uint64_t commands_ = 0;
};

}  // namespace weft::portable::host
