// Times of device streams, converted to the host's clock.
//
// Two timed events around each profiled kernel serve HPU and CUDA alike. A timestamp of few bits is extended with
// the host's time at its mark.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "../../backends/queue.hpp"
#include "../../tensor/device.hpp"

namespace weft {
class Backend;
}

namespace weft::detail {

/// Current time in nanoseconds, of the clock that profiles use.
int64_t nanoseconds();

/// Converts device times. Thread-safe. A device's clock is synchronised with the host's when it is first marked, on a
/// separate stream; the error is at most half the shortest of several round trips.
class DeviceTimes {
 public:
  /// Marks the current end of the calling thread's stream. Null if the device has no streams, or no clock for them.
  Shared<Fence> mark(Device device);
  /// Returns when `mark` was reached; the device must have reached it. `earliest` resolves wrap-around of the device
  /// clock: a host time before the mark was reached, by less than a period, such as the time when the mark was made.
  int64_t time_of(const Fence& mark, int64_t earliest);
  void forget();

 private:
  struct Clock {
    Shared<Fence> zero;
    int64_t host = 0;
    bool runs = true;  ///< false if the device's events have no time
  };
  static Clock set_clock(Backend& backend, int index);
  using Key = std::tuple<int, int>;
  static Key key_of(Device device) { return {static_cast<int>(device.type), int{device.index}}; }

  std::mutex mutex_;
  std::map<Key, Clock> clocks_;
};

}  // namespace weft::detail
