// What the library tells whoever records a step, so that it can run again without its ops (hooks/capture.hpp).
#pragma once

#include <cstdint>

#include "callback.hpp"
#include "generator.hpp"
#include "storage.hpp"

namespace weft {

class Allocator;
class Tensor;
struct TensorImpl;

namespace detail {

/// Told by the thread that records; none of its functions is called by another one. What it is told about values that
/// the host reads, or about states that a replay would not repeat, makes the step one that cannot be replayed.
class StepRecorder {
 public:
  virtual ~StepRecorder();
  /// In place of `below`, which is the device's, for what the step makes: nobody else's until the recording is dropped.
  virtual Allocator& memory(Device device, Allocator& below) = 0;
  /// The step cannot be replayed: "its values are read on the host".
  virtual void refuse(const char* why) = 0;
  /// `act` is called now, and at this point of every replay; kernels in it are not recorded. `owner` is where what it
  /// refers to is kept: `forget_owner` ends the recording.
  virtual void repeat(const char* what, const void* owner, Callback<void()> act) = 0;
  /// An in-place write raised the version of this storage.
  virtual void wrote(Storage& storage) = 0;
  virtual void drew(Generator& generator, GeneratorState first) = 0;
  virtual void moved(Generator& generator, GeneratorState from, GeneratorState to) = 0;
  /// A leaf's gradient is about to be added to `before`, which may be undefined; then it became `after`.
  virtual void adds_gradient(const TensorImpl* leaf, const Tensor& before) = 0;
  virtual void put_gradient(const TensorImpl* leaf, const Tensor& after) = 0;
};

/// What `repeat` is told of a function that reads elements, and raises or does nothing.
inline constexpr char check_of_elements[] = "a check of elements";

/// That of this thread, or nullptr.
extern WEFT_API constinit thread_local StepRecorder* step_recorder;

inline void refuse_recording(const char* why) {
  if (WEFT_UNLIKELY(step_recorder != nullptr)) step_recorder->refuse(why);
}

/// Memory that recordings use. A tensor that dies in it gives it to them, and they learn that they are out of date.
class HeldMemory {
 public:
  virtual ~HeldMemory();
  /// The block of a dying tensor whose data lie in this memory; it is freed by `free_block_of` alone.
  virtual bool take(Storage* storage) = 0;
  virtual void forget_owner(const void* owner) = 0;
  /// A tensor was made a leaf that requires a gradient, or is none any more.
  virtual void turned(const TensorImpl* tensor) = 0;
};
/// There is at most one; null while nothing was recorded.
extern WEFT_API constinit Atomic<HeldMemory*> held_memory;
/// Frees a block that `HeldMemory::take` took over, with its data.
WEFT_API void free_held(Storage* storage);

/// A member of an object to which functions given to `repeat` refer: where the object ends or moves, they end.
class RepeatOwner {
 public:
  RepeatOwner() = default;
  RepeatOwner(RepeatOwner&& other) noexcept { other.forget(); }
  RepeatOwner& operator=(RepeatOwner&& other) noexcept {
    forget();
    other.forget();
    return *this;
  }
  ~RepeatOwner() { forget(); }

 private:
  void forget() {
    if (HeldMemory* held = held_memory.load(MemoryOrder::acquire); WEFT_UNLIKELY(held != nullptr)) {
      held->forget_owner(this);
    }
  }
};

}  // namespace detail
}  // namespace weft
