// Ready-made saved-tensor hooks: offloading or compressing the tensors that a forward pass keeps for backward.
//
//   {
//     OffloadSavedTensors offload;             // to host memory
//     loss = cross_entropy(model(x), y);
//   }
//   loss.backward();                           // brings each back as it is read
#pragma once

#include "../autograd/saved_hooks.hpp"

namespace weft {

struct OffloadOptions {
  Device to = {};
  /// Smaller tensors stay where they are.
  int64_t at_least_bytes = 0;
};

/// Saved tensors move to another device, and back when backward reads them. Leaves that require a gradient, such as
/// parameters, stay, since they exist anyway. Gradients are bitwise those without it.
class WEFT_API OffloadSavedTensors : SavedTensorHooks {
 public:
  explicit OffloadSavedTensors(OffloadOptions options = {});
};

/// Saved f32 and f64 tensors are kept in a narrower dtype (bf16 or f16, else DTypeError) and widened when backward
/// reads them: half or a quarter of the memory, at that dtype's precision of gradients. Leaves that require a gradient
/// stay as they are.
class WEFT_API CompressSavedTensors : SavedTensorHooks {
 public:
  explicit CompressSavedTensors(DType dtype = DType::bf16, Location where = {});
};

}  // namespace weft
