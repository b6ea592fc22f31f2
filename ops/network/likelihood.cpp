// Losses that are negative log-likelihoods of single elements.
#include <cmath>

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/losses.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

// Raises unless all elements satisfy the condition `what`; empty and meta tensors are not checked.
void check_range(const Tensor& t, double low, double high, const char* problem) {
  if (t.numel() == 0 || is_meta(t)) return;
  check_elements([=, single = without_repeats(t)] {
    const NoGradGuard unrecorded;
    if (amin(single).item<double>() >= low && amax(single).item<double>() <= high) return;
    raise<ValueError>({.problem = problem});
  });
}

constexpr double least_logarithm = -100, least_variance = 1e-12F;  // PyTorch's, a float

Tensor bounded(const Tensor& logarithms) { return clip(logarithms, least_logarithm, std::nullopt); }

// log((1 - p) / p) of bounded logarithms; also when differentiated at 0 and 1, where it is constant.
Tensor bounded_odds(const Tensor& p) {
  const double least = std::exp(least_logarithm);
  const Tensor none = p <= least, all = 1 - p <= least;
  const Tensor rest = masked_fill(log1p(-masked_fill(p, all, 0)), all, least_logarithm);
  return rest - masked_fill(log(masked_fill(p, none, 1)), none, least_logarithm);
}

struct BinaryBackward {
  Saved x, y;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor &g = incoming[0], &p = x.get(self);
    if (self.wants(0)) {
      const Tensor variance = clip(p * (1 - p), least_variance, std::nullopt);
      outgoing[0] = g * (p - y.get(self)) / variance;
    }
    if (self.wants(1)) outgoing[1] = g * bounded_odds(p);
  }
};

Tensor binary_losses(const Tensor& x, const Tensor& y) {
  Tensor losses;
  {
    const NoGradGuard unrecorded;
    losses = (y - 1) * bounded(log1p(-x)) - y * bounded(log(x));
  }
  if (should_record(x, y)) record(losses, BinaryBackward{Saved(x), Saved(y)}, x, y);
  return losses;
}

void check_one_shape(const Tensor& x, const Tensor& y) {
  if (x.shape() == y.shape()) return;
  raise<ShapeError>({.problem = fmt::format("targets {} for an input {}", y.shape().text(), x.shape().text())});
}

// x's sizes for `variance`, in which one dimension may be missing or 1.
Tensor fitted_variance(const Tensor& variance, const Tensor& x) {
  const Dims own = variance.shape(), wanted = x.shape();
  if (own.empty() || own == wanted) return variance;
  Dims shorter = wanted;
  if (!wanted.empty()) shorter.erase(wanted.size() - 1);
  if (own == shorter) return variance.unsqueeze(-1);
  int odd = 0;
  bool fits = own.size() == wanted.size();
  for (int i = 0; fits && i < own.size(); ++i) {
    odd += own[i] != wanted[i] ? 1 : 0;
    fits = own[i] == wanted[i] || own[i] == 1;
  }
  if (fits && odd == 1) return variance;
  raise<ShapeError>({.problem = fmt::format("a variance {} for an input {}", own.text(), wanted.text()),
                     .remedy = "leave the last dimension out, or have 1 in place of one"});
}

}  // namespace

Tensor binary_cross_entropy(const Operand& x, const Operand& y, PlainBinaryOptions options, Location where) {
  const CallScope call("binary_cross_entropy", where);
  WEFT_IN_FULL(binary_cross_entropy, x, y, options, where);
  const auto [p, wanted, dtype] = loss_pair(x.tensor(), y.tensor());
  tell_watch_of_loss(x.tensor(), y.tensor());
  check_one_shape(p, wanted);
  check_range(p, 0, 1, "the input has numbers outside [0, 1]");
  check_range(wanted, 0, 1, "the target has numbers outside [0, 1]");
  Tensor losses = binary_losses(p, wanted);
  if (options.weight.defined()) {
    losses = losses * options.weight.to(losses.dtype());
    check_one_shape(p, losses);
  }
  return reduced_to(dtype, losses, options.reduction);
}

Tensor kl_div(const Operand& x, const Operand& y, KlOptions options, Location where) {
  const CallScope call("kl_div", where);
  WEFT_IN_FULL(kl_div, x, y, options, where);
  const auto [logs, wanted, dtype] = loss_pair(x.tensor(), y.tensor());
  check_floating(y.tensor());
  // Outcomes with probability 0 in both contribute 0, although their logarithms are infinite.
  const Tensor none = options.log_target ? wanted == -HUGE_VAL : wanted == 0;
  const Tensor finite = weft::where(logical_and(none, logs == -HUGE_VAL), 0.0, logs);
  const Tensor losses = options.log_target ? exp(wanted) * (weft::where(none, 0.0, wanted) - finite)
                                           : xlogy(wanted, wanted) - wanted * finite;
  warn_of_broadcast(x.tensor(), y.tensor(), losses);
  return reduced_to(dtype, losses, options.reduction);
}

Tensor gaussian_nll_loss(const Operand& x, const Operand& y, const Operand& variance, GaussianNllOptions options,
                         Location where) {
  const CallScope call("gaussian_nll_loss", where);
  WEFT_IN_FULL(gaussian_nll_loss, x, y, variance, options, where);
  const auto [mean, seen, common] = loss_pair(x.tensor(), y.tensor());
  const Tensor given = fitted_variance(checked(variance.tensor()), mean);
  check_range(given, 0, HUGE_VAL, "a variance is negative");
  const DType dtype = result_type(mean.to(common), given);
  const Tensor v = raised_to(given.to(compute_type(dtype)), options.eps);
  Tensor losses = (log(v) + square(mean - seen) / v) * 0.5;
  warn_of_broadcast(x.tensor(), y.tensor(), losses);
  if (options.full) losses = losses + 0.5 * std::log(2 * M_PI);
  return reduced_to(dtype, losses, options.reduction);
}

Tensor poisson_nll_loss(const Operand& x, const Operand& y, PoissonNllOptions options, Location where) {
  const CallScope call("poisson_nll_loss", where);
  WEFT_IN_FULL(poisson_nll_loss, x, y, options, where);
  const auto [rate, count, dtype] = loss_pair(x.tensor(), y.tensor());
  Tensor losses = options.log_input ? exp(rate) - count * rate : rate - count * log(rate + options.eps);
  warn_of_broadcast(x.tensor(), y.tensor(), losses);
  if (options.full) {
    const Tensor stirling = count * log(count) - count + 0.5 * log(2 * M_PI * count);
    losses = losses + weft::where(count > 1, stirling, 0.0);
  }
  return reduced_to(dtype, losses, options.reduction);
}

namespace {

Tensor call_binary(const Tensor& x, const Tensor& y, const Tensor& weight, const std::string& reduction) {
  return binary_cross_entropy(x, y, {.weight = weight, .reduction = reduction_named(reduction)});
}
Tensor call_kl(const Tensor& x, const Tensor& y, const std::string& reduction, bool log_target) {
  const bool of_batch = reduction == "batchmean";
  const auto how = of_batch ? LossReduction::sum : reduction_named(reduction);
  const Tensor loss = kl_div(x, y, {.reduction = how, .log_target = log_target});
  return of_batch && x.dim() != 0 ? loss / x.sizes()[0] : loss;
}
Tensor call_gaussian(const Tensor& x, const Tensor& y, const Operand& variance, bool full, double eps,
                     const std::string& reduction) {
  return gaussian_nll_loss(x, y, variance, {.reduction = reduction_named(reduction), .full = full, .eps = eps});
}
Tensor call_poisson(const Tensor& x, const Tensor& y, bool log_input, bool full, double eps,
                    const std::string& reduction) {
  return poisson_nll_loss(x, y,
                          {.reduction = reduction_named(reduction), .log_input = log_input, .full = full, .eps = eps});
}

std::vector<Values> binary_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0.05, 0.95), make.tensor({2, 3}, 0, 1)},
          {make.tensor({2, 3}, 0.05, 0.95), make.tensor({2, 3}, 0, 1), make.tensor({3}, 0.5, 2), "none"},
          {make.tensor({}, 0.05, 0.95), make.tensor({}, 0, 1), std::monostate{}, "sum"},
          {make.tensor({0, 2}), make.tensor({0, 2}), std::monostate{}, "sum"}};
}
std::vector<Values> kl_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 0), make.tensor({2, 3}, 0.05, 1)},
          {make.tensor({2, 3}, -3, 0), make.tensor({2, 3}, -3, 0), "batchmean", true},
          {make.tensor({2, 3}, -3, 0), make.tensor({2, 3}, 0.05, 1), "none"},
          {make.tensor({}, -3, 0), make.tensor({}, 0.05, 1), "batchmean"},
          {make.tensor({0, 2}), make.tensor({0, 2}), "sum"}};
}
std::vector<Values> gaussian_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}), make.tensor({2, 3}, 0.5, 2)},
          {make.tensor({2, 3}), make.tensor({2, 3}), make.tensor({2}, 0.5, 2), true, 1e-6, "none"},
          {make.tensor({2, 3}), make.tensor({3}), make.tensor({2, 1}, 0.5, 2), false, 1e-6, "sum"},
          {make.tensor({}), make.tensor({}), 0.5},
          {make.tensor({0, 2}), make.tensor({0, 2}), make.tensor({0, 2}), false, 1e-6, "sum"}};
}
std::vector<Values> poisson_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 0, 5)},
          {make.tensor({2, 3}, 0.5, 4), make.tensor({2, 3}, 1.2, 5), false, true, 1e-8, "none"},
          {make.tensor({}), make.tensor({}, 2, 3), true, true, 1e-8, "sum"},
          {make.tensor({0, 2}), make.tensor({0, 2}), true, false, 1e-8, "sum"}};
}

/// One variance a row is no operand that broadcasts.
Partition with_variance(const WholeCall& call) {
  const bool by_row = call.tensor("var").defined() && call.tensor("var").dim() < call.inputs()[0].dim();
  return by_row ? parts::whole(call) : parts::pointwise_loss(call);
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"binary_cross_entropy", "binary_cross_entropy(x, y|target, weight=None, *, reduction='mean')",
     "-(y log x + (1 - y) log(1 - x)) * weight from probabilities x of y's shape; no logarithm is below -100.",
     OpFacts(true, Autocast::full), floating, binary_samples, parts::pointwise_loss, detail::boxed<call_binary>},
    {"kl_div", "kl_div(x, y|target, reduction='mean', *, log_target=False)",
     "y * (log y - x), or exp(y) * (y - x): log-probabilities x beside probabilities y, or log-probabilities. "
     "'batchmean' divides the sum by the first size.",
     OpFacts(true, Autocast::full), floating, kl_samples, parts::pointwise_loss, detail::boxed<call_kl>},
    {"gaussian_nll_loss", "gaussian_nll_loss(x, y|target, var, full=False, eps=1e-6, reduction='mean')",
     "(log var + (x - y)^2 / var) / 2 with var raised to eps; full adds log(2 pi) / 2 (Nix and Weigend 1994).",
     OpFacts(true, Autocast::full), floating, gaussian_samples, with_variance, detail::boxed<call_gaussian>},
    {"poisson_nll_loss", "poisson_nll_loss(x, y|target, log_input=True, full=False, *, eps=1e-8, reduction='mean')",
     "exp(x) - y * x, or x - y * log(x + eps) of rates x; full adds Stirling's approximation of log y!.",
     OpFacts(true, Autocast::full), floating, poisson_samples, parts::pointwise_loss, detail::boxed<call_poisson>},
};

}  // namespace

std::span<const OpRecord> likelihood_records() { return records; }

}  // namespace weft
