// Distributions with draws computed from gamma draws.
#include "detail/gamma.hpp"
#include "detail/kind.hpp"
#include "../ops/create.hpp"
#include "../ops/join.hpp"
#include "../ops/random.hpp"
#include "../ops/search.hpp"
#include "../ops/softmax.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::Constraint;
using detail::finished;
using detail::gamma_draws;
using detail::infinity;
using detail::Kind;
using detail::log_beta;
using detail::make_body;

Tensor gamma_log_prob(const Tensor& concentration, const Tensor& rate, const Tensor& x) {
  return xlogy(concentration, rate) + xlogy(concentration - 1, x) - rate * x - lgamma(concentration);
}

const Kind gamma_kind = {
    .name = "Gamma",
    .cancels = true,
    .parameters = {{{"concentration", Constraint::positive}, {"rate", Constraint::positive}}},
    .draw = [](const Body& d, const Dims& s, Generator* g) { return gamma_draws(d[0].expand(s), g) / d[1]; },
    .log_prob = [](const Body& d, const Tensor& x) { return gamma_log_prob(d[0], d[1], x); },
    .cdf = [](const Body& d, const Tensor& x) { return detail::gamma_cdf(d[0], d[1] * x); },
    .entropy = [](const Body& d) { return d[0] - log(d[1]) + lgamma(d[0]) + (1 - d[0]) * digamma(d[0]); },
    .mean = [](const Body& d) { return d[0] / d[1]; },
    .mode = [](const Body& d) { return relu((d[0] - 1) / d[1]); },
    .variance = [](const Body& d) { return d[0] / square(d[1]); },
    .in_support = [](const Body&, const Tensor& x) { return x >= 0; }};

const Kind chi2_kind = [] {
  Kind kind = gamma_kind;
  kind.name = "Chi2";
  kind.family = "Gamma";
  kind.derived = [](const Body& d, std::string_view name) { return name == "df" ? 2 * d[0] : Tensor(); };
  return kind;
}();

// Computes quotients from logarithms, because small concentrations give draws that underflow.
Tensor shares(const Tensor& concentration, const Dims& shape, Generator* generator) {
  const Tensor draws = detail::log_gamma_draws(concentration.to(f64).expand(shape), generator);
  return softmax(draws, -1).to(concentration.dtype());
}

Tensor both(const Body& d) { return stack({d[0], d[1]}, -1); }

const Kind beta_kind = {
    .name = "Beta",
    .cancels = true,
    .parameters = {{{"concentration1", Constraint::positive}, {"concentration0", Constraint::positive}}},
    .draw = [](const Body& d, const Dims& shape,
               Generator* g) { return shares(both(d), detail::joined(shape, {2}), g).select(-1, 0); },
    .log_prob = [](const Body& d,
                   const Tensor& x) { return xlogy(d[0] - 1, x) + xlog1py(d[1] - 1, -x) - log_beta(d[0], d[1]); },
    .entropy =
        [](const Body& d) {
          return log_beta(d[0], d[1]) - (d[0] - 1) * digamma(d[0]) - (d[1] - 1) * digamma(d[1]) +
                 (d[0] + d[1] - 2) * digamma(d[0] + d[1]);
        },
    .mean = [](const Body& d) { return d[0] / (d[0] + d[1]); },
    .mode =
        [](const Body& d) {
          // As for a Dirichlet distribution: at an end of the interval if both are below 1.
          const Tensor a = relu(d[0] - 1), b = relu(d[1] - 1);
          const Tensor ends = where(d[0] >= d[1], ones_like(d[0]), 0);
          return where(logical_and(d[0] < 1, d[1] < 1), ends, a / (a + b));
        },
    .variance =
        [](const Body& d) {
          const Tensor total = d[0] + d[1];
          return d[0] * d[1] / (square(total) * (total + 1));
        },
    .in_support = [](const Body&, const Tensor& x) { return logical_and(x >= 0, x <= 1); }};

const Kind dirichlet_kind = {
    .name = "Dirichlet",
    .cancels = true,
    .parameters = {{{"concentration", Constraint::positive, 1}}},
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return shares(d[0], shape, g); },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          return sum(xlogy(d[0] - 1, x), {-1}) + lgamma(sum(d[0], {-1})) - sum(lgamma(d[0]), {-1});
        },
    .entropy =
        [](const Body& d) {
          const Tensor total = sum(d[0], {-1});
          return sum(lgamma(d[0]), {-1}) - lgamma(total) - (static_cast<double>(d.event[0]) - total) * digamma(total) -
                 sum((d[0] - 1) * digamma(d[0]), {-1});
        },
    .mean = [](const Body& d) { return d[0] / sum(d[0], {-1}, true); },
    .mode =
        [](const Body& d) {
          const Tensor above = relu(d[0] - 1), corner = one_hot(argmax(d[0], -1), d.event[0]).to(d[0].dtype());
          return where(all(d[0] < 1, {-1}, true), corner, above / sum(above, {-1}, true));
        },
    .variance =
        [](const Body& d) {
          const Tensor total = sum(d[0], {-1}, true);
          return d[0] * (total - d[0]) / (square(total) * (total + 1));
        },
    .in_support = [](const Body&,
                     const Tensor& x) { return logical_and(all(x >= 0, {-1}), abs(sum(x, {-1}) - 1) < 1e-6); }};

// log Γ(x + 1/2) - log Γ(x), and its derivative. Large x use the asymptotic series (DLMF 5.11.13), because the terms of
// the difference cancel.
constexpr double far_out = 20;
Tensor half_step(const Tensor& x) {
  const Tensor far = x > far_out, large = where(far, x, far_out), small = where(far, far_out, x), r = 1 / square(large);
  const Tensor series = 0.5 * log(large) - (0.125 - r * (1.0 / 192 - r * (1.0 / 640 - r * 17.0 / 14336))) / large;
  return where(far, series, lgamma(small + 0.5) - lgamma(small));
}
Tensor digamma_half_step(const Tensor& x) {
  const Tensor far = x > far_out, large = where(far, x, far_out), small = where(far, far_out, x), r = 1 / square(large);
  const Tensor series = 0.5 / large + r * (0.125 - r * (1.0 / 64 - r * (1.0 / 128 - r * 17.0 / 2048)));
  return where(far, series, digamma(small + 0.5) - digamma(small));
}

const Kind student_kind = {
    .name = "StudentT",
    .cancels = true,
    .parameters = {{{"df", Constraint::positive}, {"loc"}, {"scale", Constraint::positive}}},
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          const Tensor x = randn(shape, d.options(), g), z = 2 * gamma_draws((0.5 * d[0]).expand(shape), g);
          return d[1] + d[2] * (x * rsqrt(z / d[0]));
        },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor y = (x - d[1]) / d[2];
          const Tensor area = log(d[2]) + 0.5 * log(d[0]) + 0.5 * std::log(detail::pi) - half_step(0.5 * d[0]);
          return -0.5 * (d[0] + 1) * detail::log1p_square(y / sqrt(d[0])) - area;
        },
    .entropy =
        [](const Body& d) {
          const Tensor half = 0.5 * d[0];
          return log(d[2]) + (half + 0.5) * digamma_half_step(half) + 0.5 * log(d[0]) + 0.5 * std::log(detail::pi) -
                 half_step(half);
        },
    .mean = [](const Body& d) { return masked_fill(d[1], d[0] <= 1, std::nan("")); },
    .mode = [](const Body& d) { return d[1]; },
    .variance =
        [](const Body& d) {
          const Tensor df = where(d[0] > 2, d[0], 3), finite = square(d[2]) * df / (df - 2);
          return masked_fill(masked_fill(finite, d[0] <= 2, infinity), d[0] <= 1, std::nan(""));
        },
    .in_support = [](const Body&, const Tensor& x) { return x == x; }};

Distribution make_distribution(const Kind& kind, std::initializer_list<const Tensor*> parameters,
                               const Options& options, Location where) {
  const CallScope call(kind.name, where);
  Body body = make_body(kind, parameters, options);
  detail::check_parameters(body);
  return finished(std::move(body));
}

}  // namespace

Distribution Gamma(const Operand& concentration, const Operand& rate, Options options) {
  return make_distribution(gamma_kind, {&concentration.tensor(), &rate.tensor()}, options, concentration.where);
}
Distribution Chi2(const Operand& df, Options options) {
  const CallScope call("Chi2", df.where);
  const Tensor concentration = 0.5 * df.tensor(), rate = full({}, 0.5, {concentration.dtype(), concentration.device()});
  return make_distribution(chi2_kind, {&concentration, &rate}, options, df.where);
}
Distribution Beta(const Operand& concentration1, const Operand& concentration0, Options options) {
  return make_distribution(beta_kind, {&concentration1.tensor(), &concentration0.tensor()}, options,
                           concentration1.where);
}
Distribution StudentT(const Operand& df, const Operand& loc, const Operand& scale, Options options) {
  return make_distribution(student_kind, {&df.tensor(), &loc.tensor(), &scale.tensor()}, options, df.where);
}

Distribution Dirichlet(const Tensor& concentration, Options options, Location where) {
  const CallScope call("Dirichlet", where);
  Body body = make_body(dirichlet_kind, {&concentration}, options);
  body.event = Dims{body[0].size(-1)};
  detail::check_parameters(body);
  return finished(std::move(body));
}

}  // namespace weft::distributions
