// Error messages of the stepper and the trainer. Internal to train/.
#pragma once

#include <string>
#include <vector>

#include "../../nn/module.hpp"
#include "../../optim/master_weights.hpp"
#include "../../optim/optim.hpp"

namespace weft::train {

/// Rethrows the current exception with the same type and `place` in its first line. Supports Weft's and standard
/// exceptions; others are rethrown unchanged.
[[noreturn]] void raise_at(const std::string& place);

/// Runs `f`, and adds `place()` to its exceptions.
template <class Place, class F>
auto at(Place&& place, F&& f) {
  try {
    return f();
  } catch (...) {
    raise_at(place());
  }
}

/// Indices of the optimizer's parameters that belong neither to the model nor to `masters`, which may be null.
std::vector<size_t> foreign_parameters(const nn::Module& model, const optim::Optimizer& optimizer,
                                       const optim::MasterWeights* masters);

}  // namespace weft::train
