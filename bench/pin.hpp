// Temporarily pins the threads of this process to a few cores.
#pragma once

#include <memory>

namespace weft::bench {

class Pin {
 public:
  /// Pins all existing threads to `cores` of their allowed cores; has no effect if the system refuses.
  explicit Pin(int cores);
  /// Restores the threads' previous cores.
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  /// Whether the threads are limited to the requested number of cores.
  bool holds() const { return holds_; }

 private:
  struct Threads;
  std::unique_ptr<Threads> moved_;
  bool holds_ = false;
};

}  // namespace weft::bench
