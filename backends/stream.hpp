// Streams and events: work of one device that runs in order, beside that of other streams, and how they wait.
//
// Work on a device is queued on the calling thread's current stream, which is the device's default stream unless a
// StreamGuard says otherwise. A stream runs its work in order; between streams there is no order but that of events.
// Memory needs no care: a tensor may be dropped while any stream still works on it.
//
// The CPU has no queue: there, an op is done when it returns, every event has been reached, and a wait for a device's
// event is a wait of the calling thread. So a program that is written for streams runs on each device alike.
#pragma once

#include "../tensor/callback.hpp"
#include "../tensor/device.hpp"
#include "../tensor/location.hpp"
#include "../tensor/shared.hpp"

namespace weft {

class Tensor;
class Fence;
class Queue;
class Event;

/// A handle of a stream. When the last copy is destroyed, its queue may be reused for another stream; queued work still
/// runs. Thread-safe.
class WEFT_API Stream {
 public:
  /// A stream of its own. DeviceError where there is no such device.
  explicit Stream(Device device, Location where = {});

  Device device() const { return device_; }
  /// 0 is the device's default stream.
  int id() const;
  /// Waits until all work on it is done. Raises errors since the last wait: IndexError of a kernel, with the op and
  /// line that queued it; DeviceError; the exception of a function of `call`.
  void synchronize(Location where = {}) const;
  /// Whether all work on it is done.
  bool query() const;
  /// Work that is queued from now on runs after `event`, of any device. One that was never recorded is no wait.
  void wait_event(const Event& event, Location where = {}) const;
  /// Work that is queued from now on runs after all that `other` has by now.
  void wait_stream(const Stream& other, Location where = {}) const;
  /// An event at this point.
  Event record_event(Location where = {}) const;
  /// Runs `function` once on a host thread, after queued work and before later work. It must neither queue work on this
  /// device nor wait for it. The stream's next wait rethrows its exception; on the CPU it runs, and throws, at once.
  void call(Callback<void()> function, Location where = {}) const;
  /// cudaStream_t or ze_command_list_handle_t, for other libraries; null on the CPU.
  void* native_handle() const;

  bool operator==(const Stream& other) const { return device_ == other.device_ && queue_ == other.queue_; }

 private:
  friend class Event;
  friend class StreamGuard;
  friend WEFT_API Stream default_stream(Device device, Location where);
  friend WEFT_API Stream current_stream(Device device, Location where);
  Stream(Device device, Queue* queue) : device_(device), queue_(queue) {}

  Device device_;
  Queue* queue_ = nullptr;  ///< null for devices without queues
  Shared<void> lease_;      ///< null for default streams
};

/// The stream on which a device's work runs where nothing else is said.
WEFT_API Stream default_stream(Device device, Location where = {});
/// The calling thread's stream of a device.
WEFT_API Stream current_stream(Device device, Location where = {});

/// Makes a stream its thread's current one for its device. Guards are destroyed on their own thread, newest first.
class WEFT_API StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;

 private:
  Stream stream_;
  uint16_t outer_;
};

struct EventOptions {
  /// Keeps the time at which it was reached, for elapsed_time.
  bool timing = false;
};

/// A point in a stream. Copies share it.
class WEFT_API Event {
 public:
  explicit Event(EventOptions options = {}) : options_(options) {}

  /// Records the point after the present work of `stream`, and replaces an earlier one; streams that wait for the
  /// earlier point still do.
  void record(const Stream& stream, Location where = {});
  /// Whether all work before it is done; true before the first `record`.
  bool query() const;
  /// Waits. Raises DeviceError where the device failed; errors of single ops are raised by `Stream::synchronize`.
  void synchronize(Location where = {}) const;
  /// Milliseconds from this event to `end`, by the device's clock. Both must have been recorded with timing, on streams
  /// of one device, else ValueError; waits for both. A device's clock may wrap: the result is right below its period.
  double elapsed_time(const Event& end, Location where = {}) const;

 private:
  friend class Stream;
  EventOptions options_;
  Device device_;
  bool recorded_ = false;
  Shared<Fence> fence_;     ///< null on the CPU
  int64_t reached_at_ = 0;  ///< on the CPU, in ns
};

/// Says that work outside Weft uses `tensor` on `stream`: its memory is not given to others before that work is done.
/// Weft's own ops need no such word.
WEFT_API void record_stream(const Tensor& tensor, const Stream& stream);

namespace detail {
/// Which streams are current on this thread, as a number: 0 is the default of every device.
extern WEFT_API constinit thread_local uint16_t current_streams;
/// Makes `streams` current. Where they differ from those of before, the new ones wait for the old ones.
void switch_streams(uint16_t streams);
}  // namespace detail

}  // namespace weft
