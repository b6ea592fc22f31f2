// A kind of distribution: a table of functions of its parameters. Not public.
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

/// The allowed values of a parameter.
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
    /// Number of its last dimensions that belong to the event.
    int event_rank = 0;
  };
  using OfBody = Tensor (*)(const Body&);
  using OfValue = Tensor (*)(const Body&, const Tensor&);

  const char* name;
  /// Whether its formulas have large cancelling terms: on the CPU they are then computed in f64.
  bool cancels = false;
  std::array<Parameter, 3> parameters = {};
  /// The name for lookups by kl; null means `name`.
  const char* family = nullptr;
  bool (*has_rsample)(const Body&) = [](const Body&) { return true; };
  /// A draw of the complete shape; differentiable in the parameters if has_rsample.
  Tensor (*draw)(const Body&, const Dims& shape, Generator*) = nullptr;
  OfValue log_prob = nullptr, cdf = nullptr, icdf = nullptr;
  OfBody entropy = nullptr, mean = nullptr, mode = nullptr, variance = nullptr;
  /// Whether a value is in the support, without the event's dimensions.
  OfValue in_support = nullptr;
  /// All values of the support: [count, 1 …, event].
  OfBody enumerate = nullptr;
  /// A derived parameter by name; undefined if there is none.
  Tensor (*derived)(const Body&, std::string_view name) = nullptr;
  /// Null if expanding parameters and parts alike suffices.
  Distribution (*expand)(const Body&, const Dims& batch) = nullptr;
};

struct Body {
  const Kind* kind;
  Dims batch = {}, event = {};
  bool validate = true;
  /// In the order of the kind's parameters; expanded to batch + event.
  std::vector<Tensor> parameters = {};
  /// Whether parameters[0], or parameters[1] of a binomial, are logits.
  bool logits = false;
  std::vector<Distribution> parts = {};
  std::vector<Transform> transforms = {};
  /// Trials of a multinomial; number of dimensions that an Independent moves to the event.
  int64_t count = 0;

  const Tensor& operator[](int i) const { return parameters[static_cast<size_t>(i)]; }
  TensorOptions options() const { return {parameters[0].dtype(), parameters[0].device()}; }
  /// batch + event.
  Dims shape() const;
};

bool never(const Body&);
double epsilon_of(DType dtype);
Dims joined(const Dims& a, const Dims& b);
/// a without its last `count` dimensions.
Dims without_last(const Dims& a, int count);
/// The broadcast shape. Raises ShapeError.
Dims broadcast_all(std::initializer_list<Dims> shapes);
/// Whether the host may read elements.
bool has_elements(const Tensor& t);
Tensor sum_last(const Tensor& t, int count);
Tensor all_last(const Tensor& t, int count);
bool is_integral(DType dtype);
/// Whether elements are whole numbers.
Tensor is_whole(const Tensor& x);

/// Constructs a body: broadcasts the parameters, promotes them to one floating-point dtype and checks their
/// constraints.
Body make_body(const Kind& kind, std::initializer_list<const Tensor*> parameters, const Options& options);
/// Repeats the checks of make_body().
void check_parameters(const Body& body);
inline Distribution finished(Body body) { return Distribution(Shared<const Body>::make(std::move(body))); }

/// Uniform numbers in the open interval (0, 1).
Tensor open_uniform(const Body& d, const Dims& shape, Generator* generator);
/// log(1 + y²), also if y² overflows.
Tensor log1p_square(const Tensor& y);
/// The body in the dtype of its formulas: f64 on the CPU.
Body widened(const Body& d);
/// log Γ(a) + log Γ(b) - log Γ(a + b).
Tensor log_beta(const Tensor& a, const Tensor& b);
/// Probabilities and logits, either binary ones or those of classes along the last dimension.
Tensor probs_of(const Body& d, int parameter = 0, bool binary = true);
Tensor logits_of(const Body& d, int parameter = 0, bool binary = true);
/// 1 - p of a binary probability.
Tensor rest_of(const Body& d, int parameter = 0);
/// The log-likelihood of `yes` successes and `no` failures with binary probabilities; 0 log 0 is 0.
Tensor log_likelihood(const Body& d, const Tensor& yes, const Tensor& no, int parameter = 0);
/// The binary entropy.
Tensor entropy_of_two(const Body& d);

// Functions of a normal distribution with these parameters.
Tensor normal_log_prob(const Tensor& loc, const Tensor& scale, const Tensor& x);
Tensor normal_cdf(const Tensor& loc, const Tensor& scale, const Tensor& x);
Tensor normal_icdf(const Tensor& loc, const Tensor& scale, const Tensor& p);

}  // namespace weft::distributions::detail
