// Fingerprints for comparing a step's inputs with those of the step before. Not public.
#pragma once

#include <cstdint>

#include "../../tensor/tensor.hpp"

namespace weft::detail {

/// Returns a hash of the elements (sampled if there are many), shape and dtype. Elements are hashed only on the CPU;
/// for other devices every call returns another value.
uint64_t fingerprint(const Tensor& t);

}  // namespace weft::detail
