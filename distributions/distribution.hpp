// Probability distributions, in batches: differentiable draws, log-densities and moments.
//
//   const auto d = distributions::Normal(mean, deviation);   // parameters broadcast to batch_shape()
//   const Tensor x = d.rsample({32});                        // [32, batch …, event …]
//   const Tensor lp = d.log_prob(x);                         // [32, batch …]
//   const Tensor distance = distributions::kl(d, distributions::Normal(0.0, 1.0));
//
// Copies of a distribution share its parameters. Parameters are tensors or C++ numbers, promoted to one floating-point
// dtype (integers to the default dtype). All results are differentiable in the parameters as often as their formulas
// are. Names and formulas are PyTorch's (torch.distributions).
//
// Unless `validate_args` is off, the constructor checks parameters, and log_prob, cdf and icdf check values: ValueError
// if one is outside of the allowed range. The checks wait for a device. ShapeError is raised if shapes do not
// broadcast, DTypeError if the dtypes do not promote to a floating-point one. An operation that a distribution does not
// support raises NotImplementedError, with its name.
//
// Draws use the default generator of the parameters' device, or `generator`: a seed gives the same draws on every
// device.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"
#include "transform.hpp"

namespace weft::distributions {

namespace detail {
struct Body;
}

class WEFT_API Distribution {
 public:
  /// Draws of shape `shape` + batch + event; those of rsample have gradients to the parameters. Draws of gamma, beta,
  /// Dirichlet, chi2 and Student distributions have implicit gradients (Figurnov et al. 2018), to second order. rsample
  /// raises NotImplementedError for a distribution without reparametrisation.
  Tensor sample(const Dims& shape = {}, Generator* generator = nullptr, Location where = {}) const;
  Tensor rsample(const Dims& shape = {}, Generator* generator = nullptr, Location where = {}) const;
  bool has_rsample() const;

  /// The logarithm of the density, or of the probability, of `value`, without the event's dimensions. Its shape must
  /// broadcast with batch + event.
  Tensor log_prob(const Operand& value) const;
  /// The probability of at most `value`, and its inverse.
  Tensor cdf(const Operand& value) const;
  Tensor icdf(const Operand& probability) const;
  /// The entropy in nats; [batch].
  Tensor entropy(Location where = {}) const;

  // [batch, event]; NaN or infinity where undefined.
  Tensor mean(Location where = {}) const;
  Tensor mode(Location where = {}) const;
  Tensor variance(Location where = {}) const;
  Tensor stddev(Location where = {}) const;

  /// Whether values are in the support: bool, without the event's dimensions.
  Tensor in_support(const Operand& value) const;
  /// All values of a discrete distribution with bounded support: [count, batch, event], or without `expand` [count, 1
  /// …, event].
  Tensor enumerate_support(bool expand = true, Location where = {}) const;

  Dims batch_shape() const;
  Dims event_shape() const;
  /// The same distribution with another batch shape, to which its own broadcasts.
  Distribution expand(const Dims& batch_shape, Location where = {}) const;

  /// The class name: "Normal".
  const char* name() const;
  /// A parameter: "loc", "scale", "probs" … Either of "probs" and "logits" is available, and each of
  /// "covariance_matrix", "precision_matrix" and "scale_tril". Raises KeyError for another name.
  Tensor parameter(std::string_view name, Location where = {}) const;
  /// The component distributions: the base of Independent and Transformed, the mixture and the components of
  /// MixtureSameFamily.
  const std::vector<Distribution>& parts() const;
  const std::vector<Transform>& transforms() const;

  explicit Distribution(Shared<const detail::Body> body) : body_(std::move(body)) {}
  const detail::Body& body() const { return *body_; }

 private:
  Shared<const detail::Body> body_;
};

struct Options {
  /// Whether to check values. Default: default_validate_args().
  std::optional<bool> validate_args = {};
};
/// The default of validate_args for all threads; initially true.
WEFT_API bool default_validate_args();
WEFT_API void set_default_validate_args(bool on);

/// Log-odds instead of probabilities: `Bernoulli(Logits{x})`.
struct Logits {
  Tensor values;
};
/// Probabilities, as a tensor or a C++ number, or log-odds.
struct Chances {
  Chances(const Tensor& probs, Location here = {}) : values(probs), where(here) {}  // NOLINT: converts implicitly
  Chances(double probs, Location here = {});                                        // NOLINT
  Chances(Logits logits, Location here = {})                                        // NOLINT
      : values(std::move(logits.values)), are_logits(true), where(here) {}

  Tensor values;
  bool are_logits = false;
  Location where;
};

// ---- over real numbers ----
/// Density exp(-((x - loc) / scale)² / 2) / (scale √(2π)); scale is above 0.
WEFT_API Distribution Normal(const Operand& loc, const Operand& scale, Options options = {});
/// exp of a normal variable.
WEFT_API Distribution LogNormal(const Operand& loc, const Operand& scale, Options options = {});
/// |x| of a normal variable with mean 0.
WEFT_API Distribution HalfNormal(const Operand& scale, Options options = {});
/// Density 1 / (high - low) on [low, high); low must be below high.
WEFT_API Distribution Uniform(const Operand& low, const Operand& high, Options options = {});
/// Density exp(-|x - loc| / scale) / (2 scale).
WEFT_API Distribution Laplace(const Operand& loc, const Operand& scale, Options options = {});
/// Density 1 / (π scale (1 + ((x - loc) / scale)²)).
WEFT_API Distribution Cauchy(const Operand& loc, const Operand& scale, Options options = {});
/// Extreme value distribution: density exp(-(z + exp(-z))) / scale with z = (x - loc) / scale.
WEFT_API Distribution Gumbel(const Operand& loc, const Operand& scale, Options options = {});
/// Student's t with df degrees of freedom, shifted and scaled.
WEFT_API Distribution StudentT(const Operand& df, const Operand& loc = 0.0, const Operand& scale = 1.0,
                               Options options = {});
/// Density rate exp(-rate x) for x ≥ 0.
WEFT_API Distribution Exponential(const Operand& rate, Options options = {});
/// Density rate^concentration x^(concentration - 1) exp(-rate x) / Γ(concentration).
WEFT_API Distribution Gamma(const Operand& concentration, const Operand& rate, Options options = {});
/// Gamma(df / 2, 1 / 2).
WEFT_API Distribution Chi2(const Operand& df, Options options = {});
/// Density x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / B on [0, 1].
WEFT_API Distribution Beta(const Operand& concentration1, const Operand& concentration0, Options options = {});

// ---- over integers ----
/// 1 with the given probability, else 0.
WEFT_API Distribution Bernoulli(const Chances& chances, Options options = {});
/// Number of successes in total_count trials.
WEFT_API Distribution Binomial(const Operand& total_count, const Chances& chances, Options options = {});
/// Number of failures before the first success: 0, 1, …
WEFT_API Distribution Geometric(const Chances& chances, Options options = {});
WEFT_API Distribution Poisson(const Operand& rate, Options options = {});
/// i64 in [0, n), from probabilities [batch, n], which are normalised.
WEFT_API Distribution Categorical(const Chances& chances, Options options = {});

// ---- over vectors ----
/// As Categorical, as one-hot vectors [n].
WEFT_API Distribution OneHotCategorical(const Chances& chances, Options options = {});
/// Counts [n] of each class in total_count draws.
WEFT_API Distribution Multinomial(int64_t total_count, const Chances& chances, Options options = {});
/// Vectors [n] with sum 1, from concentrations [batch, n].
WEFT_API Distribution Dirichlet(const Tensor& concentration, Options options = {}, Location where = {});
/// Exactly one of three, [batch, n, n]: the covariance, its inverse, or its Cholesky factor.
struct Spread {
  Tensor covariance_matrix = {}, precision_matrix = {}, scale_tril = {};
};
/// Vectors [n] with mean loc [batch, n]. Raises ValueError unless exactly one member of `spread` is given.
WEFT_API Distribution MultivariateNormal(const Tensor& loc, const Spread& spread, Options options = {},
                                         Location where = {});

// ---- composed ----
/// Moves the last `count` dimensions of the batch to the event.
WEFT_API Distribution Independent(const Distribution& base, int64_t count, Options options = {}, Location where = {});
/// A mixture of the components along the last dimension of their batch, with a Categorical as weights.
WEFT_API Distribution MixtureSameFamily(const Distribution& mixture, const Distribution& components,
                                        Options options = {}, Location where = {});
/// The distribution of transformed draws of the base, with the transforms applied in order.
WEFT_API Distribution TransformedDistribution(const Distribution& base, std::vector<Transform> transforms,
                                              Options options = {}, Location where = {});

/// The Kullback-Leibler divergence E_p[log p(x) - log q(x)] in closed form; batches broadcast. Infinite if q is 0
/// somewhere in p's support. Raises NotImplementedError, with the names, for a pair without a formula.
WEFT_API Tensor kl(const Distribution& p, const Distribution& q, Location where = {});
/// The pairs of distributions for which kl has a formula.
WEFT_API std::vector<std::pair<const char*, const char*>> kl_pairs();

}  // namespace weft::distributions
