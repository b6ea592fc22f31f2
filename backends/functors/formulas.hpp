// The formulas of all pointwise ops.
#pragma once

#include <weft/backends/functors/binary.hpp>
#include <weft/backends/functors/compare.hpp>
#include <weft/backends/functors/ternary.hpp>
#include <weft/backends/functors/unary.hpp>
