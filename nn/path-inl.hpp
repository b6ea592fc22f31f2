// Paths of modules and tensors, "blocks.0.weight". Internal to nn/ and io/.
#pragma once

#include <string>

namespace weft::nn::detail {

inline std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

}  // namespace weft::nn::detail
