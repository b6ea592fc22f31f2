// What a kind of distribution is: a row of functions over its parameters. Not public.
#pragma once

#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "../distribution.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"

namespace weft::distributions::detail {

inline constexpr double infinity = HUGE_VAL, pi = std::numbers::pi, euler = std::numbers::egamma;

/// What a parameter may be.
enum class Constraint : uint8_t {
  real,
  positive,
  nonnegative,
  unit_interval,
  simplex,
  nonnegative_integer,
  lower_cholesky
};

struct Kind {
  struct Parameter {
    const char* name;
    Constraint constraint = Constraint::real;
    /// How many of its last dimensions are no batch.
    int event_rank = 0;
  };
  using OfBody = Tensor (*)(const Body&);
  using OfValue = Tensor (*)(const Body&, const Tensor&);

  const char* name;
  /// Its formulas have large terms that cancel: on the CPU they are computed in f64.
  bool cancels = false;
  std::array<Parameter, 3> parameters = {};
  /// Under which name kl looks it up; its own where null.
  const char* family = nullptr;
  bool (*has_rsample)(const Body&) = [](const Body&) { return true; };
  /// Of this whole shape; differentiable in the parameters where has_rsample.
  Tensor (*draw)(const Body&, const Dims& shape, Generator*) = nullptr;
  OfValue log_prob = nullptr, cdf = nullptr, icdf = nullptr;
  OfBody entropy = nullptr, mean = nullptr, mode = nullptr, variance = nullptr;
  /// Whether a value is possible, without the event's dimensions.
  OfValue in_support = nullptr;
  /// [count, ones, event].
  OfBody enumerate = nullptr;
  /// By a name that is no parameter's; undefined where there is none.
  Tensor (*derived)(const Body&, std::string_view name) = nullptr;
  /// Where more is to do than to expand parameters and parts alike.
  Distribution (*expand)(const Body&, const Dims& batch) = nullptr;
};

struct Body {
  const Kind* kind;
  Dims batch = {}, event = {};
  bool validate = true;
  /// In the order of the kind's; expanded to batch + their event.
  std::vector<Tensor> parameters = {};
  /// parameters[0] or, of a binomial, parameters[1] are logits.
  bool logits = false;
  std::vector<Distribution> parts = {};
  std::vector<Transform> transforms = {};
  /// Trials of a multinomial; dimensions that an independent one adds.
  int64_t count = 0;

  const Tensor& operator[](int i) const { return parameters[static_cast<size_t>(i)]; }
  TensorOptions options() const { return {parameters[0].dtype(), parameters[0].device()}; }
  /// batch + event.
  Dims shape() const;
};

bool never(const Body&);
/// The distance from 1 to the next number.
double epsilon_of(DType dtype);
Dims joined(const Dims& a, const Dims& b);
/// a without its last `count`.
Dims without_last(const Dims& a, int count);
/// What all of these broadcast to. ShapeError.
Dims broadcast_all(std::initializer_list<Dims> shapes);
/// Whether elements may be looked at.
bool has_elements(const Tensor& t);
Tensor sum_last(const Tensor& t, int count);
Tensor all_last(const Tensor& t, int count);
bool is_integral(DType dtype);
/// Whole numbers.
Tensor is_whole(const Tensor& x);

/// A body whose parameters broadcast, are of one floating dtype and meet their constraints.
Body made(const Kind& kind, std::initializer_list<const Tensor*> parameters, const Options& options);
/// Checks what made() checks.
void check_parameters(const Body& body);
inline Distribution finished(Body body) { return Distribution(Shared<const Body>::make(std::move(body))); }

/// Uniform numbers in (0, 1): both ends excluded.
Tensor open_uniform(const Body& d, const Dims& shape, Generator* generator);
/// log(1 + y²), also where y² is no finite number.
Tensor log1p_square(const Tensor& y);
/// The body in the dtype of its formulas: f64 on the CPU.
Body widened(const Body& d);
/// log Γ(a) + log Γ(b) - log Γ(a + b).
Tensor log_beta(const Tensor& a, const Tensor& b);
/// Chances of two, or of several along the last dimension, in both forms.
Tensor probs_of(const Body& d, int parameter = 0, bool binary = true);
Tensor logits_of(const Body& d, int parameter = 0, bool binary = true);
/// 1 - the chance of two.
Tensor rest_of(const Body& d, int parameter = 0);
/// The log-likelihood of `yes` successes and `no` failures, each with its chance of two; 0 log 0 is 0.
Tensor log_likelihood(const Body& d, const Tensor& yes, const Tensor& no, int parameter = 0);
/// Of the mean of a chance of two in itself.
Tensor entropy_of_two(const Body& d);

// Of a normal distribution with these parameters.
Tensor normal_log_prob(const Tensor& loc, const Tensor& scale, const Tensor& x);
Tensor normal_cdf(const Tensor& loc, const Tensor& scale, const Tensor& x);
Tensor normal_icdf(const Tensor& loc, const Tensor& scale, const Tensor& p);

}  // namespace weft::distributions::detail
