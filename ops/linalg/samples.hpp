// Matrices for sample calls. Not public.
#pragma once

#include "../create.hpp"
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
/// Symmetric, with values that differ.
inline Tensor symmetric(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  const Tensor steps = arange(x.size(-1), {x.dtype(), x.device()});
  return x + x.transpose(-2, -1) + ones_on_diagonal(x, 1.0) * (steps + 1);
}
/// Symmetric and positive definite.
inline Tensor positive(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  return x + x.transpose(-2, -1) + ones_on_diagonal(x, 3.0);
}
/// With singular values that differ.
inline Tensor spread(SampleMaker& make, const Dims& shape) {
  const Tensor x = make.tensor(shape, -0.25, 0.25);
  const Tensor steps = arange(x.size(-1), {x.dtype(), x.device()});
  return x + ones_on_diagonal(x, 1.0) * (steps + 1);
}

}  // namespace weft::linalg::samples
