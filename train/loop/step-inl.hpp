// What the stepper and the trainer say of a step. Internal to train/.
#pragma once

#include <string>
#include <vector>

#include "../../nn/module.hpp"
#include "../../optim/master_weights.hpp"
#include "../../optim/optim.hpp"

namespace weft::train {

/// Raises what is being handled once more, of the same type, with the place in its first line. Weft's errors and the
/// standard's own can say it; what is of another type goes on as it is.
[[noreturn]] void raise_at(const std::string& place);

/// Runs `f`; what it raises names `place()`.
template <class Place, class F>
auto at(Place&& place, F&& f) {
  try {
    return f();
  } catch (...) {
    raise_at(place());
  }
}

/// The numbers of the optimizer's parameters that are neither the model's nor one of the masters of these, which may be
/// null.
std::vector<size_t> foreign_parameters(const nn::Module& model, const optim::Optimizer& optimizer,
                                       const optim::MasterWeights* masters);

}  // namespace weft::train
