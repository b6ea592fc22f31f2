// The pointwise ops as enumerations, with the treatment of integers and bool from their rows.
#pragma once

#include <cstdint>

#include "rows.hpp"

namespace weft {

#define WEFT_ENUMERATOR(name, ...) name,
enum class UnaryOp : uint8_t { WEFT_UNARY_OPS(WEFT_ENUMERATOR) count };
enum class BinaryOp : uint8_t { WEFT_BINARY_OPS(WEFT_ENUMERATOR) WEFT_INTEGER_OPS(WEFT_ENUMERATOR) count };
enum class CompareOp : uint8_t { WEFT_COMPARE_OPS(WEFT_ENUMERATOR) count };
enum class TernaryOp : uint8_t { WEFT_TERNARY_OPS(WEFT_ENUMERATOR) count };
#undef WEFT_ENUMERATOR

/// The kinds that rows.hpp explains.
enum class PointwiseKind : uint8_t { floating, numeric, division, counting, any, integers, bits };
/// Whether kernels exist for floating-point numbers, integers, and bool.
constexpr bool serves_floats(PointwiseKind kind) { return kind < PointwiseKind::integers; }
constexpr bool serves_integers(PointwiseKind kind) { return kind != PointwiseKind::floating; }
constexpr bool serves_bool(PointwiseKind kind) { return kind == PointwiseKind::any || kind == PointwiseKind::bits; }

}  // namespace weft
