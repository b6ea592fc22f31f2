// Distributions over integers and vectors of integers.
#include "detail/kind.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/distribution.hpp"
#include "../ops/random.hpp"
#include "../ops/scatter.hpp"
#include "../ops/search.hpp"
#include "../ops/softmax.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::Constraint;
using detail::finished;
using detail::infinity;
using detail::is_whole;
using detail::Kind;
using detail::logits_of;
using detail::make_body;
using detail::probs_of;

Tensor chances_of_two(const Body& d, std::string_view name) {
  return name == "probs" ? probs_of(d) : name == "logits" ? logits_of(d) : Tensor();
}
Tensor chances_of_several(const Body& d, std::string_view name) {
  return name == "probs" ? probs_of(d, 0, false) : name == "logits" ? logits_of(d, 0, false) : Tensor();
}
/// 0, 1, … n - 1 along the first dimension, followed by `ones` dimensions of size 1.
Tensor counted(const Tensor& like, DType dtype, int64_t n, int ones) {
  Dims shape{n};
  for (int i = 0; i < ones; ++i) shape.push_back(1);
  return arange(n, {dtype, like.device()}).reshape(shape);
}
Tensor floats_like(const Body& d, const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(d[0].dtype()); }

// ---- binary ---------------------------------------------------------------------------------------------------------

const Kind bernoulli_kind = {
    .name = "Bernoulli",
    .parameters = {{{"probs", Constraint::unit_interval}}},
    .has_rsample = detail::never,
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return bernoulli(probs_of(d).expand(shape), g); },
    .log_prob =
        [](const Body& d, const Tensor& given) {
          const Tensor x = floats_like(d, given);
          return detail::log_likelihood(d, x, 1 - x);
        },
    .entropy = detail::entropy_of_two,
    .mean = [](const Body& d) { return probs_of(d); },
    .mode =
        [](const Body& d) {
          const Tensor p = probs_of(d);
          return masked_fill((p >= 0.5).to(p.dtype()), p == 0.5, std::nan(""));
        },
    .variance =
        [](const Body& d) {
          const Tensor p = probs_of(d);
          return p * (1 - p);
        },
    .in_support = [](const Body&, const Tensor& x) { return logical_or(x == 0, x == 1); },
    .enumerate = [](const Body& d) { return counted(d[0], d[0].dtype(), 2, d.batch.size()); },
    .derived = chances_of_two};

const Kind geometric_kind = {
    .name = "Geometric",
    .parameters = {{{"probs", Constraint::unit_interval}}},
    .has_rsample = detail::never,
    .draw = [](const Body& d, const Dims& shape,
               Generator* g) { return floor(log(detail::open_uniform(d, shape, g)) / log1p(-probs_of(d))); },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor failures = floats_like(d, x);
          return detail::log_likelihood(d, ones_like(failures), failures);
        },
    .entropy = [](const Body& d) { return detail::entropy_of_two(d) / probs_of(d); },
    .mean = [](const Body& d) { return 1 / probs_of(d) - 1; },
    .mode = [](const Body& d) { return zeros_like(d[0]); },
    .variance =
        [](const Body& d) {
          const Tensor p = probs_of(d);
          return (1 / p - 1) / p;
        },
    .in_support = [](const Body&, const Tensor& x) { return logical_and(x >= 0, is_whole(x)); },
    .derived = chances_of_two};

/// The total_count that all elements share. Raises NotImplementedError if they differ.
int64_t common_count(const Body& d) {
  if (d[0].numel() == 0) return 0;
  const double least = amin(d[0]).item<double>(), highest = amax(d[0]).item<double>();
  if (least != highest) {
    raise<NotImplementedError>({.problem = "trials of different counts have no values that can be counted alike"});
  }
  return static_cast<int64_t>(highest);
}
Tensor binomial_log_prob(const Body& d, const Tensor& given) {
  const Tensor x = floats_like(d, given), rest = d[0] - x;
  const Tensor choices = lgamma(d[0] + 1) - lgamma(x + 1) - lgamma(rest + 1);
  return choices + detail::log_likelihood(d, x, rest, 1);
}
Tensor binomial_values(const Body& d) { return counted(d[0], d[0].dtype(), 1 + common_count(d), d.batch.size()); }

const Kind binomial_kind = {
    .name = "Binomial",
    .cancels = true,
    .parameters = {{{"total_count", Constraint::nonnegative_integer}, {"probs", Constraint::unit_interval}}},
    .has_rsample = detail::never,
    .draw = [](const Body& d, const Dims& s,
               Generator* g) { return binomial(d[0].expand(s), clip(probs_of(d, 1), 0, 1).expand(s), g); },
    .log_prob = binomial_log_prob,
    .entropy =
        [](const Body& d) {
          const Tensor log_probs = binomial_log_prob(d, binomial_values(d));
          return -sum(masked_fill(exp(log_probs) * log_probs, log_probs == -infinity, 0), {0});
        },
    .mean = [](const Body& d) { return d[0] * probs_of(d, 1); },
    .mode = [](const Body& d) { return minimum(floor((d[0] + 1) * probs_of(d, 1)), d[0]); },
    .variance =
        [](const Body& d) {
          const Tensor p = probs_of(d, 1);
          return d[0] * p * (1 - p);
        },
    .in_support = [](const Body& d,
                     const Tensor& x) { return logical_and(logical_and(x >= 0, x <= d[0]), is_whole(x)); },
    .enumerate = binomial_values,
    .derived =
        [](const Body& d, std::string_view name) {
          return name == "probs" ? probs_of(d, 1) : name == "logits" ? logits_of(d, 1) : Tensor();
        }};

// ---- counts ---------------------------------------------------------------------------------------------------------

const Kind poisson_kind = {
    .name = "Poisson",
    .cancels = true,
    .parameters = {{{"rate", Constraint::nonnegative}}},
    .has_rsample = detail::never,
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return poisson(d[0].expand(shape), g); },
    .log_prob =
        [](const Body& d, const Tensor& given) {
          const Tensor x = floats_like(d, given);
          return xlogy(x, d[0]) - d[0] - lgamma(x + 1);
        },
    .mean = [](const Body& d) { return d[0]; },
    .mode = [](const Body& d) { return floor(d[0]); },
    .variance = [](const Body& d) { return d[0]; },
    .in_support = [](const Body&, const Tensor& x) { return logical_and(x >= 0, is_whole(x)); }};

// ---- classes --------------------------------------------------------------------------------------------------------

/// Drawn class indices: i64 of this shape, which ends with the batch.
Tensor chosen(const Body& d, const Dims& shape, Generator* generator) {
  const Tensor probs = probs_of(d, 0, false);
  const int64_t draws = Dims(std::span(shape.data(), static_cast<size_t>(shape.size() - d.batch.size()))).product();
  const int64_t rows = d.batch.product();
  if (draws == 0 || rows == 0) return empty(shape, {i64, probs.device()});
  const Tensor picked = multinomial(probs.reshape({rows, probs.size(-1)}), draws, true, generator);
  return picked.t().reshape(shape);
}
Tensor entropy_of_several(const Body& d) {
  const Tensor logits = logits_of(d, 0, false), probs = probs_of(d, 0, false);
  return -sum(probs * masked_fill(logits, probs == 0, 0), {-1});
}
/// log p of the class indices in x.
Tensor log_prob_of_class(const Body& d, const Tensor& x) {
  const Tensor logits = logits_of(d, 0, false);
  const Dims shape = detail::broadcast_all({x.shape(), d.batch});
  const Tensor wide = logits.expand(detail::joined(shape, {logits.size(-1)}));
  return wide.gather(-1, x.to(i64).expand(shape).unsqueeze(-1)).squeeze(-1);
}
Tensor unknown_of_batch(const Body& d) { return full(d.batch, std::nan(""), d.options()); }

const Kind categorical_kind = {
    .name = "Categorical",
    .parameters = {{{"probs", Constraint::simplex, 1}}},
    .has_rsample = detail::never,
    .draw = chosen,
    .log_prob = log_prob_of_class,
    .entropy = entropy_of_several,
    .mean = unknown_of_batch,
    .mode = [](const Body& d) { return argmax(d[0], -1); },
    .variance = unknown_of_batch,
    .in_support = [](const Body& d,
                     const Tensor& x) { return logical_and(logical_and(x >= 0, x < d[0].size(-1)), is_whole(x)); },
    .enumerate = [](const Body& d) { return counted(d[0], i64, d[0].size(-1), d.batch.size()); },
    .derived = chances_of_several};

Tensor one_hot_of(const Body& d, const Tensor& index) { return one_hot(index, d.event[0]).to(d[0].dtype()); }

const Kind one_hot_kind = {
    .name = "OneHotCategorical",
    .parameters = {{{"probs", Constraint::simplex, 1}}},
    .has_rsample = detail::never,
    .draw = [](const Body& d, const Dims& shape,
               Generator* g) { return one_hot_of(d, chosen(d, detail::without_last(shape, 1), g)); },
    .log_prob = [](const Body& d, const Tensor& x) { return log_prob_of_class(d, argmax(x, -1)); },
    .entropy = entropy_of_several,
    .mean = [](const Body& d) { return probs_of(d, 0, false); },
    .mode = [](const Body& d) { return one_hot_of(d, argmax(d[0], -1)); },
    .variance =
        [](const Body& d) {
          const Tensor p = probs_of(d, 0, false);
          return p * (1 - p);
        },
    .in_support = [](const Body&,
                     const Tensor& x) { return logical_and(all(logical_or(x == 0, x == 1), {-1}), sum(x, {-1}) == 1); },
    .enumerate =
        [](const Body& d) {
          Dims shape{d.event[0]};
          for (int i = 0; i < d.batch.size(); ++i) shape.push_back(1);
          shape.push_back(d.event[0]);
          return eye(d.event[0], {}, d.options()).reshape(shape);
        },
    .derived = chances_of_several};

const Kind multinomial_kind = {
    .name = "Multinomial",
    .cancels = true,
    .parameters = {{{"probs", Constraint::simplex, 1}}},
    .has_rsample = detail::never,
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          const Tensor none = zeros(shape, d.options());
          if (d.count == 0) return none;
          const Dims outer = detail::without_last(shape, 1);
          const Tensor picks = chosen(d, detail::joined({d.count}, outer), g).movedim({0}, {-1});
          return scatter_add(none, -1, picks, ones(picks.shape(), d.options()));
        },
    .log_prob =
        [](const Body& d, const Tensor& given) {
          const Tensor x = floats_like(d, given), logits = logits_of(d, 0, false);
          const Tensor terms = masked_fill(logits * x, logical_and(x == 0, logits == -infinity), 0);
          return lgamma(sum(x, {-1}) + 1) - sum(lgamma(x + 1), {-1}) + sum(terms, {-1});
        },
    .entropy =
        [](const Body& d) {
          const double n = static_cast<double>(d.count);
          const Tensor alone = n * entropy_of_several(d) - std::lgamma(n + 1), probs = probs_of(d, 0, false);
          if (d.count == 0) return alone;
          const Body one{.kind = &binomial_kind, .batch = probs.shape(), .parameters = {full_like(probs, n), probs}};
          const Tensor values = counted(probs, probs.dtype(), d.count + 1, probs.dim()).narrow(0, 1, d.count);
          return alone + sum(exp(binomial_log_prob(one, values)) * lgamma(values + 1), {0, -1});
        },
    .mean = [](const Body& d) { return static_cast<double>(d.count) * probs_of(d, 0, false); },
    .variance =
        [](const Body& d) {
          const Tensor p = probs_of(d, 0, false);
          return static_cast<double>(d.count) * p * (1 - p);
        },
    .in_support =
        [](const Body& d, const Tensor& x) {
          return logical_and(all(logical_and(x >= 0, is_whole(x)), {-1}), sum(x, {-1}) == d.count);
        },
    .derived = chances_of_several};

// ---- constructors ---------------------------------------------------------------------------------------------------

Distribution of_two(const Kind& kind, const Chances& chances, const Options& options) {
  const CallScope call(kind.name, chances.where);
  Body body = make_body(kind, {&chances.values}, options);
  body.logits = chances.are_logits;
  detail::check_parameters(body);
  return finished(std::move(body));
}

Body of_several(const Kind& kind, const Chances& chances, bool has_event, const Options& options) {
  Body body = make_body(kind, {&chances.values}, options);
  body.logits = chances.are_logits;
  const int64_t n = body[0].size(-1);
  if (n == 0) raise<ShapeError>({.problem = fmt::format("{} needs one outcome or more", kind.name)});
  if (has_event) body.event = Dims{n};
  if (body.validate && !body.logits && detail::has_elements(body[0])) {
    const NoGradGuard unrecorded;
    check_elements([p = body[0], kind = kind.name] {
      if (logical_and(all(p >= 0), all(logical_and(sum(p, {-1}) > 0, isfinite(sum(p, {-1}))))).item<bool>()) return;
      raise<ValueError>({.problem = fmt::format(
                             "parameter 'probs' of {}: expected finite numbers of at least 0 and one above 0", kind)});
    });
  }
  Tensor& p = body.parameters[0];
  p = body.logits ? p - logsumexp(p, {-1}, true) : p / sum(p, {-1}, true);
  if (body.logits) detail::check_parameters(body);
  return body;
}

}  // namespace

Distribution Bernoulli(const Chances& chances, Options options) { return of_two(bernoulli_kind, chances, options); }

Distribution Geometric(const Chances& chances, Options options) {
  const Distribution d = of_two(geometric_kind, chances, options);
  if (const Body& body = d.body(); body.validate && !body.logits && detail::has_elements(body[0])) {
    const CallScope call(geometric_kind.name, chances.where);
    const NoGradGuard unrecorded;
    check_elements([p = body[0]] {
      if (all(p > 0).item<bool>()) return;
      raise<ValueError>({.problem = "parameter 'probs' of Geometric is not above 0 everywhere"});
    });
  }
  return d;
}

Distribution Binomial(const Operand& total_count, const Chances& chances, Options options) {
  const CallScope call(binomial_kind.name, total_count.where);
  const Tensor count = is_floating(checked(total_count.tensor()).dtype())
                           ? total_count.tensor()
                           : total_count.tensor().to(floating_point(chances.values).dtype());
  Body body = make_body(binomial_kind, {&count, &chances.values}, options);
  body.logits = chances.are_logits;
  detail::check_parameters(body);
  return finished(std::move(body));
}

Distribution Poisson(const Operand& rate, Options options) {
  const CallScope call(poisson_kind.name, rate.where);
  Body body = make_body(poisson_kind, {&rate.tensor()}, options);
  detail::check_parameters(body);
  return finished(std::move(body));
}

Distribution Categorical(const Chances& chances, Options options) {
  const CallScope call(categorical_kind.name, chances.where);
  return finished(of_several(categorical_kind, chances, false, options));
}
Distribution OneHotCategorical(const Chances& chances, Options options) {
  const CallScope call(one_hot_kind.name, chances.where);
  return finished(of_several(one_hot_kind, chances, true, options));
}
Distribution Multinomial(int64_t total_count, const Chances& chances, Options options) {
  const CallScope call(multinomial_kind.name, chances.where);
  if (total_count < 0) raise<ValueError>({.problem = fmt::format("{} trials", total_count)});
  Body body = of_several(multinomial_kind, chances, true, options);
  body.count = total_count;
  return finished(std::move(body));
}

}  // namespace weft::distributions
