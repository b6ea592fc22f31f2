// torch::linalg: factors, solutions, eigenvalues and norms of matrices.
#pragma once

#include <torch/types.h>

namespace torch::linalg {

using TensorTriple = std::tuple<Tensor, Tensor, Tensor>;

inline Tensor cholesky(const Tensor& self, bool upper = false) { return weft::linalg::cholesky(self, upper); }
inline Tensor det(const Tensor& self) { return weft::linalg::det(self); }
inline Tensor inv(const Tensor& self) { return weft::linalg::inv(self); }
inline std::tuple<Tensor, Tensor> slogdet(const Tensor& self) { return self.slogdet(); }
inline Tensor eigvals(const Tensor& self) { return weft::linalg::eigvals(self); }
inline Tensor svdvals(const Tensor& self) { return weft::linalg::svdvals(self); }
inline Tensor matrix_exp(const Tensor& self) { return weft::linalg::matrix_exp(self); }
inline Tensor matrix_power(const Tensor& self, int64_t n) { return weft::linalg::matrix_power(self, n); }
inline Tensor multi_dot(TensorList tensors) { return weft::linalg::multi_dot(at::unwrap(tensors)); }
inline Tensor householder_product(const Tensor& input, const Tensor& tau) {
  return weft::linalg::householder_product(input, tau);
}
inline Tensor solve(const Tensor& input, const Tensor& other, bool left = true) {
  return weft::linalg::solve(input, other, left);
}
inline Tensor solve_triangular(const Tensor& input, const Tensor& other, bool upper, bool left = true,
                               bool unitriangular = false) {
  return weft::linalg::solve_triangular(input, other, upper, left, unitriangular);
}
inline Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& other, bool left = true,
                       bool adjoint = false) {
  return weft::linalg::lu_solve(lu, pivots, other, left, adjoint);
}
inline Tensor tensorinv(const Tensor& self, int64_t ind = 2) { return weft::linalg::tensorinv(self, ind); }
inline Tensor tensorsolve(const Tensor& self, const Tensor& other, OptionalIntArrayRef dims = nullopt) {
  return weft::linalg::tensorsolve(self, other, dims ? at::Dims(*dims) : at::Dims());
}
inline Tensor cross(const Tensor& self, const Tensor& other, int64_t dim = -1) {
  return weft::linalg::cross(self, other, at::i32(dim));
}
inline Tensor vecdot(const Tensor& self, const Tensor& other, int64_t dim = -1) {
  return weft::linalg::vecdot(self, other, at::i32(dim));
}
inline Tensor vander(const Tensor& self, optional<int64_t> n = nullopt) { return weft::linalg::vander(self, n); }
inline Tensor diagonal(const Tensor& self, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1) {
  return self.diagonal(offset, dim1, dim2);
}
inline Tensor pinv(const Tensor& self, double rcond = 1e-15, bool hermitian = false) {
  return weft::linalg::pinv(self, nullopt, rcond, hermitian);
}
inline Tensor pinv(const Tensor& self, optional<double> atol, optional<double> rtol, bool hermitian) {
  return weft::linalg::pinv(self, atol, rtol, hermitian);
}
inline Tensor matrix_rank(const Tensor& self, double tol, bool hermitian = false) {
  return weft::linalg::matrix_rank(self, tol, nullopt, hermitian);
}
inline Tensor matrix_rank(const Tensor& self, optional<double> atol = nullopt, optional<double> rtol = nullopt,
                          bool hermitian = false) {
  return weft::linalg::matrix_rank(self, atol, rtol, hermitian);
}
inline Tensor matrix_norm(const Tensor& self, const Scalar& ord, IntArrayRef dim = {-2, -1}, bool keepdim = false,
                          optional<ScalarType> dtype = nullopt) {
  return weft::linalg::matrix_norm(self, ord.toDouble(), dim, keepdim, c10::dtype_of(dtype));
}
inline Tensor matrix_norm(const Tensor& self, std::string_view ord = "fro", IntArrayRef dim = {-2, -1},
                          bool keepdim = false, optional<ScalarType> dtype = nullopt) {
  return weft::linalg::matrix_norm(self, ord, dim, keepdim, c10::dtype_of(dtype));
}
inline Tensor vector_norm(const Tensor& self, const Scalar& ord = 2, OptionalIntArrayRef dim = nullopt,
                          bool keepdim = false, optional<ScalarType> dtype = nullopt) {
  return self.norm(ord, dim ? at::Dims(*dim) : at::Dims(), keepdim, dtype);
}
/// A norm of the vector `self`, or with two dimensions and an order of matrices.
Tensor norm(const Tensor& self, const optional<Scalar>& ord = nullopt, OptionalIntArrayRef dim = nullopt,
            bool keepdim = false, optional<ScalarType> dtype = nullopt);
Tensor norm(const Tensor& self, std::string_view ord, OptionalIntArrayRef dim = nullopt, bool keepdim = false,
            optional<ScalarType> dtype = nullopt);
Tensor cond(const Tensor& self, const optional<Scalar>& p = nullopt);
Tensor cond(const Tensor& self, std::string_view p);

// ---- several results ----
/// `uplo` is the triangle that is read: "L" or "U".
std::tuple<Tensor, Tensor> eigh(const Tensor& self, std::string_view uplo = "L");
Tensor eigvalsh(const Tensor& self, std::string_view uplo = "L");
std::tuple<Tensor, Tensor> eig(const Tensor& self);
/// `mode` is "reduced", "complete" or "r".
std::tuple<Tensor, Tensor> qr(const Tensor& self, std::string_view mode = "reduced");
TensorTriple svd(const Tensor& self, bool full_matrices = true);
TensorTriple lu(const Tensor& self);
std::tuple<Tensor, Tensor> lu_factor(const Tensor& self);
TensorTriple lu_factor_ex(const Tensor& self);
std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& self, bool upper = false, bool check_errors = false);
std::tuple<Tensor, Tensor> inv_ex(const Tensor& self, bool check_errors = false);
std::tuple<Tensor, Tensor> solve_ex(const Tensor& input, const Tensor& other, bool left = true,
                                    bool check_errors = false);
/// Solution, residuals, rank and singular values. The driver is chosen by Weft.
std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq(const Tensor& self, const Tensor& b, optional<double> cond = nullopt,
                                                 optional<std::string_view> driver = nullopt);

}  // namespace torch::linalg
