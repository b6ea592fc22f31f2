// Normalisation over the last dimensions.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, of sizes `normalized_shape` (Ba, Kiros,
/// Hinton 2016). weight and bias have that shape or are undefined; the result has x's shape and dtype. 16-bit floats
/// are computed in f32 and rounded once; weight and bias may then be f32. Raises ShapeError if `normalized_shape` is
/// empty or differs from the last sizes of x or the shape of weight or bias; DTypeError unless all are floating,
/// DeviceError if devices differ.
[[nodiscard]] WEFT_API Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                                         const Tensor& bias = {}, double eps = 1e-5, Location where = {});

/// When rms_norm rounds 16-bit floats: once at the end, or x / rms before the multiplication by the weight, too.
enum class RmsCast : uint8_t { once, before_weight };

/// x / sqrt(mean(x * x) + eps) * weight over the last dimensions, of sizes `normalized_shape` (Zhang and Sennrich
/// 2019). weight has that shape or is undefined, and may be f32 with a 16-bit x or the reverse; the result has x's
/// dtype. `eps` is the machine epsilon of x's dtype, f32's for 16-bit floats, unless given. A row of zeros gives 0, or
/// NaN with eps = 0. Errors as layer_norm.
[[nodiscard]] WEFT_API Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                                       std::optional<double> eps = {}, RmsCast cast = RmsCast::once,
                                       Location where = {});

}  // namespace weft
