// Telling a step's inputs from those of the step before. Not public.
#pragma once

#include <cstdint>

#include "../../tensor/tensor.hpp"

namespace weft::detail {

/// A number that is equal for equal elements, shapes and dtypes; of many elements some are looked at. Of the CPU's
/// memory: elsewhere only shape and dtype count, and it never says the same twice.
uint64_t fingerprint(const Tensor& t);

}  // namespace weft::detail
