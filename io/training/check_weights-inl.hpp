// Whether a file's weights are those of a module. Internal to io/.
#pragma once

#include <string>

#include "../path.hpp"
#include "../safetensors.hpp"
#include "../../nn/module.hpp"

namespace weft::io {

/// ShapeError and ValueError that name the file; the latter, for names that are not the module's, has the remedy.
void check_weights(const nn::Module& module, const TensorMap& weights, const Path& path, const char* op,
                   const std::string& remedy, Location where);

}  // namespace weft::io
