// The pointwise ops as enumerations, made from the rows that stand beside the formulas. The formulas are left out:
// public headers need the rows alone, and <cmath> is slow to compile.
#pragma once

#include <cstdint>

#define WEFT_ROWS_ALONE
#include "binary.hpp"
#include "compare.hpp"
#include "ternary.hpp"
#include "unary.hpp"
#undef WEFT_ROWS_ALONE

namespace weft {

#define WEFT_ENUMERATOR(name, ...) name,
enum class UnaryOp : uint8_t { WEFT_UNARY_OPS(WEFT_ENUMERATOR) count };
enum class BinaryOp : uint8_t { WEFT_BINARY_OPS(WEFT_ENUMERATOR) count };
enum class CompareOp : uint8_t { WEFT_COMPARE_OPS(WEFT_ENUMERATOR) count };
enum class TernaryOp : uint8_t { WEFT_TERNARY_OPS(WEFT_ENUMERATOR) count };
#undef WEFT_ENUMERATOR

/// What bool has no formula of, though other integers have.
constexpr bool serves_bool(UnaryOp op) { return op != UnaryOp::neg; }
constexpr bool serves_bool(BinaryOp op) {
  switch (op) {
    case BinaryOp::sub:
    case BinaryOp::floor_divide:
    case BinaryOp::trunc_divide:
    case BinaryOp::remainder:
    case BinaryOp::fmod:
      return false;
    default:
      return true;
  }
}

}  // namespace weft
