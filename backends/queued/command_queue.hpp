// A queue of a device with its own memory: copies, and errors since the last wait.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "../queue.hpp"
#include "../../tensor/call.hpp"

namespace weft {

class QueuedDevice;

class CommandQueue : public Queue {
 public:
  CommandQueue(QueuedDevice& owner, int number);

  QueuedDevice& owner() const { return owner_; }

  /// The source may be reused as soon as the call returns.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  /// Complete on return. Raises errors.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  /// Within the device. Where one command serves all addresses, it is that of the next three, too.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// From pinned memory, and to it.
  virtual void copy_in(void* to, const void* from, size_t bytes) { copy(to, from, bytes); }
  virtual void copy_out(void* to, const void* from, size_t bytes) { copy(to, from, bytes); }
  /// From memory of another device, which this one reaches.
  virtual void copy_peer(void* to, QueuedDevice& source, const void* from, size_t bytes);
  /// `pattern` of 1, 2, 4 or 8 bytes repeated over `bytes`; false where the device has no command for it.
  virtual bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) = 0;
  void synchronize() final;
  /// Waits; raises DeviceError only.
  virtual void drain() = 0;

  /// For deferred work: the next wait rethrows its exception.
  void keep_failure(std::exception_ptr failure) noexcept;
  /// "3 commands since the last wait, the first of add at train.cpp:12, the last of mul at train.cpp:14": for errors
  /// that do not tell their command. Empty where nothing was queued.
  std::string queued_text();

 protected:
  /// Of a command that is about to be queued.
  void note_command();
  void forget_commands();
  /// For use after a wait.
  virtual void raise_reported();

 private:
  QueuedDevice& owner_;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::mutex command_mutex_;
  CallPlace first_, last_;
  uint64_t commands_ = 0;
};

}  // namespace weft
