// Prints the options of layers.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace torch::nn::detail {

inline const char* text(bool value) { return value ? "true" : "false"; }
inline void put_inplace(std::ostream& out, bool inplace, const char* before = ", ") {
  if (inplace) out << before << "inplace=true";
}

}  // namespace torch::nn::detail
