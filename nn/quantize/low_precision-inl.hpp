// Forward of Linear layers in low precision. Not public.
#pragma once

#include <cstdint>

#include "../../tensor/tensor.hpp"

namespace weft::nn {

class Module;

namespace detail {

/// The precision in the state of a Linear; bits and group size are those of WeightQuantOptions.
struct LowPrecision {
  enum class Kind : uint8_t { none, quantized, fp8 } kind = Kind::none;
  int64_t bits = 8, group_size = 128;
};

/// Forward of a Linear; weight and bias may be undefined.
WEFT_API Tensor forward_in_low_precision(const Module& layer, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         Location where);
WEFT_API bool is_in_low_precision(const Module& module);

/// x · weightᵀ + bias in 8-bit floats, recorded.
Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where);

}  // namespace detail
}  // namespace weft::nn
