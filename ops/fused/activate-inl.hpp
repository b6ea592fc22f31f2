// Activations by public ops, by value and by name. Not public.
#pragma once

#include <string>

#include "../../backends/activation.hpp"
#include "../../tensor/tensor.hpp"

namespace weft {

/// By public ops, recorded.
Tensor activated(const Tensor& x, Activation activation);
/// "none", "relu", "gelu", "gelu_tanh", "silu", "selu"; ValueError for others.
Activation activation_named(const std::string& name);
/// ValueError for a number that is no enumerator.
void check_activation(Activation activation);

/// A [m, k] · b [k, n], activated and, where `other` has data, times a · other, by the kernel: views of floats of one
/// dtype, `out` contiguous. False where the device lacks it, or where nothing would be summed up.
bool product_by_kernel(const Tensor& out, const View& a, const View& b, const View& other, const View& bias,
                       Activation activation);

/// [..., n] as [rows, n].
Tensor rows_of_last(const Tensor& t);

}  // namespace weft
