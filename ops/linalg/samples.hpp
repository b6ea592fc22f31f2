// Matrices for sample calls. Not public.
#pragma once

#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../record.hpp"

namespace weft::linalg::samples {

inline Tensor ones_on_diagonal(const Tensor& like, double factor) {
  return eye(like.size(-2), like.size(-1), {like.dtype(), like.device()}) * factor;
}
/// Far from singular.
inline Tensor regular(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.5, 0.5);
  return x + ones_on_diagonal(x, 2.0);
}
/// 1, 2, … on the diagonal.
inline Tensor steps_on_diagonal(const Tensor& like) {
  return ones_on_diagonal(like, 1.0) * (arange(like.size(-1), {real_type(like.dtype()), like.device()}) + 1);
}
inline Tensor adjoint(const Tensor& x) { return conjugate(x).transpose(-2, -1); }
/// Hermitian, with values that differ.
inline Tensor symmetric(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  return x + adjoint(x) + steps_on_diagonal(x);
}
/// Hermitian and positive definite.
inline Tensor positive(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  return x + adjoint(x) + ones_on_diagonal(x, 3.0);
}
/// With singular values that differ.
inline Tensor spread(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  return x + steps_on_diagonal(x);
}

}  // namespace weft::linalg::samples
