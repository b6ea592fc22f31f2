// How a block of 8-bit floats is scaled.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../../tensor/number.hpp"

namespace weft::cpu {

/// The factor of a block: the largest code over its largest magnitude.
struct ScaleRule {
  float largest, epsilon;
  bool power_of_two;

  float multiplier(uint32_t bits_of_largest) const {
    const float most = std::max(float_from_bits(bits_of_largest), epsilon);
    if (most == 0) return 1;
    float s = largest / most;
    if (power_of_two) s = float_from_bits(float_bits(s) & 0x7f800000u);
    return std::min(s, 0x1p126f);  // so that 1 / s is no subnormal
  }
};

}  // namespace weft::cpu
