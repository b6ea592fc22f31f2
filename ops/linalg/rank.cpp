// Functions of singular values: ranks, generalised inverses, least squares, norms and condition numbers.
#include <cmath>
#include <limits>

#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "../reduce.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

/// The threshold below which singular values count as 0: max(atol, rtol * the largest), [..., 1].
Tensor bound_of(const Tensor& values, int64_t m, int64_t n, std::optional<double> atol, std::optional<double> rtol) {
  const double relative =
      rtol.value_or(atol.value_or(0) > 0 ? 0 : static_cast<double>(std::max(m, n)) * machine_epsilon(values.dtype()));
  const Tensor largest = values.size(-1) == 0 ? zeros(with(values.shape(), {}), {values.dtype(), values.device()})
                                              : amax(abs(values), {-1}, true);
  return maximum(largest * relative, atol.value_or(0));
}

void check_tolerances(std::optional<double> atol, std::optional<double> rtol) {
  for (const auto& t : {atol, rtol}) {
    if (t) expect_at_least("tolerance", *t, 0);
  }
}

/// 1 / v, 0 where v counts as 0.
Tensor inverse_above(const Tensor& v, const Tensor& bound) {
  const Tensor none = le(abs(v), bound);
  return masked_fill(1 / masked_fill(v, none, 1), none, 0);
}

// p = x⁺: -pᴴ g pᴴ + (1 - x p) gᴴ p pᴴ + pᴴ p gᴴ (1 - p x) (Golub and Pereyra 1973).
struct PinvBackward {
  Saved x;
  SavedOutput inverse;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor &a = x.get(self), p = inverse.get(self), ph = mH(p), gh = mH(g);
    const Tensor first = matmul(matmul(gh, p), ph), last = matmul(matmul(ph, p), gh);
    return first - matmul(matmul(a, p), first) + last - matmul(matmul(last, p), a) - matmul(matmul(ph, g), ph);
  }
};

// x on the CPU or meta.
Tensor inverse_of(const Tensor& x, std::optional<double> atol, std::optional<double> rtol, bool hermitian) {
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const int64_t m = x.size(-2), n = x.size(-1);
    if (x.numel() == 0) {
      out = zeros(with(batch_of(x), {n, m}), {x.dtype(), x.device()});
    } else if (hermitian) {
      const Eigen e = eigh(x.detach());
      out =
          matmul(e.vectors * by_columns(inverse_above(e.values, bound_of(e.values, m, n, atol, rtol))), mH(e.vectors));
    } else {
      const Svd d = svd(x.detach(), false);
      out = matmul(mH(d.vh) * by_columns(inverse_above(d.s, bound_of(d.s, m, n, atol, rtol))), mH(d.u));
    }
  }
  if (should_record(x)) record(out, PinvBackward{Saved(x), SavedOutput(out)}, x);
  return out;
}

}  // namespace

Tensor pinv(const Tensor& operand, std::optional<double> atol, std::optional<double> rtol, bool hermitian,
            Location where) {
  const CallScope call("linalg_pinv", where);
  WEFT_IN_FULL(linalg::pinv, operand, atol, rtol, hermitian, where);
  hermitian ? check_square(operand) : check_matrix(operand);
  check_tolerances(atol, rtol);
  const Home home(operand);
  return home(inverse_of(brought(operand), atol, rtol, hermitian));
}

Tensor matrix_rank(const Tensor& operand, std::optional<double> atol, std::optional<double> rtol, bool hermitian,
                   Location where) {
  const CallScope call("linalg_matrix_rank", where);
  WEFT_IN_FULL(linalg::matrix_rank, operand, atol, rtol, hermitian, where);
  hermitian ? check_square(operand) : check_matrix(operand);
  check_tolerances(atol, rtol);
  const NoGradGuard unrecorded;
  const Home home(operand);
  const Tensor x = brought(operand).detach();
  const Tensor values = hermitian ? abs(eigvalsh(x)) : svdvals(x);
  if (values.size(-1) == 0) return home(zeros(batch_of(x), {DType::i64, x.device()}));
  return home(sum(gt(values, bound_of(values, x.size(-2), x.size(-1), atol, rtol)), {-1}));
}

LeastSquares lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond, Location where) {
  const CallScope call("linalg_lstsq", where);
  WEFT_IN_FULL(linalg::lstsq, a, b, rcond, where);
  check_matrix(a);
  check_alike(a, b);
  Dims vectors = a.shape();
  vectors.erase(vectors.size() - 1);
  const bool vector = b.dim() + 1 == a.dim() && b.shape() == vectors;
  const Tensor right = vector ? b.unsqueeze(-1) : b;
  check_matrix(right);
  if (a.size(-2) != right.size(-2)) {
    raise<ShapeError>(
        {.problem = fmt::format("{} equations do not fit a right side of shape {}", a.size(-2), b.shape().text())});
  }
  check_tolerances(rcond, {});
  common_batch(a, right);
  const Home home(b);
  const Tensor left = brought(a), wanted = brought(right);
  const int64_t m = left.size(-2), n = left.size(-1), k = std::min(m, n);
  const Tensor x = matmul(inverse_of(left, {}, rcond, false), wanted);
  LeastSquares out;
  out.solution = home(vector ? x.squeeze(-1) : x);
  const Tensor values = svdvals(left);
  const Tensor rank = k == 0 ? zeros(batch_of(left), {DType::i64, left.device()})
                             : sum(gt(values.detach(), bound_of(values.detach(), m, n, {}, rcond)), {-1});
  out.rank = home(rank);
  out.singular_values = home(values);
  if (m > n && is_meta(rank)) {
    raise<NotImplementedError>({.problem = "whether there are residuals follows from values"});
  }
  const bool full = m > n && all(eq(rank, n)).item<bool>();
  const auto remains = [&] {
    const Tensor apart = matmul(left, x) - wanted;
    return sum(square(is_complex(apart.dtype()) ? abs(apart) : apart), {-2});
  };
  out.residuals = home(full ? remains() : zeros({0}, {real_type(x.dtype()), x.device()}));
  return out;
}

// ---- norms ----------------------------------------------------------------------------------------------------------

namespace {

enum class MatrixNorm : uint8_t { frobenius, nuclear, most_spectral, least_spectral, columns, rows };
struct Norm {
  MatrixNorm kind;
  bool least = false;
};
Norm norm_named(std::string_view order) {
  if (order == "fro") return {MatrixNorm::frobenius};
  if (order == "nuc") return {MatrixNorm::nuclear};
  raise_value("ord", "'fro', 'nuc', ±1, ±2 or ±infinity", in_quotes(order));
}
Norm norm_numbered(double order) {
  const double size = std::fabs(order);
  if (size == 2) return {order > 0 ? MatrixNorm::most_spectral : MatrixNorm::least_spectral};
  if (size == 1) return {MatrixNorm::columns, order < 0};
  if (std::isinf(order)) return {MatrixNorm::rows, order < 0};
  raise_value("ord", "'fro', 'nuc', ±1, ±2 or ±infinity", order);
}

Tensor matrix_norm_of(const Tensor& operand, Norm norm, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  if (dims.size() != 2) raise_value("dim", "2 dimensions", dims.size());
  check_matrix(operand);
  const Tensor x = dtype ? operand.to(*dtype) : operand;
  check_numbers(x);
  const int rows = wrap_dim(dims[0], x.dim()), columns = wrap_dim(dims[1], x.dim());
  if (rows == columns) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", rows)});
  if (norm.kind == MatrixNorm::frobenius) return vector_norm(x, 2, {rows, columns}, keepdim);
  if (norm.kind == MatrixNorm::columns || norm.kind == MatrixNorm::rows) {
    const Dims along{norm.kind == MatrixNorm::columns ? rows : columns};
    const Dims other{norm.kind == MatrixNorm::columns ? columns : rows};
    const Tensor sums = sum(abs(to_compute_type(x)), along, true);
    const bool nothing = sums.size(static_cast<int>(other[0])) == 0;  // the largest of none is 0, there is no least
    Tensor out = nothing && !norm.least
                     ? sum(sums, other, true).to(real_type(x.dtype()))
                     : (norm.least ? amin(sums, other, true) : amax(sums, other, true)).to(real_type(x.dtype()));
    return keepdim ? out : out.squeeze(std::max(rows, columns)).squeeze(std::min(rows, columns));
  }
  Dims order;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != rows && d != columns) order.push_back(d);
  }
  order.push_back(rows);
  order.push_back(columns);
  const Tensor values = svdvals(x.permute(order));
  const bool summed =
      norm.kind == MatrixNorm::nuclear || (norm.kind == MatrixNorm::most_spectral && values.size(-1) == 0);
  if (!summed && values.size(-1) == 0) {
    raise<ShapeError>(
        {.problem = fmt::format("a matrix without elements has no such norm: shape {}", x.shape().text())});
  }
  const Tensor out = summed                                   ? sum(values, {-1})
                     : norm.kind == MatrixNorm::most_spectral ? amax(values, {-1})
                                                              : amin(values, {-1});  // equal ones share the gradient
  return keepdim ? out.unsqueeze(std::min(rows, columns)).unsqueeze(std::max(rows, columns)) : out;
}

Tensor condition_of(const Tensor& x, std::optional<Norm> norm) {
  if (!norm || norm->kind == MatrixNorm::most_spectral || norm->kind == MatrixNorm::least_spectral) {
    check_matrix(x);
    const Tensor values = svdvals(x);
    if (values.size(-1) == 0) {
      raise<ShapeError>(
          {.problem = fmt::format("a matrix without elements has no condition: shape {}", x.shape().text())});
    }
    const Tensor greatest = values.select(-1, 0), least = values.select(-1, values.size(-1) - 1);
    return norm && norm->kind == MatrixNorm::least_spectral ? least / greatest : greatest / least;
  }
  check_square(x);
  const auto size = [&](const Tensor& m) { return matrix_norm_of(m, *norm, {-2, -1}, false, {}); };
  if (x.numel() == 0) return zeros(batch_of(x), {real_type(x.dtype()), x.device()});
  try {
    return size(x) * size(inv(x));
  } catch (const LinAlgError&) {  // some are singular
    detail::refuse_recording("which matrices are singular is read on the host");
    const Tensor singular = eq(det(x.detach()), 0);
    const Tensor safe = weft::where(by_rows(by_rows(singular)), eye(x.size(-1), {}, {x.dtype(), x.device()}), x);
    return masked_fill(size(x) * size(inv(safe)), singular, HUGE_VAL);
  }
}

}  // namespace

Tensor matrix_norm(const Tensor& x, std::string_view order, const Dims& dims, bool keepdim, std::optional<DType> dtype,
                   Location where) {
  const CallScope call("linalg_matrix_norm", where);
  WEFT_IN_FULL(linalg::matrix_norm, x, order, dims, keepdim, dtype, where);
  return matrix_norm_of(x, norm_named(order), dims, keepdim, dtype);
}
Tensor matrix_norm(const Tensor& x, double order, const Dims& dims, bool keepdim, std::optional<DType> dtype,
                   Location where) {
  const CallScope call("linalg_matrix_norm", where);
  WEFT_IN_FULL(linalg::matrix_norm, x, order, dims, keepdim, dtype, where);
  return matrix_norm_of(x, norm_numbered(order), dims, keepdim, dtype);
}

Tensor cond(const Tensor& x, Location where) {
  const CallScope call("linalg_cond", where);
  WEFT_IN_FULL(linalg::cond, x, where);
  return condition_of(x, {});
}
Tensor cond(const Tensor& x, double order, Location where) {
  const CallScope call("linalg_cond", where);
  WEFT_IN_FULL(linalg::cond, x, order, where);
  return condition_of(x, norm_numbered(order));
}
Tensor cond(const Tensor& x, std::string_view order, Location where) {
  const CallScope call("linalg_cond", where);
  WEFT_IN_FULL(linalg::cond, x, order, where);
  return condition_of(x, norm_named(order));
}

namespace {

std::vector<Tensor> call_lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond) {
  auto [solution, residuals, rank, values] = lstsq(a, b, rcond);
  return {solution, residuals, rank, values};
}
Tensor call_matrix_norm(const Tensor& x, const Value& ord, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  const auto* text = std::get_if<std::string>(&ord);
  if (text != nullptr) return matrix_norm(x, std::string_view(*text), dims, keepdim, dtype);
  return matrix_norm(x, detail::unboxed<double>(ord, 1), dims, keepdim, dtype);
}
Tensor call_cond(const Tensor& x, const Value& p) {
  if (std::holds_alternative<std::monostate>(p)) return cond(x);
  const auto* text = std::get_if<std::string>(&p);
  return text != nullptr ? cond(x, std::string_view(*text)) : cond(x, detail::unboxed<double>(p, 1));
}

std::vector<Values> pinv_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3})},
          {samples::spread(make, {4, 2})},
          {samples::spread(make, {2, 2, 3}), 1e-3},
          {make.tensor({0, 2})},
          {make.tensor({0, 2, 3})}};
}
std::vector<Values> lstsq_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3}), make.tensor({3, 2})},
          {samples::spread(make, {2, 3}), make.tensor({2, 1})},
          {samples::spread(make, {2, 2, 2}), make.tensor({2, 2})},
          {samples::spread(make, {3, 2}), make.tensor({3, 2})},
          {make.tensor({2, 0}), make.tensor({2, 1})}};
}
std::vector<Values> matrix_norm_samples(SampleMaker& make) {
  const double infinite = HUGE_VAL;
  return {{samples::spread(make, {3, 3})},
          {samples::spread(make, {2, 2, 3}), "nuc"},
          {samples::spread(make, {2, 3, 2}), 2.0, Dims{0, 2}, true},
          {samples::spread(make, {3, 2}), int64_t{-2}},
          {samples::spread(make, {2, 3, 2}), int64_t{1}, Dims{-1, 0}},
          {samples::spread(make, {3, 2}), int64_t{-1}},
          {samples::spread(make, {3, 2}), infinite, Dims{-2, -1}, true},
          {samples::spread(make, {3, 2}), -infinite},
          {make.tensor({0, 2, 2})}};
}
std::vector<Values> cond_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3})},
          {samples::spread(make, {2, 3, 2}), int64_t{-2}},
          {samples::regular(make, {2, 2, 2}), "fro"},
          {samples::regular(make, {3, 3}), int64_t{1}},
          {samples::spread(make, {3, 3}), "nuc"},
          {make.tensor({0, 2, 2})}};
}

constexpr OpRecord records[] = {
    {"linalg_pinv", "linalg_pinv(x, atol=None, rtol=None, hermitian=False)",
     "Moore and Penrose's inverse; singular values up to max(atol, rtol * the largest) count as 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, pinv_samples, parts::all_but_last<2>,
     detail::boxed<linalg::pinv>},
    {"linalg_matrix_rank", "linalg_matrix_rank(x, atol|tol=None, rtol=None, hermitian=False)",
     "How many singular values are above max(atol, rtol * the largest).", false, OpRecord::Domain::floating,
     pinv_samples, parts::all_but_last<2>, detail::boxed<linalg::matrix_rank>},
    {"linalg_lstsq", "linalg_lstsq(a, b, rcond=None) -> (solution, residuals, rank, singular_values)",
     "The x of least length that brings a x nearest to b, the sums of squares that remain, the rank and a's singular "
     "values.",
     OpFacts(true, Autocast::full, OpFacts::reads_values), OpRecord::Domain::floating, lstsq_samples, parts::whole,
     detail::boxed<call_lstsq>},
    {"linalg_matrix_norm", "linalg_matrix_norm(x, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None)",
     "'fro', the root of the sum of squares; 'nuc', the sum of the singular values; ±2, the largest or smallest of "
     "them; "
     "±1, the largest or smallest sum of magnitudes of a column; ±infinity, that of a row.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, matrix_norm_samples, parts::along,
     detail::boxed<call_matrix_norm>},
    {"linalg_cond", "linalg_cond(x, p=None)",
     "norm(x) norm(x⁻¹), by singular values unless another norm is given; infinity for a singular matrix.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, cond_samples, parts::all_but_last<2>,
     detail::boxed<call_cond>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> rank_records() { return linalg::records; }
}  // namespace weft
