// An optimizer's state by the names of a module's parameters. Internal to io/.
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

/// The module's name of each parameter of `masters`, in their order; "" of one that is not the module's.
std::vector<std::string> names_of_masters(const nn::Module& module, const optim::MasterWeights& masters);

/// "blocks.0.weight.exp_avg", "blocks.0.weight.step", "group.0.lr". ValueError where the optimizer has a parameter that
/// is neither the module's nor one of `masters`, which may be null.
TensorMap named_state(const nn::Module& module, const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                      const char* op, Location where);

/// What a file says of itself, for words about it.
struct StateFile {
  const Path& path;
  const char* op;
  const char* prefix;           ///< of the state's names in the file
  const std::string& saved_by;  ///< the optimizer's name, empty where the file does not tell
};

/// The optimizer's own keys, with numbers for the parameters' names. ValueError, in words of the file, where it is not
/// this optimizer's state.
optim::Optimizer::StateDict state_in_file(const StateFile& file, const TensorMap& state, const nn::Module& module,
                                          const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                                          Location where);

}  // namespace weft::io
