// Holds the threads of this process to a few cores for a while.
#pragma once

#include <memory>

namespace weft::bench {

class Pin {
 public:
  /// Pins all existing threads to `cores` of the cores that they may use now; does nothing where the system refuses.
  explicit Pin(int cores);
  /// Lets threads run again where they could before.
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  /// Whether the threads are limited to the number of cores asked for.
  bool holds() const { return holds_; }

 private:
  struct Threads;
  std::unique_ptr<Threads> moved_;
  bool holds_ = false;
};

}  // namespace weft::bench
