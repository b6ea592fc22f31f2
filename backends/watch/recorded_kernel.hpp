// Calls of kernels that are kept, so that they can run again on the same memory without the ops that made them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../dispatch.hpp"
#include "../../tensor/capture_recorder.hpp"

namespace weft {

class RecordedKernel {
 public:
  explicit RecordedKernel(const char* kernel_) : kernel(kernel_), place(detail::current_call) {}
  virtual ~RecordedKernel();
  RecordedKernel(const RecordedKernel&) = delete;
  /// As it was called, by the device's present row, so that observers see it.
  virtual void run() = 0;
  /// Turns it into a call for `count` examples: views[i] of each is steps[i] bytes after that of the previous one.
  /// False, without any change, if the kernel has no dimension left.
  virtual bool put_examples(int64_t /*count*/, std::span<const int64_t> /*steps*/) { return false; }

  const char* const kernel;
  /// The op that called it and the program's line.
  const CallPlace place;
  /// Those with data; the first `outputs` are written. Views of single numbers have their number with them.
  std::vector<View*> views;
  size_t outputs = 0;
  /// Everything but addresses and random counters, as bytes that are equal where the calls are.
  std::string attributes;
  /// Of a random draw.
  PhiloxSeed* seed = nullptr;
};

/// Gives `layout` a dimension before all others. False where it has max_rank.
bool put_first(Layout& layout, int64_t size, int64_t stride);
/// Extends `dim` of `layout` to `count` repetitions that are `step` bytes apart. False if the strides do not allow it.
bool put_along(Layout& layout, int dim, int64_t count, int64_t step);

namespace detail {

class KernelRecorder : public CaptureRecorder {
 public:
  virtual void record(std::unique_ptr<RecordedKernel> call) = 0;
};
inline KernelRecorder& kernel_recorder() { return static_cast<KernelRecorder&>(*capture_recorder); }

/// While it lives, this thread's kernels, memory and random numbers belong to no recording.
class UnrecordedScope {
 public:
  UnrecordedScope() : outer_(std::exchange(capture_recorder, nullptr)) {}
  ~UnrecordedScope() { capture_recorder = outer_; }
  UnrecordedScope(const UnrecordedScope&) = delete;

 private:
  CaptureRecorder* outer_;
};

/// Makes `recorder` this thread's recorder, which receives every kernel before it runs.
class RecordingScope {
 public:
  explicit RecordingScope(KernelRecorder& recorder);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
};

/// Writes the parts of a call that two equal calls share.
class CallBytes {
 public:
  explicit CallBytes(std::string& bytes) : bytes_(bytes) {}
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  void add(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void add(const Layout& layout);

 private:
  std::string& bytes_;
};

}  // namespace detail
}  // namespace weft
