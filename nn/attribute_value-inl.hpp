// The storage of an Attribute's value. Internal to nn/ and io/.
#pragma once

#include <variant>

#include "config.hpp"

namespace weft::nn {

/// The alternatives are in the order of Attribute::Type.
struct Attribute::Value {
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<bool>, std::vector<int32_t>,
               std::vector<int64_t>, std::vector<double>, std::vector<std::string>>
      held;
};

}  // namespace weft::nn
