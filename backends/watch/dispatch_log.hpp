// A line for each kernel that is called, on stderr.
//
//   const DispatchLogGuard guard;
//   y = softmax(x, 1);       // [dispatch] softmax: softmax float32 [2, 3] on cpu <- float32 [2, 3] on cpu, main.cpp:12
//
// WEFT_LOG=dispatch in the environment writes those of the whole process.
#pragma once

#include <optional>
#include <string>

#include "observe.hpp"

namespace weft {

/// Until the end of the scope this thread's kernels are written, or not, whatever the environment says.
class WEFT_API DispatchLogGuard {
 public:
  explicit DispatchLogGuard(bool on = true);
  ~DispatchLogGuard();
  DispatchLogGuard(const DispatchLogGuard&) = delete;

 private:
  std::optional<bool> outer_;
  std::optional<ObserverGuard> observer_;
};

namespace detail {
std::string dispatch_line(const KernelCall& call);
/// As WEFT_LOG says, which is read once.
bool logs_dispatch();
}  // namespace detail

}  // namespace weft
