// An optimizer's state, keyed by the names of a module's parameters. Internal to io/.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../path.hpp"
#include "../safetensors.hpp"
#include "../../nn/module.hpp"
#include "../../optim/master_weights.hpp"
#include "../../optim/optim.hpp"

namespace weft::io {

/// Returns the module's name for each parameter of `masters`, in order; "" for one that is not the module's.
std::vector<std::string> names_of_masters(const nn::Module& module, const optim::MasterWeights& masters);

/// Returns "blocks.0.weight.exp_avg", "blocks.0.weight.step", "group.0.lr", …. Raises ValueError if the optimizer has a
/// parameter of neither the module nor `masters`, which may be null.
TensorMap named_state(const nn::Module& module, const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                      const char* op, Location where);

/// A file's properties, for error messages.
struct StateFile {
  const Path& path;
  const char* op;
  const char* prefix;           ///< prefix of the state's names in the file
  const std::string& saved_by;  ///< the optimizer's name; empty if the file does not have it
};

/// Returns the optimizer's keys, with parameter indices instead of names. Raises ValueError, with the file, if it is
/// not a state of this optimizer.
optim::Optimizer::StateDict state_in_file(const StateFile& file, const TensorMap& state, const nn::Module& module,
                                          const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                                          Location where);

}  // namespace weft::io
