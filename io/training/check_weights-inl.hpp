// Checks a file's weights against a module. Internal to io/.
#pragma once

#include <string>

#include "../path.hpp"
#include "../safetensors.hpp"
#include "../../nn/module.hpp"

namespace weft::io {

/// Raises ShapeError, and ValueError for unmatched names. Both name the file; ValueError also has the remedy.
void check_weights(const nn::Module& module, const TensorMap& weights, const Path& path, const char* op,
                   const std::string& remedy, Location where);

}  // namespace weft::io
