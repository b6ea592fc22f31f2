// The pointwise ops as enumerations, made from the rows that stand beside the formulas.
#pragma once

#include <weft/backends/functors/binary.hpp>
#include <weft/backends/functors/compare.hpp>
#include <weft/backends/functors/ternary.hpp>
#include <weft/backends/functors/unary.hpp>

namespace weft {

#define WEFT_ENUMERATOR(name, ...) name,
enum class UnaryOp : uint8_t { WEFT_UNARY_OPS(WEFT_ENUMERATOR) count };
enum class BinaryOp : uint8_t { WEFT_BINARY_OPS(WEFT_ENUMERATOR) count };
enum class CompareOp : uint8_t { WEFT_COMPARE_OPS(WEFT_ENUMERATOR) count };
enum class TernaryOp : uint8_t { WEFT_TERNARY_OPS(WEFT_ENUMERATOR) count };
#undef WEFT_ENUMERATOR

}  // namespace weft
