#include "detail/kind.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/diagonal.hpp"
#include "../ops/linalg.hpp"
#include "../ops/matmul.hpp"
#include "../ops/random.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::Constraint;
using detail::Kind;

Tensor solve_lower(const Tensor& lower, const Tensor& b) { return linalg::solve_triangular(lower, b, false); }

// Parameter 1 is the Cholesky factor, whichever of the three was given.
Tensor half_log_det(const Body& d) { return sum(log(d[1].diagonal(0, -2, -1)), {-1}); }
Tensor covariance(const Body& d) { return matmul(d[1], d[1].transpose(-2, -1)); }
double size_of(const Body& d) { return static_cast<double>(d.event[0]); }

Tensor precision(const Body& d) {
  const Tensor inverse = solve_lower(d[1], eye(d.event[0], {}, d.options()));
  return matmul(inverse.transpose(-2, -1), inverse);
}

/// (x - loc)ᵀ covariance⁻¹ (x - loc).
Tensor squared_distance(const Body& d, const Tensor& x) {
  const Tensor away = (x - d[0]).unsqueeze(-1);
  return sum(square(solve_lower(d[1], away)), {-2, -1});
}

const Kind kind = {
    .name = "MultivariateNormal",
    .parameters = {{{"loc", Constraint::real, 1}, {"scale_tril", Constraint::lower_cholesky, 2}}},
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          const Tensor z = randn(shape, d.options(), g).unsqueeze(-1);
          return d[0] + matmul(d[1], z).squeeze(-1);
        },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          return -0.5 * (size_of(d) * std::log(2 * detail::pi) + squared_distance(d, x)) - half_log_det(d);
        },
    .entropy = [](const Body& d) { return 0.5 * size_of(d) * (1 + std::log(2 * detail::pi)) + half_log_det(d); },
    .mean = [](const Body& d) { return d[0]; },
    .mode = [](const Body& d) { return d[0]; },
    .variance = [](const Body& d) { return sum(square(d[1]), {-1}); },
    .in_support = [](const Body&, const Tensor& x) { return all(x == x, {-1}); },
    .derived =
        [](const Body& d, std::string_view name) {
          if (name == "covariance_matrix") return covariance(d);
          return name == "precision_matrix" ? precision(d) : Tensor();
        }};

void check_matrix(const Tensor& matrix, const Tensor& loc, const char* name) {
  if (matrix.dim() >= 2 && matrix.size(-1) == matrix.size(-2) && loc.dim() >= 1 && matrix.size(-1) == loc.size(-1)) {
    return;
  }
  raise<ShapeError>({.problem = mismatch_text(name, "shape [..., n, n] for loc [..., n]", matrix.shape()),
                     .details = "loc " + loc.shape().text()});
}

/// The Cholesky factor of a symmetric matrix. Raises ValueError if it is not symmetric or not positive definite.
Tensor factor_of(const Tensor& matrix, const char* name, bool validate) {
  const Tensor turned = matrix.transpose(-2, -1);
  if (validate && detail::has_elements(matrix)) {
    const NoGradGuard unrecorded;
    check_elements([matrix, turned, name] {
      if (allclose(matrix, turned, 0, 1e-6)) return;
      raise<ValueError>({.problem = fmt::format("parameter '{}' of MultivariateNormal is not symmetric", name)});
    });
  }
  try {
    return linalg::cholesky(0.5 * (matrix + turned));  // symmetrised, so that gradients are symmetric
  } catch (const LinAlgError&) {
    raise<ValueError>({.problem = fmt::format("parameter '{}' of MultivariateNormal is not positive definite", name)});
  }
}

/// The Cholesky factor of the inverse: (reversed Cᵀ)⁻¹, where C is the Cholesky factor of the precision in reversed
/// order.
Tensor factor_of_inverse(const Tensor& precision_matrix, bool validate) {
  const Tensor turned = factor_of(precision_matrix.flip({-2, -1}), "precision_matrix", validate);
  const Tensor lower = turned.flip({-2, -1}).transpose(-2, -1);
  const int64_t n = lower.size(-1);
  return solve_lower(lower, eye(n, {}, {lower.dtype(), lower.device()}));
}

}  // namespace

Distribution MultivariateNormal(const Tensor& loc, const Spread& spread, Options options, Location where) {
  const CallScope call(kind.name, where);
  const int given =
      spread.covariance_matrix.defined() + spread.precision_matrix.defined() + spread.scale_tril.defined();
  if (given != 1) {
    raise_value("", "one of covariance_matrix, precision_matrix and scale_tril", given);
  }
  const bool validate = options.validate_args.value_or(default_validate_args());
  Tensor factor = spread.scale_tril;
  const char* const name = factor.defined()                     ? "scale_tril"
                           : spread.covariance_matrix.defined() ? "covariance_matrix"
                                                                : "precision_matrix";
  check_matrix(factor.defined()                     ? factor
               : spread.covariance_matrix.defined() ? spread.covariance_matrix
                                                    : spread.precision_matrix,
               checked(loc), name);
  if (spread.covariance_matrix.defined()) {
    factor = factor_of(floating_point(spread.covariance_matrix), name, validate);
  } else if (spread.precision_matrix.defined()) {
    factor = factor_of_inverse(floating_point(spread.precision_matrix), validate);
  }
  Body body = detail::make_body(kind, {&loc, &factor}, options);
  body.event = Dims{factor.size(-1)};
  detail::check_parameters(body);
  return detail::finished(std::move(body));
}

}  // namespace weft::distributions
