// Saved-tensor hooks that offload or compress the tensors saved for backward.
//
//   {
//     OffloadSavedTensors offload;             // to host memory
//     loss = cross_entropy(model(x), y);
//   }
//   loss.backward();                           // copies each tensor back when it is read
#pragma once

#include "../autograd/saved_hooks.hpp"

namespace weft {

struct OffloadOptions {
  Device to = {};
  /// Smaller tensors are not moved.
  int64_t at_least_bytes = 0;
};

/// Moves saved tensors to another device, and back when backward reads them. Leaves that require a gradient, such as
/// parameters, are not moved, since they exist anyway. Gradients are bitwise unchanged.
class WEFT_API OffloadSavedTensors : SavedTensorHooks {
 public:
  explicit OffloadSavedTensors(OffloadOptions options = {});
};

/// Stores saved f32 and f64 tensors in a narrower dtype (bf16 or f16, else DTypeError) and converts them back when
/// backward reads them: half or a quarter of the memory, with gradients of that precision. Leaves that require a
/// gradient are not converted.
class WEFT_API CompressSavedTensors : SavedTensorHooks {
 public:
  explicit CompressSavedTensors(DType dtype = DType::bf16, Location where = {});
};

}  // namespace weft
