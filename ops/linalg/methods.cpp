// Tensor's methods of linear algebra and those of x[…]: each is the free function of its name or linalg's.
#include "../complex.hpp"
#include "../linalg.hpp"
#include "../../tensor/index.hpp"

namespace weft {

#define WEFT_METHOD(name, function, parameters, ...)                                                 \
  Tensor Tensor::name parameters const { return function(*this __VA_OPT__(, ) __VA_ARGS__, where); } \
  Tensor Indexed::name parameters const { return elements().name(__VA_ARGS__ __VA_OPT__(, ) where); }

WEFT_METHOD(inner, weft::inner, (const Tensor& other, Location where), other)
WEFT_METHOD(vdot, weft::vdot, (const Tensor& other, Location where), other)
WEFT_METHOD(kron, weft::kron, (const Tensor& other, Location where), other)
WEFT_METHOD(cross, linalg::cross, (const Tensor& other, int dim, Location where), other, dim)
#define WEFT_SUM_METHOD(name)                                                                                        \
  WEFT_METHOD(name, weft::name, (const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where), a, b, \
              beta, alpha)
WEFT_SUM_METHOD(addmv)
WEFT_SUM_METHOD(addr)
WEFT_SUM_METHOD(addbmm)
WEFT_SUM_METHOD(baddbmm)
WEFT_METHOD(det, linalg::det, (Location where))
WEFT_METHOD(logdet, linalg::logdet, (Location where))
WEFT_METHOD(inverse, linalg::inv, (Location where))
WEFT_METHOD(matrix_exp, linalg::matrix_exp, (Location where))
WEFT_METHOD(matrix_power, linalg::matrix_power, (int64_t n, Location where), n)
WEFT_METHOD(cholesky_inverse, linalg::cholesky_inverse, (bool upper, Location where), upper)
WEFT_METHOD(cholesky_solve, linalg::cholesky_solve, (const Tensor& factor, bool upper, Location where), factor, upper)

Tensor Tensor::pinverse(double rcond, Location where) const { return linalg::pinv(*this, {}, rcond, false, where); }
Tensor Indexed::pinverse(double rcond, Location where) const { return elements().pinverse(rcond, where); }

const Tensor& Tensor::fill_diagonal_(Scalar value, Location where) const {
  if (dim(where) == 2) return diagonal(0, 0, 1, where).fill_(value, where), *this;
  const Dims shape = this->shape(where), steps = strides(where);
  if (shape.size() < 2) raise<ShapeError>({.op = "fill_diagonal_", .problem = "x needs two or more dimensions"}, where);
  int64_t step = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] != shape[0]) {
      raise<ShapeError>({.op = "fill_diagonal_",
                         .problem = "x has more than two dimensions, which must be of one size",
                         .details = shape.text()},
                        where);
    }
    step += steps[d];
  }
  as_strided({shape[0]}, {step}, {}, where).fill_(value, where);
  return *this;
}
Tensor Indexed::fill_diagonal_(Scalar value, Location where) && {
  return write([&](const Tensor& x) { x.fill_diagonal_(value, where); });
}
Tensor Indexed::fill_diagonal_(Scalar value, Location where) const& { return elements().fill_diagonal_(value, where); }

}  // namespace weft
