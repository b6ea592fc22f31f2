// Kullback-Leibler divergences by pairs of distributions. Formulas are PyTorch's (torch/distributions/kl.py).
#include <string_view>

#include "detail/kind.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/diagonal.hpp"
#include "../ops/linalg.hpp"
#include "../ops/matmul.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::euler;
using detail::infinity;
using detail::log_beta;
using detail::logits_of;
using detail::pi;
using detail::probs_of;

Tensor entropy(const Body& p) { return p.kind->entropy(p); }
Tensor infinite(const Tensor& a, const Tensor& b) { return full_like(a + b, infinity); }
Tensor always_infinite(const Body& p, const Body& q) { return infinite(p[0], q[0]); }

// ---- pairs of the same kind -----------------------------------------------------------------------------------------

Tensor normals(const Tensor& p_loc, const Tensor& p_scale, const Tensor& q_loc, const Tensor& q_scale) {
  const Tensor ratio = square(p_scale / q_scale);
  return 0.5 * (ratio + square((p_loc - q_loc) / q_scale) - 1) + log(q_scale) - log(p_scale);
}
Tensor of_normals(const Body& p, const Body& q) { return normals(p[0], p[1], q[0], q[1]); }
Tensor of_half_normals(const Body& p, const Body& q) {
  const Tensor zero = zeros({}, p.options());
  return normals(zero, p[0], zero, q[0]);
}

/// Divergence of the binary probabilities in this parameter.
Tensor of_two(const Body& p, const Body& q, int parameter) {
  const Tensor yes = probs_of(p, parameter), no = detail::rest_of(p, parameter);
  return detail::log_likelihood(p, yes, no, parameter) - detail::log_likelihood(q, yes, no, parameter);
}
Tensor of_bernoullis(const Body& p, const Body& q) { return of_two(p, q, 0); }

Tensor of_betas(const Body& p, const Body& q) {
  const Tensor p_sum = p[0] + p[1], q_sum = q[0] + q[1];
  return log_beta(q[0], q[1]) - log_beta(p[0], p[1]) + (p[0] - q[0]) * digamma(p[0]) + (p[1] - q[1]) * digamma(p[1]) +
         (q_sum - p_sum) * digamma(p_sum);
}

Tensor of_binomials(const Body& p, const Body& q) {
  if (detail::has_elements(p[0]) && detail::has_elements(q[0])) {
    const NoGradGuard unrecorded;
    check_elements([p, q] {
      if (!any(p[0] < q[0]).item<bool>()) return;
      raise<NotImplementedError>({.problem = "Binomial has no divergence from one of more trials"});
    });
  }
  const Tensor inside = masked_fill(p[0] * of_two(p, q, 1), p[0] == 0, 0);
  return masked_fill(inside, p[0] > q[0], infinity);
}

Tensor of_categoricals(const Body& p, const Body& q) {
  const Tensor p_probs = probs_of(p, 0, false), q_probs = probs_of(q, 0, false);
  if (p_probs.size(-1) != q_probs.size(-1)) {
    raise<ShapeError>({.problem = fmt::format("{} outcomes and {}", p_probs.size(-1), q_probs.size(-1))});
  }
  const Tensor difference = logits_of(p, 0, false) - logits_of(q, 0, false);
  return sum(p_probs * masked_fill(difference, p_probs == 0, 0), {-1});
}

Tensor of_dirichlets(const Body& p, const Body& q) {
  const Tensor p_sum = sum(p[0], {-1}), q_sum = sum(q[0], {-1});
  const Tensor slopes = digamma(p[0]) - digamma(p_sum).unsqueeze(-1);
  return lgamma(p_sum) - lgamma(q_sum) - sum(lgamma(p[0]) - lgamma(q[0]), {-1}) + sum((p[0] - q[0]) * slopes, {-1});
}

Tensor of_exponentials(const Body& p, const Body& q) { return q[0] / p[0] - (log(q[0]) - log(p[0])) - 1; }

Tensor of_gammas(const Body& p, const Body& q) {
  return q[0] * (log(p[1]) - log(q[1])) + lgamma(q[0]) - lgamma(p[0]) + (p[0] - q[0]) * digamma(p[0]) +
         (q[1] - p[1]) * (p[0] / p[1]);
}

Tensor of_gumbels(const Body& p, const Body& q) {
  const Tensor ratio = p[1] / q[1], away = (q[0] - p[0]) / q[1];
  return log(q[1]) - log(p[1]) - away + ratio * euler + exp(away + lgamma(1 + ratio)) - (1 + euler);
}

Tensor of_geometrics(const Body& p, const Body& q) { return of_two(p, q, 0) / probs_of(p); }

Tensor of_laplaces(const Body& p, const Body& q) {
  const Tensor ratio = p[1] / q[1], away = abs(p[0] - q[0]);
  return log(q[1]) - log(p[1]) + away / q[1] + ratio * exp(-away / p[1]) - 1;
}

Tensor of_cauchys(const Body& p, const Body& q) {
  return 2 * log(hypot(p[1] + q[1], p[0] - q[0])) - std::log(4.0) - log(p[1]) - log(q[1]);
}

Tensor of_poissons(const Body& p, const Body& q) { return xlogy(p[0], p[0]) - xlogy(p[0], q[0]) - (p[0] - q[0]); }

Tensor of_uniforms(const Body& p, const Body& q) {
  const Tensor outside = logical_or(q[0] > p[0], q[1] < p[1]);
  return masked_fill(log((q[1] - q[0]) / (p[1] - p[0])), outside, infinity);
}

Tensor of_multivariate_normals(const Body& p, const Body& q) {
  const auto half_log_det = [](const Body& d) { return sum(log(d[1].diagonal(0, -2, -1)), {-1}); };
  const auto solve_lower = [](const Tensor& a, const Tensor& b) { return linalg::solve_triangular(a, b, false); };
  const Tensor spread = sum(square(solve_lower(q[1], p[1])), {-2, -1});
  const Tensor away = sum(square(solve_lower(q[1], (q[0] - p[0]).unsqueeze(-1))), {-2, -1});
  return half_log_det(q) - half_log_det(p) + 0.5 * (spread + away - static_cast<double>(p.event[0]));
}

// ---- composed distributions -----------------------------------------------------------------------------------------

Tensor of_independents(const Body& p, const Body& q) {
  if (p.count != q.count) {
    raise<NotImplementedError>({.problem = fmt::format("{} independent dimensions and {}", p.count, q.count)});
  }
  return detail::sum_last(kl(p.parts[0], q.parts[0]), static_cast<int>(p.count));
}

Tensor of_transformed(const Body& p, const Body& q) {
  if (p.transforms != q.transforms) {
    raise<NotImplementedError>({.problem = "transformed distributions have a divergence where transforms are equal"});
  }
  return kl(p.parts[0], q.parts[0]);
}

// ---- pairs of different kinds ---------------------------------------------------------------------------------------

Tensor bernoulli_poisson(const Body& p, const Body& q) { return -entropy(p) - xlogy(probs_of(p), q[0]) + q[0]; }

Tensor beta_mean(const Body& p) { return p[0] / (p[0] + p[1]); }
Tensor beta_exponential(const Body& p, const Body& q) { return -entropy(p) - log(q[0]) + q[0] * beta_mean(p); }
Tensor beta_gamma(const Body& p, const Body& q) {
  return -entropy(p) + lgamma(q[0]) - q[0] * log(q[1]) - (q[0] - 1) * (digamma(p[0]) - digamma(p[0] + p[1])) +
         q[1] * beta_mean(p);
}
Tensor beta_normal(const Body& p, const Body& q) {
  const Tensor mean = beta_mean(p), variance = square(q[1]);
  const Tensor second = 0.5 * (mean * (1 - mean) / (p[0] + p[1] + 1) + square(mean));
  return -entropy(p) + 0.5 * log(variance * (2 * pi)) + (second - q[0] * mean + 0.5 * square(q[0])) / variance;
}
Tensor beta_uniform(const Body& p, const Body& q) {
  return masked_fill(-entropy(p) + log(q[1] - q[0]), logical_or(q[0] > 0, q[1] < 1), infinity);
}

Tensor exponential_gamma(const Body& p, const Body& q) {
  const Tensor ratio = q[1] / p[0];
  return -q[0] * log(ratio) + ratio + lgamma(q[0]) + q[0] * euler - (1 + euler);
}
Tensor exponential_gumbel(const Body& p, const Body& q) {
  const Tensor product = p[0] * q[1], place = q[0] / q[1];
  return log(product) - 1 - place + exp(place) * product / (product + 1) + reciprocal(product);
}
Tensor exponential_normal(const Body& p, const Body& q) {
  const Tensor variance = square(q[1]), rate_square = square(p[0]);
  return 0.5 * log(rate_square * variance * (2 * pi)) - 1 +
         (reciprocal(rate_square) - q[0] / p[0] + 0.5 * square(q[0])) / variance;
}

Tensor gamma_exponential(const Body& p, const Body& q) { return -entropy(p) - log(q[0]) + q[0] * p[0] / p[1]; }
Tensor gamma_gumbel(const Body& p, const Body& q) {
  const Tensor product = p[1] * q[1], place = q[0] / q[1];
  return (p[0] - 1) * digamma(p[0]) - lgamma(p[0]) - p[0] + log(product) + p[0] / product +
         exp(place) * pow(1 + reciprocal(product), -p[0]) - place;
}
Tensor gamma_normal(const Body& p, const Body& q) {
  const Tensor variance = square(q[1]), rate_square = square(p[1]);
  return 0.5 * log(rate_square * variance * (2 * pi)) - p[0] - lgamma(p[0]) + (p[0] - 1) * digamma(p[0]) +
         (0.5 * (square(p[0]) + p[0]) / rate_square - q[0] * p[0] / p[1] + 0.5 * square(q[0])) / variance;
}

Tensor gumbel_normal(const Body& p, const Body& q) {
  const Tensor ratio = p[1] / q[1];
  return -log(ratio / std::sqrt(2 * pi)) + square(ratio * (0.5 * pi)) / 3 +
         0.5 * square((p[0] + p[1] * euler - q[0]) / q[1]) - (euler + 1);
}
Tensor laplace_normal(const Body& p, const Body& q) {
  const Tensor variance = square(q[1]), ratio = square(p[1]) / variance;
  return -0.5 * log(ratio * (2 / pi)) + ratio + 0.5 * square(p[0] - q[0]) / variance - 1;
}
Tensor normal_gumbel(const Body& p, const Body& q) {
  const Tensor away = (p[0] - q[0]) / q[1], ratio = square(p[1] / q[1]);
  return -0.5 * log(ratio) + away + exp(0.5 * ratio - away) - 0.5 * (1 + std::log(2 * pi));
}
Tensor normal_laplace(const Body& p, const Body& q) {
  const Tensor away = p[0] - q[0], scaled = away / p[1];
  return -log(p[1] / q[1]) +
         (std::sqrt(2 / pi) * p[1] * exp(-0.5 * square(scaled)) + away * erf(std::sqrt(0.5) * scaled)) / q[1] -
         0.5 * (1 + std::log(0.5 * pi));
}

Tensor uniform_beta(const Body& p, const Body& q) {
  const Tensor width = p[1] - p[0], low = p[0], high = p[1];
  const auto x_log_x = [](const Tensor& x) { return xlogy(x, x); };
  const Tensor of_logs = (q[0] - 1) * (x_log_x(high) - x_log_x(low) - width) / width;
  const Tensor of_rests = (q[1] - 1) * (x_log_x(1 - high) - x_log_x(1 - low) + width) / width;
  const Tensor inside = log_beta(q[0], q[1]) - log(width) - of_logs + of_rests;
  return masked_fill(inside, logical_or(high > 1, low < 0), infinity);
}
Tensor uniform_exponential(const Body& p, const Body& q) {
  const Tensor inside = q[0] * (p[1] + p[0]) / 2 - log((p[1] - p[0]) * q[0]);
  return masked_fill(inside, p[0] < 0, infinity);
}
Tensor uniform_gamma(const Body& p, const Body& q) {
  const Tensor width = p[1] - p[0];
  const Tensor of_logs = (1 - q[0]) * (xlogy(p[1], p[1]) - xlogy(p[0], p[0]) - width) / width;
  const Tensor inside = -log(width) + lgamma(q[0]) - q[0] * log(q[1]) + of_logs + q[1] * (p[1] + p[0]) / 2;
  return masked_fill(inside, p[0] < 0, infinity);
}
Tensor uniform_gumbel(const Body& p, const Body& q) {
  const Tensor width = (p[1] - p[0]) / q[1], high = (p[1] - q[0]) / q[1], low = (p[0] - q[0]) / q[1];
  return -log(width) + 0.5 * (high + low) - (exp(-high) - exp(-low)) / width;
}
Tensor uniform_normal(const Body& p, const Body& q) {
  const Tensor width = p[1] - p[0], variance = square(q[1]);
  const Tensor middle = 0.5 * (p[1] + p[0] - 2 * q[0]);
  return 0.5 * log(2 * pi * variance / square(width)) + (square(width) / 12 + square(middle)) / (2 * variance);
}

// ---- lookup ---------------------------------------------------------------------------------------------------------

struct Row {
  const char *p, *q;
  Tensor (*formula)(const Body&, const Body&);
};

constexpr Row rows[] = {
    {"Bernoulli", "Bernoulli", of_bernoullis},
    {"Bernoulli", "Poisson", bernoulli_poisson},
    {"Beta", "Beta", of_betas},
    {"Beta", "Exponential", beta_exponential},
    {"Beta", "Gamma", beta_gamma},
    {"Beta", "Normal", beta_normal},
    {"Beta", "Uniform", beta_uniform},
    {"Binomial", "Binomial", of_binomials},
    {"Categorical", "Categorical", of_categoricals},
    {"Cauchy", "Cauchy", of_cauchys},
    {"Dirichlet", "Dirichlet", of_dirichlets},
    {"Exponential", "Beta", always_infinite},
    {"Exponential", "Exponential", of_exponentials},
    {"Exponential", "Gamma", exponential_gamma},
    {"Exponential", "Gumbel", exponential_gumbel},
    {"Exponential", "Normal", exponential_normal},
    {"Exponential", "Uniform", always_infinite},
    {"Gamma", "Beta", always_infinite},
    {"Gamma", "Exponential", gamma_exponential},
    {"Gamma", "Gamma", of_gammas},
    {"Gamma", "Gumbel", gamma_gumbel},
    {"Gamma", "Normal", gamma_normal},
    {"Gamma", "Uniform", always_infinite},
    {"Geometric", "Geometric", of_geometrics},
    {"Gumbel", "Beta", always_infinite},
    {"Gumbel", "Exponential", always_infinite},
    {"Gumbel", "Gamma", always_infinite},
    {"Gumbel", "Gumbel", of_gumbels},
    {"Gumbel", "Normal", gumbel_normal},
    {"Gumbel", "Uniform", always_infinite},
    {"HalfNormal", "HalfNormal", of_half_normals},
    {"Independent", "Independent", of_independents},
    {"Laplace", "Beta", always_infinite},
    {"Laplace", "Exponential", always_infinite},
    {"Laplace", "Gamma", always_infinite},
    {"Laplace", "Laplace", of_laplaces},
    {"Laplace", "Normal", laplace_normal},
    {"Laplace", "Uniform", always_infinite},
    {"LogNormal", "LogNormal", of_normals},
    {"MultivariateNormal", "MultivariateNormal", of_multivariate_normals},
    {"Normal", "Beta", always_infinite},
    {"Normal", "Exponential", always_infinite},
    {"Normal", "Gamma", always_infinite},
    {"Normal", "Gumbel", normal_gumbel},
    {"Normal", "Laplace", normal_laplace},
    {"Normal", "Normal", of_normals},
    {"Normal", "Uniform", always_infinite},
    {"OneHotCategorical", "OneHotCategorical", of_categoricals},
    {"Poisson", "Bernoulli", always_infinite},
    {"Poisson", "Binomial", always_infinite},
    {"Poisson", "Poisson", of_poissons},
    {"TransformedDistribution", "TransformedDistribution", of_transformed},
    {"Uniform", "Beta", uniform_beta},
    {"Uniform", "Exponential", uniform_exponential},
    {"Uniform", "Gamma", uniform_gamma},
    {"Uniform", "Gumbel", uniform_gumbel},
    {"Uniform", "Normal", uniform_normal},
    {"Uniform", "Uniform", of_uniforms},
};

std::string_view family_of(const Body& d) { return d.kind->family != nullptr ? d.kind->family : d.kind->name; }

}  // namespace

Tensor kl(const Distribution& p, const Distribution& q, Location where) {
  const CallScope call("distributions.kl", where);
  const Body &from = p.body(), &to = q.body();
  for (const Row& row : rows) {
    if (row.p != family_of(from) || row.q != family_of(to)) continue;
    detail::broadcast_all({from.batch, to.batch});
    if (from.event != to.event) {
      raise<ShapeError>(
          {.problem = fmt::format("events of shapes {} and {} are not the same", from.event.text(), to.event.text())});
    }
    const bool wide = from.kind->cancels || to.kind->cancels;
    if (!wide) return row.formula(from, to);
    return row.formula(detail::widened(from), detail::widened(to)).to(result_type(from[0], to[0]));
  }
  raise<NotImplementedError>(
      {.problem = fmt::format("there is no divergence of {} from {}", from.kind->name, to.kind->name),
       .remedy = "average p.log_prob(x) - q.log_prob(x) over draws of p"});
}

std::vector<std::pair<const char*, const char*>> kl_pairs() {
  std::vector<std::pair<const char*, const char*>> pairs;
  for (const Row& row : rows) pairs.emplace_back(row.p, row.q);
  return pairs;
}

}  // namespace weft::distributions
