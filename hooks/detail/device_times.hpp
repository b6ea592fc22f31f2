// When work ran on devices' streams, on the host's clock.
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

/// Nanoseconds of the clock that profiles use.
int64_t nanoseconds();

/// Thread-safe. A device's clock is set against the host's when it is first marked, on a stream of its own: to within
/// half the shortest way there and back of some.
class DeviceTimes {
 public:
  /// The present end of the calling thread's stream; null where the device has no streams, or no clock for them.
  Shared<Fence> mark(Device device);
  /// When `mark` was reached, which the device must have. A clock that begins anew is told by `earliest`, less than a
  /// period before it: the host's time when the mark was made, or anything later that came before it.
  int64_t time_of(const Fence& mark, int64_t earliest);
  void forget();

 private:
  struct Clock {
    Shared<Fence> zero;
    int64_t host = 0;
    bool runs = true;  ///< false for a device whose events have no time
  };
  static Clock set_clock(Backend& backend, int index);
  using Key = std::tuple<int, int>;
  static Key key_of(Device device) { return {static_cast<int>(device.type), int{device.index}}; }

  std::mutex mutex_;
  std::map<Key, Clock> clocks_;
};

}  // namespace weft::detail
