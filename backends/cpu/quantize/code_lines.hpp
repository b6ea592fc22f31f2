// Loops over lines of 8-bit floats, for kernels that are compiled once.
#pragma once

#include <cstdint>

#include "../../../tensor/dtype.hpp"

namespace weft::cpu {

struct CodeLines {
  void (*to_floats)(float* to, const uint8_t* codes, int64_t n);
  void (*to_bf16)(uint16_t* to, const uint8_t* codes, int64_t n);
};
/// Those of an 8-bit dtype, for the best SIMD target.
CodeLines code_lines(DType dtype);

}  // namespace weft::cpu
