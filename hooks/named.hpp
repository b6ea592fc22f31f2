// Named tensors for display in tools.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Returns all parameters of a module, by path.
template <class Module>
  requires requires(const Module& m) { m.named_parameters(); }
NamedTensors names_of(const Module& module) {
  NamedTensors all;
  for (auto& entry : module.named_parameters()) all.emplace_back(entry.name, entry.tensor);
  return all;
}

}  // namespace weft
