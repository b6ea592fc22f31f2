// The backend interface of streams and events: in-order queues and points in them.
#pragma once

#include "../tensor/callback.hpp"
#include "../tensor/device.hpp"
#include "../tensor/shared.hpp"

namespace weft {

class Queue;

/// A point of a queue: reached when all work that was queued before it is done. May be asked by any thread, also after
/// the device was lost: it raises DeviceError then.
class Fence {
 public:
  virtual ~Fence();
  virtual Queue& queue() const = 0;
  virtual bool reached() = 0;
  virtual void wait() = 0;
  /// Of two timed fences of one device.
  virtual double milliseconds_since(const Fence& earlier) const = 0;
  /// Milliseconds after which the device's clock begins anew; 0 where it does not.
  virtual double clock_period() const { return 0; }
};

/// An in-order queue of a device. All functions may be called by any thread. Queues live until the program's end; one
/// that no Stream has is given to the next.
class Queue {
 public:
  Queue(Device device, int number) : device_(device), number_(number) {}
  virtual ~Queue();
  Queue(const Queue&) = delete;

  Device device() const { return device_; }
  /// 0 is the default queue.
  int number() const { return number_; }

  virtual Shared<Fence> record(bool timed) = 0;
  /// Work queued from now on runs after `fence`, which is of this device type.
  virtual void wait(const Shared<Fence>& fence) = 0;
  /// Runs `function` on a host thread after the queued work; later work waits for it. The queue's next wait rethrows
  /// its exception.
  virtual void call(Callback<void()> function) = 0;
  virtual bool idle() = 0;
  /// Waits. Raises errors since the last wait.
  virtual void synchronize() = 0;
  /// cudaStream_t, ze_command_list_handle_t.
  virtual void* native_handle() = 0;

 private:
  const Device device_;
  const int number_;
};

namespace detail {
/// The thread's queue of a device, where a StreamGuard chose one; nullptr for the default.
Queue* chosen_queue(Device device);
}  // namespace detail

}  // namespace weft
