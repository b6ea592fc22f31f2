// State of a step apart from values: strides of tensors and modes of modules. Internal to io/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../safetensors.hpp"
#include "../../nn/module.hpp"
#include "../../tensor/dims.hpp"

namespace weft::io {

struct StepForm {
  /// Paths of the modules in evaluation mode.
  std::vector<std::string> evaluating = {};
  /// Strides of tensors that are not contiguous.
  std::map<std::string, Dims> weights = {}, gradients = {}, batch = {};

  static StepForm of(const nn::Module& module, const TensorMap& batch);
  /// Restores the modes, and the strides of parameters and their gradients.
  void restore(const nn::Module& module, Location where) const;
};

/// Copies the elements to new memory with these strides. Returns the tensor itself if the strides overlap or would need
/// much more memory than the elements.
Tensor with_strides(const Tensor& x, const Dims& strides);

}  // namespace weft::io
