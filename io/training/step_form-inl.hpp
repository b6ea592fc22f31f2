// What a step depends on beside values: the order of tensors in memory, and modules' modes. Internal to io/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../safetensors.hpp"
#include "../../nn/module.hpp"
#include "../../tensor/dims.hpp"

namespace weft::io {

struct StepForm {
  /// Modules in evaluation mode, by their paths.
  std::vector<std::string> evaluating = {};
  /// Of tensors that do not lie in row-major order without gaps.
  std::map<std::string, Dims> weights = {}, gradients = {}, batch = {};

  static StepForm of(const nn::Module& module, const TensorMap& batch);
  /// Puts modes, and the memory of parameters and their gradients, in that form.
  void restore(const nn::Module& module, Location where) const;
};

/// The elements with those strides in fresh memory. The tensor itself where no two elements would have places of their
/// own, and where they would lie very far apart.
Tensor with_strides(const Tensor& x, const Dims& strides);

}  // namespace weft::io
