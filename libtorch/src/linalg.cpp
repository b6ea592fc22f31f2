// torch::linalg and torch::fft: names of modes, and results as tuples.
#include <torch/fft.h>
#include <torch/linalg.h>

namespace torch::linalg {

namespace {

bool reads_upper(std::string_view uplo) {
  TORCH_CHECK(uplo == "L" || uplo == "U", "Expected UPLO argument to be 'L' or 'U', but got ", uplo);
  return uplo == "U";
}

}  // namespace

Tensor norm(const Tensor& self, const optional<Scalar>& ord, OptionalIntArrayRef dim, bool keepdim,
            optional<ScalarType> dtype) {
  const bool matrix = ord && (dim ? dim->size() == 2 : self.dim() == 2);
  if (matrix) return matrix_norm(self, *ord, dim.value_or(IntArrayRef({-2, -1})), keepdim, dtype);
  return vector_norm(self, ord.value_or(2), dim, keepdim, dtype);
}
Tensor norm(const Tensor& self, std::string_view ord, OptionalIntArrayRef dim, bool keepdim,
            optional<ScalarType> dtype) {
  return matrix_norm(self, ord, dim.value_or(IntArrayRef({-2, -1})), keepdim, dtype);
}
Tensor cond(const Tensor& self, const optional<Scalar>& p) {
  return p ? weft::linalg::cond(self, p->toDouble()) : weft::linalg::cond(self);
}
Tensor cond(const Tensor& self, std::string_view p) { return weft::linalg::cond(self, p); }

std::tuple<Tensor, Tensor> eigh(const Tensor& self, std::string_view uplo) {
  auto [values, vectors] = weft::linalg::eigh(self, reads_upper(uplo));
  return {values, vectors};
}
Tensor eigvalsh(const Tensor& self, std::string_view uplo) { return weft::linalg::eigvalsh(self, reads_upper(uplo)); }
std::tuple<Tensor, Tensor> eig(const Tensor& self) {
  auto [values, vectors] = weft::linalg::eig(self);
  return {values, vectors};
}
std::tuple<Tensor, Tensor> qr(const Tensor& self, std::string_view mode) {
  using Mode = weft::linalg::QrMode;
  TORCH_CHECK(mode == "reduced" || mode == "complete" || mode == "r", "qr received unrecognized mode '", mode,
              "' but expected one of 'reduced', 'r', or 'complete'");
  auto [q, r] = weft::linalg::qr(self, mode == "reduced" ? Mode::reduced : mode == "r" ? Mode::r : Mode::complete);
  return {q, r};
}
TensorTriple svd(const Tensor& self, bool full_matrices) {
  auto [u, s, vh] = weft::linalg::svd(self, full_matrices);
  return {u, s, vh};
}
TensorTriple lu(const Tensor& self) {
  auto [p, l, u] = weft::linalg::lu(self);
  return {p, l, u};
}
std::tuple<Tensor, Tensor> lu_factor(const Tensor& self) {
  auto [lu, pivots] = weft::linalg::lu_factor(self);
  return {lu, pivots};
}
TensorTriple lu_factor_ex(const Tensor& self) {
  auto [lu, pivots, info] = weft::linalg::lu_factor_ex(self);
  return {lu, pivots, info};
}
std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& self, bool upper, bool check_errors) {
  auto [factor, info] = weft::linalg::cholesky_ex(self, upper, check_errors);
  return {factor, info};
}
std::tuple<Tensor, Tensor> inv_ex(const Tensor& self, bool check_errors) {
  auto [inverse, info] = weft::linalg::inv_ex(self, check_errors);
  return {inverse, info};
}
std::tuple<Tensor, Tensor> solve_ex(const Tensor& input, const Tensor& other, bool left, bool check_errors) {
  auto [result, info] = weft::linalg::solve_ex(input, other, left, check_errors);
  return {result, info};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq(const Tensor& self, const Tensor& b, optional<double> cond,
                                                 optional<std::string_view>) {
  auto [solution, residuals, rank, values] = weft::linalg::lstsq(self, b, cond);
  return {solution, residuals, rank, values};
}

}  // namespace torch::linalg

namespace torch::fft::detail {

weft::fft::Norm norm(const optional<std::string_view>& name) {
  using enum weft::fft::Norm;
  if (!name || *name == "backward") return backward;
  TORCH_CHECK(*name == "ortho" || *name == "forward", "Invalid normalization mode: \"", *name, "\"");
  return *name == "ortho" ? ortho : forward;
}
weft::fft::Options along(const optional<int64_t>& n, int64_t dim, const optional<std::string_view>& name) {
  return {.n = n, .dim = at::i32(dim), .norm = norm(name)};
}
weft::fft::ManyOptions along(const OptionalIntArrayRef& s, const OptionalIntArrayRef& dims,
                             const optional<std::string_view>& name) {
  weft::fft::ManyOptions options{.norm = norm(name)};
  if (s) options.s = at::Dims(*s);
  if (dims) options.dims = at::Dims(*dims);
  return options;
}

}  // namespace torch::fft::detail
