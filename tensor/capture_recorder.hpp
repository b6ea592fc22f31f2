// Interface between the library and the recorder of a step, which can then be replayed without running its ops
// (hooks/capture.hpp).
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

/// Called only by the recording thread. The step cannot be replayed if the host reads values or changes states that a
/// replay would not repeat.
class CaptureRecorder {
 public:
  virtual ~CaptureRecorder();
  /// The allocator for the step's tensors on a device, used in place of `below`, the device's own. Its memory is not
  /// shared until the recording is dropped.
  virtual Allocator& memory(Device device, Allocator& below) = 0;
  /// Marks the step as not replayable. `why`: "its values are read on the host".
  virtual void refuse(const char* why) = 0;
  /// Calls `act` immediately, and at this point of every replay; its kernels are not recorded. `owner` is the object
  /// that `act` refers to: `forget_owner` invalidates the recording.
  virtual void repeat(const char* what, const void* owner, Callback<void()> act) = 0;
  /// An in-place write raised the version of this storage.
  virtual void wrote(Storage& storage) = 0;
  virtual void drew(Generator& generator, GeneratorState first) = 0;
  virtual void moved(Generator& generator, GeneratorState from, GeneratorState to) = 0;
  /// Called before a leaf's gradient is added to `before`, which may be undefined, and after it became `after`.
  virtual void adds_gradient(const TensorImpl* leaf, const Tensor& before) = 0;
  virtual void put_gradient(const TensorImpl* leaf, const Tensor& after) = 0;
};

/// The `what` argument of `repeat` for a function that reads elements and either raises or does nothing.
inline constexpr char check_of_elements[] = "a check of elements";

/// The recorder of this thread, or nullptr.
extern WEFT_API constinit thread_local CaptureRecorder* capture_recorder;

inline void refuse_recording(const char* why) {
  if (WEFT_UNLIKELY(capture_recorder != nullptr)) capture_recorder->refuse(why);
}

/// Memory that recordings use. Tensors that are destroyed hand over their memory to the recordings, which are then out
/// of date.
class HeldMemory {
 public:
  virtual ~HeldMemory();
  /// Takes over the block of a tensor that is being destroyed if its data are in this memory. Only `free_held` frees it
  /// then.
  virtual bool take(Storage* storage) = 0;
  virtual void forget_owner(const void* owner) = 0;
  /// A tensor over this storage got another shape or other memory: its recordings are out of date.
  virtual void reshaped(const Storage& storage) = 0;
  /// A leaf's requires_grad changed.
  virtual void turned(const TensorImpl* tensor) = 0;
};
/// The only instance; null until something is recorded.
extern WEFT_API constinit Atomic<HeldMemory*> held_memory;
/// Frees a block that `HeldMemory::take` took over, with its data.
WEFT_API void free_held(Storage* storage);

/// A member of an object that callbacks passed to `repeat` refer to. When the object is destroyed or moved, their
/// recordings are invalidated.
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
