// Univariate distributions with draws that are formulas of uniform or normal draws.
#include "detail/kind.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/random.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::Constraint;
using detail::finished;
using detail::infinity;
using detail::Kind;
using detail::make_body;
using detail::open_uniform;
using detail::pi;

Tensor standard_normal(const Body& d, const Dims& shape, Generator* generator) {
  return randn(shape, d.options(), generator);
}
Tensor real(const Body&, const Tensor& x) { return x == x; }
Tensor nonnegative(const Body&, const Tensor& x) { return x >= 0; }
Tensor loc_of(const Body& d) { return d[0]; }

Tensor normal_entropy(const Tensor& scale) { return 0.5 + 0.5 * std::log(2 * pi) + log(scale); }

const Kind normal_kind = {
    .name = "Normal",
    .parameters = {{{"loc"}, {"scale", Constraint::positive}}},
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return d[0] + d[1] * standard_normal(d, shape, g); },
    .log_prob = [](const Body& d, const Tensor& x) { return detail::normal_log_prob(d[0], d[1], x); },
    .cdf = [](const Body& d, const Tensor& x) { return detail::normal_cdf(d[0], d[1], x); },
    .icdf = [](const Body& d, const Tensor& p) { return detail::normal_icdf(d[0], d[1], p); },
    .entropy = [](const Body& d) { return normal_entropy(d[1]); },
    .mean = loc_of,
    .mode = loc_of,
    .variance = [](const Body& d) { return square(d[1]); },
    .in_support = real};

const Kind log_normal_kind = {
    .name = "LogNormal",
    .parameters = normal_kind.parameters,
    .draw = [](const Body& d, const Dims& s, Generator* g) { return exp(d[0] + d[1] * standard_normal(d, s, g)); },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor zero = x == 0, y = log(masked_fill(x, zero, 1));
          return masked_fill(detail::normal_log_prob(d[0], d[1], y) - y, zero, -infinity);
        },
    .cdf = [](const Body& d, const Tensor& x) { return detail::normal_cdf(d[0], d[1], log(x)); },
    .icdf = [](const Body& d, const Tensor& p) { return exp(detail::normal_icdf(d[0], d[1], p)); },
    .entropy = [](const Body& d) { return normal_entropy(d[1]) + d[0]; },
    .mean = [](const Body& d) { return exp(d[0] + 0.5 * square(d[1])); },
    .mode = [](const Body& d) { return exp(d[0] - square(d[1])); },
    .variance = [](const Body& d) { return expm1(square(d[1])) * exp(2 * d[0] + square(d[1])); },
    .in_support = [](const Body&, const Tensor& x) { return x > 0; }};

const Kind half_normal_kind = {
    .name = "HalfNormal",
    .parameters = {{{"scale", Constraint::positive}}},
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return d[0] * abs(standard_normal(d, shape, g)); },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor inside = detail::normal_log_prob(zeros({}, d.options()), d[0], x) + std::log(2.0);
          return masked_fill(inside, x < 0, -infinity);
        },
    .cdf = [](const Body& d, const Tensor& x) { return erf(relu(x) / (d[0] * std::sqrt(2.0))); },
    .icdf = [](const Body& d, const Tensor& p) { return d[0] * (std::sqrt(2.0) * erfinv(p)); },
    .entropy = [](const Body& d) { return normal_entropy(d[0]) - std::log(2.0); },
    .mean = [](const Body& d) { return d[0] * std::sqrt(2 / pi); },
    .mode = [](const Body& d) { return zeros_like(d[0]); },
    .variance = [](const Body& d) { return square(d[0]) * (1 - 2 / pi); },
    .in_support = nonnegative};

const Kind uniform_kind = {
    .name = "Uniform",
    .parameters = {{{"low"}, {"high"}}},
    .draw = [](const Body& d, const Dims& s, Generator* g) { return d[0] + (d[1] - d[0]) * rand(s, d.options(), g); },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor inside = logical_and(d[0] <= x, x < d[1]);
          return log(inside.to(d[0].dtype())) - log(d[1] - d[0]);
        },
    .cdf = [](const Body& d, const Tensor& x) { return clip((x - d[0]) / (d[1] - d[0]), 0, 1); },
    .icdf = [](const Body& d, const Tensor& p) { return p * (d[1] - d[0]) + d[0]; },
    .entropy = [](const Body& d) { return log(d[1] - d[0]); },
    .mean = [](const Body& d) { return 0.5 * (d[0] + d[1]); },
    .mode = [](const Body& d) { return d[0] * std::nan(""); },
    .variance = [](const Body& d) { return square(d[1] - d[0]) / 12; },
    .in_support = [](const Body& d, const Tensor& x) { return logical_and(d[0] <= x, x <= d[1]); }};

const Kind laplace_kind = {
    .name = "Laplace",
    .parameters = normal_kind.parameters,
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          const double limit = 1 - detail::epsilon_of(d[0].dtype());
          const Tensor u = clip(2 * rand(shape, d.options(), g) - 1, -limit, limit);
          return d[0] - d[1] * sign(u) * log1p(-abs(u));
        },
    .log_prob = [](const Body& d, const Tensor& x) { return -log(2 * d[1]) - abs(x - d[0]) / d[1]; },
    .cdf =
        [](const Body& d, const Tensor& x) {
          const Tensor z = (x - d[0]) / d[1], below = z < 0, tail = 0.5 * exp(where(below, z, -z));
          return where(below, tail, 1 - tail);
        },
    .icdf =
        [](const Body& d, const Tensor& p) {
          const Tensor tail = where(p < 0.5, p, 1 - p);
          return d[0] - d[1] * sign(p - 0.5) * log(2 * tail);
        },
    .entropy = [](const Body& d) { return 1 + log(2 * d[1]); },
    .mean = loc_of,
    .mode = loc_of,
    .variance = [](const Body& d) { return 2 * square(d[1]); },
    .in_support = real};

const Kind cauchy_kind = {
    .name = "Cauchy",
    .parameters = normal_kind.parameters,
    .draw = [](const Body& d, const Dims& shape,
               Generator* g) { return d[0] + d[1] * tan(pi * (open_uniform(d, shape, g) - 0.5)); },
    .log_prob = [](const Body& d,
                   const Tensor& x) { return -std::log(pi) - log(d[1]) - detail::log1p_square((x - d[0]) / d[1]); },
    .cdf =
        [](const Body& d, const Tensor& x) {
          const Tensor z = (d[0] - x) / d[1];
          return atan2(ones_like(z), z) / pi;
        },
    .icdf =
        [](const Body& d, const Tensor& p) {
          const Tensor below = p < 0.5, tail = where(below, p, 1 - p), far = tail < 0.25;
          const Tensor distance =
              where(far, 1 / tan(pi * masked_fill(tail, logical_not(far), 0.25)), tan(pi * (0.5 - tail)));
          return d[0] + d[1] * where(below, -distance, distance);
        },
    .entropy = [](const Body& d) { return std::log(4 * pi) + log(d[1]); },
    .mean = [](const Body& d) { return full_like(d[0], std::nan("")); },
    .mode = loc_of,
    .variance = [](const Body& d) { return full_like(d[0], infinity); },
    .in_support = real};

const Kind gumbel_kind = {.name = "Gumbel",
                          .parameters = normal_kind.parameters,
                          .draw = [](const Body& d, const Dims& shape,
                                     Generator* g) { return d[0] - d[1] * log(-log(open_uniform(d, shape, g))); },
                          .log_prob =
                              [](const Body& d, const Tensor& x) {
                                const Tensor y = (d[0] - x) / d[1];
                                return y - exp(y) - log(d[1]);
                              },
                          .cdf = [](const Body& d, const Tensor& x) { return exp(-exp((d[0] - x) / d[1])); },
                          .icdf = [](const Body& d, const Tensor& p) { return d[0] - d[1] * log(-log(p)); },
                          .entropy = [](const Body& d) { return log(d[1]) + (1 + detail::euler); },
                          .mean = [](const Body& d) { return d[0] + d[1] * detail::euler; },
                          .mode = loc_of,
                          .variance = [](const Body& d) { return square(d[1]) * (pi * pi / 6); },
                          .in_support = real};

const Kind exponential_kind = {
    .name = "Exponential",
    .parameters = {{{"rate", Constraint::positive}}},
    .draw = [](const Body& d, const Dims& s, Generator* g) { return -log1p(-rand(s, d.options(), g)) / d[0]; },
    .log_prob = [](const Body& d, const Tensor& x) { return log(d[0]) - d[0] * x; },
    .cdf = [](const Body& d, const Tensor& x) { return -expm1(-d[0] * x); },
    .icdf = [](const Body& d, const Tensor& p) { return -log1p(-p) / d[0]; },
    .entropy = [](const Body& d) { return 1 - log(d[0]); },
    .mean = [](const Body& d) { return reciprocal(d[0]); },
    .mode = [](const Body& d) { return zeros_like(d[0]); },
    .variance = [](const Body& d) { return reciprocal(square(d[0])); },
    .in_support = nonnegative};

Distribution make_distribution(const Kind& kind, std::initializer_list<const Tensor*> parameters,
                               const Options& options, Location where) {
  const CallScope call(kind.name, where);
  Body body = make_body(kind, parameters, options);
  detail::check_parameters(body);
  return finished(std::move(body));
}

}  // namespace

Distribution Normal(const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(normal_kind, {&loc.tensor(), &scale.tensor()}, options, loc.where);
}
Distribution LogNormal(const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(log_normal_kind, {&loc.tensor(), &scale.tensor()}, options, loc.where);
}
Distribution HalfNormal(const Operand& scale, Options options) {
  return make_distribution(half_normal_kind, {&scale.tensor()}, options, scale.where);
}
Distribution Laplace(const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(laplace_kind, {&loc.tensor(), &scale.tensor()}, options, loc.where);
}
Distribution Cauchy(const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(cauchy_kind, {&loc.tensor(), &scale.tensor()}, options, loc.where);
}
Distribution Gumbel(const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(gumbel_kind, {&loc.tensor(), &scale.tensor()}, options, loc.where);
}
Distribution Exponential(const Operand& rate, Options options) {
  return make_distribution(exponential_kind, {&rate.tensor()}, options, rate.where);
}

Distribution Uniform(const Operand& low, const Operand& high, Options options) {
  const CallScope call(uniform_kind.name, low.where);
  const Body body = make_body(uniform_kind, {&low.tensor(), &high.tensor()}, options);
  if (body.validate && detail::has_elements(body[0])) {
    const NoGradGuard unrecorded;
    check_elements([body] {
      if (all(body[0] < body[1]).item<bool>()) return;
      raise<ValueError>({.problem = "parameter 'low' of Uniform is not below 'high' everywhere"});
    });
  }
  return finished(body);
}

}  // namespace weft::distributions
