// The formulas of all pointwise ops.
#pragma once

#include "binary.hpp"
#include "compare.hpp"
#include "integer.hpp"
#include "ternary.hpp"
#include "unary.hpp"
