// Complex tensors: construction, and components as views and as values.
//
// Gradients are PyTorch's: of a real loss L and z = x + iy the gradient is dL/dx + i dL/dy, so that z - rate * z.grad()
// descends. For a holomorphic f it is g times the conjugate of f'(z). Holomorphic ops (exp, sqrt, pow, ...),
// arithmetic, sums and products take complex tensors; ops that order numbers do not.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// Views of the parts of x, in its real dtype, with x's strides. Of a real x, `real` is x itself; `imag` raises
/// DTypeError.
[[nodiscard]] WEFT_API Tensor real(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor imag(const Tensor& x, Location where = {});
/// A view of complex x [...] as [..., 2] in its real dtype. DTypeError for a real x, ShapeError for one of rank 8.
[[nodiscard]] WEFT_API Tensor view_as_real(const Tensor& x, Location where = {});
/// A view of x [..., 2], in f32 or f64 (else DTypeError), as complex [...]. ShapeError where the last dimension is not
/// 2 numbers side by side, or a stride or the offset of the others is odd.
[[nodiscard]] WEFT_API Tensor view_as_complex(const Tensor& x, Location where = {});

/// A new complex tensor of its parts, which broadcast. DTypeError unless both are f32 or both f64; 16-bit floats are
/// widened to f32.
[[nodiscard]] WEFT_API Tensor complex(const Tensor& re, const Tensor& im, Location where = {});
/// length * (cos(angle) + i sin(angle)). Dtypes, broadcasting and errors as `complex`.
[[nodiscard]] WEFT_API Tensor polar(const Tensor& length, const Tensor& angle, Location where = {});

/// The angle of z in (-pi, pi]; 0 or pi for a real number, NaN for NaN. Complex x gives its real dtype, integers and
/// bool give the default dtype. The gradient at 0 is 0.
[[nodiscard]] WEFT_API Tensor angle(const Tensor& x, Location where = {});
/// z / |z|, 0 at 0; sign(x) of a real x. The dtype is that of x, and the gradient at 0 is 0.
[[nodiscard]] WEFT_API Tensor sgn(const Tensor& x, Location where = {});

}  // namespace weft
