// The entries of ModuleRegistry::standard(). Internal to nn/.
#pragma once

#include "registry.hpp"

namespace weft::nn::detail {

void add_layers(ModuleRegistry& registry);

}  // namespace weft::nn::detail
