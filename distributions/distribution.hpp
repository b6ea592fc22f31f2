// Probability distributions: batches of them, their draws with gradients, densities and figures.
//
//   const auto d = distributions::Normal(mean, deviation);   // parameters broadcast to batch_shape()
//   const Tensor x = d.rsample({32});                        // [32, batch …, event …]
//   const Tensor lp = d.log_prob(x);                         // [32, batch …]
//   const Tensor distance = distributions::kl(d, distributions::Normal(0.0, 1.0));
//
// A distribution is a value; copies share its parameters. Parameters are tensors or C++ numbers, of one floating dtype
// after promotion (integers give the default dtype), and everything is differentiable in them as often as its formula
// is. Names and formulas are PyTorch's (torch.distributions).
//
// Unless `validate_args` is off, parameters are looked at when the distribution is made and values in log_prob, cdf and
// icdf: ValueError where one lies outside of what the distribution allows. That waits for a device. ShapeError where
// shapes do not broadcast, DTypeError for dtypes that have no floating one in common. What a kind does not have is a
// NotImplementedError that names it.
//
// Draws come from the generator of the parameters' device, or from `generator`: a seed gives the same draws on every
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
  /// Draws of shape `shape` + batch + event, without and with a gradient to the parameters. Draws of gamma, beta,
  /// Dirichlet, chi2 and Student distributions have implicit gradients (Figurnov et al. 2018), to second order.
  /// NotImplementedError from rsample where there is no reparametrisation.
  Tensor sample(const Dims& shape = {}, Generator* generator = nullptr, Location where = {}) const;
  Tensor rsample(const Dims& shape = {}, Generator* generator = nullptr, Location where = {}) const;
  bool has_rsample() const;

  /// The logarithm of the density, or of the probability, of `value`, whose shape broadcasts with batch + event:
  /// without the event's dimensions.
  Tensor log_prob(const Operand& value) const;
  /// The probability of at most `value`, and the value at which it is `probability`.
  Tensor cdf(const Operand& value) const;
  Tensor icdf(const Operand& probability) const;
  /// In nats; [batch].
  Tensor entropy(Location where = {}) const;

  // [batch, event]; NaN or infinity where they are not defined.
  Tensor mean(Location where = {}) const;
  Tensor mode(Location where = {}) const;
  Tensor variance(Location where = {}) const;
  Tensor stddev(Location where = {}) const;

  /// Whether values are possible; bool, without the event's dimensions.
  Tensor in_support(const Operand& value) const;
  /// All values of a discrete distribution of bounded support: [count, batch, event], or with ones for the batch.
  Tensor enumerate_support(bool expand = true, Location where = {}) const;

  Dims batch_shape() const;
  Dims event_shape() const;
  /// The same distribution with another batch, to which its own broadcasts.
  Distribution expand(const Dims& batch_shape, Location where = {}) const;

  /// "Normal".
  const char* name() const;
  /// "loc", "scale", "probs" …; each of "probs" and "logits", and of "covariance_matrix", "precision_matrix" and
  /// "scale_tril", whichever was given. KeyError for another name.
  Tensor parameter(std::string_view name, Location where = {}) const;
  /// What it is made of: of Independent and Transformed the base, of MixtureSameFamily the mixture and the components.
  const std::vector<Distribution>& parts() const;
  const std::vector<Transform>& transforms() const;

  explicit Distribution(Shared<const detail::Body> body) : body_(std::move(body)) {}
  const detail::Body& body() const { return *body_; }

 private:
  Shared<const detail::Body> body_;
};

struct Options {
  /// Whether values are looked at. Where it is left out, default_validate_args() says so.
  std::optional<bool> validate_args = {};
};
/// True unless it was set otherwise, for all threads.
WEFT_API bool default_validate_args();
WEFT_API void set_default_validate_args(bool on);

/// Log-odds in place of probabilities: `Bernoulli(Logits{x})`.
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
/// exp of a normal number.
WEFT_API Distribution LogNormal(const Operand& loc, const Operand& scale, Options options = {});
/// |x| of a normal number around 0.
WEFT_API Distribution HalfNormal(const Operand& scale, Options options = {});
/// 1 / (high - low) on [low, high), where low is below high.
WEFT_API Distribution Uniform(const Operand& low, const Operand& high, Options options = {});
/// Density exp(-|x - loc| / scale) / (2 scale).
WEFT_API Distribution Laplace(const Operand& loc, const Operand& scale, Options options = {});
/// Density 1 / (π scale (1 + ((x - loc) / scale)²)).
WEFT_API Distribution Cauchy(const Operand& loc, const Operand& scale, Options options = {});
/// Of the largest of many: density exp(-(z + exp(-z))) / scale with z = (x - loc) / scale.
WEFT_API Distribution Gumbel(const Operand& loc, const Operand& scale, Options options = {});
/// Student's t with df degrees of freedom, moved and scaled.
WEFT_API Distribution StudentT(const Operand& df, const Operand& loc = 0.0, const Operand& scale = 1.0,
                               Options options = {});
/// Density rate exp(-rate x) from 0 on.
WEFT_API Distribution Exponential(const Operand& rate, Options options = {});
/// Density rate^concentration x^(concentration - 1) exp(-rate x) / Γ(concentration).
WEFT_API Distribution Gamma(const Operand& concentration, const Operand& rate, Options options = {});
/// Gamma(df / 2, 1 / 2).
WEFT_API Distribution Chi2(const Operand& df, Options options = {});
/// Density x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / B on [0, 1].
WEFT_API Distribution Beta(const Operand& concentration1, const Operand& concentration0, Options options = {});

// ---- over integers ----
/// 1 with a probability, else 0.
WEFT_API Distribution Bernoulli(const Chances& chances, Options options = {});
/// How many of total_count trials succeed.
WEFT_API Distribution Binomial(const Operand& total_count, const Chances& chances, Options options = {});
/// Failures before the first success: 0, 1, …
WEFT_API Distribution Geometric(const Chances& chances, Options options = {});
WEFT_API Distribution Poisson(const Operand& rate, Options options = {});
/// i64 in [0, n), from chances [batch, n], which need not add up to 1.
WEFT_API Distribution Categorical(const Chances& chances, Options options = {});

// ---- over vectors ----
/// The same as vectors [n] of a 1 among zeros.
WEFT_API Distribution OneHotCategorical(const Chances& chances, Options options = {});
/// How often each of n came in total_count draws; [n] that add up to it.
WEFT_API Distribution Multinomial(int64_t total_count, const Chances& chances, Options options = {});
/// Of vectors [n] that add up to 1, from concentrations [batch, n].
WEFT_API Distribution Dirichlet(const Tensor& concentration, Options options = {}, Location where = {});
/// Exactly one of them, [batch, n, n]: the covariance, its inverse, or its lower triangular factor.
struct Spread {
  Tensor covariance_matrix = {}, precision_matrix = {}, scale_tril = {};
};
/// Of vectors [n] around loc [batch, n]. ValueError unless one of `spread` is given.
WEFT_API Distribution MultivariateNormal(const Tensor& loc, const Spread& spread, Options options = {},
                                         Location where = {});

// ---- made of others ----
/// The last `count` dimensions of the batch become the first of the event.
WEFT_API Distribution Independent(const Distribution& base, int64_t count, Options options = {}, Location where = {});
/// One of the components along the last dimension of their batch, chosen by a Categorical over it.
WEFT_API Distribution MixtureSameFamily(const Distribution& mixture, const Distribution& components,
                                        Options options = {}, Location where = {});
/// What becomes of the base's draws by the transforms, in their order.
WEFT_API Distribution TransformedDistribution(const Distribution& base, std::vector<Transform> transforms,
                                              Options options = {}, Location where = {});

/// The Kullback-Leibler divergence E_p[log p(x) - log q(x)] in closed form; batches broadcast. Infinite where p is
/// possible and q is not. NotImplementedError for a pair without one, which names it.
WEFT_API Tensor kl(const Distribution& p, const Distribution& q, Location where = {});
/// The names of kinds for which kl has a formula.
WEFT_API std::vector<std::pair<const char*, const char*>> kl_pairs();

}  // namespace weft::distributions
