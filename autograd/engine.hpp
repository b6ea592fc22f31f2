// Running the graph backwards.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include <weft/tensor/tensor.hpp>

namespace weft {

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Inputs that the outputs do not depend on give an undefined tensor instead of an error.
  bool allow_unused = false;
};

/// Fills the `.grad` of every leaf the outputs depend on. `seeds` is empty or has one gradient per output; an undefined
/// seed stands for one and is legal for 1-element outputs only.
WEFT_API void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds = {},
                       BackwardOptions options = {}, Location where = {});

/// Gradients of the outputs (weighted by `seeds`) with respect to `inputs`, leaves or not; no `.grad` is touched.
/// AutogradError for an input that is unused or needs no gradient, unless allowed.
WEFT_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                  std::span<const Tensor> seeds = {}, GradOptions options = {}, Location where = {});
inline std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                                std::initializer_list<Tensor> seeds = {}, GradOptions options = {},
                                Location where = {}) {
  return grad(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()),
              std::span(seeds.begin(), seeds.size()), options, where);
}

/// True where the tensor's memory may be written or taken over: one handle, one user of the storage, no outside owner.
inline bool exclusively_owned(const TensorImpl* impl) {
  return impl->refs.value() == 1 && impl->storage->refs.value() == 1 && !impl->storage->external;
}

/// Buffer sharing between gradients, on by default; off (or WEFT_GRAD_SHARE=0) every gradient gets its own memory.
WEFT_API bool gradient_sharing();
WEFT_API void set_gradient_sharing(bool on);

namespace detail {
extern WEFT_API std::atomic<bool> share_gradients;
}  // namespace detail

}  // namespace weft
