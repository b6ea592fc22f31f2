// How a Linear in low precision computes. Not public.
#pragma once

#include <cstdint>

#include "../../tensor/tensor.hpp"

namespace weft::nn {

class Module;

namespace detail {

/// In the state of a Linear; bits and group size are those of WeightQuantOptions.
struct LowPrecision {
  enum class Kind : uint8_t { none, quantized, fp8 } kind = Kind::none;
  int64_t bits = 8, group_size = 128;
};

/// Of a Linear; its weight and bias may be undefined where it has none.
WEFT_API Tensor forward_in_low_precision(const Module& layer, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         Location where);
WEFT_API bool is_in_low_precision(const Module& module);

/// x · weightᵀ + bias in 8-bit floats, recorded.
Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where);

}  // namespace detail
}  // namespace weft::nn
