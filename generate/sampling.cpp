#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "../tensor/philox.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::generate {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The logits as doubles. Raises ValueError for NaN and if none is finite.
std::vector<double> checked_logits(std::span<const float> logits, Location where) {
  std::vector<double> out(logits.begin(), logits.end());
  const bool has_nan = std::ranges::any_of(out, [](double x) { return std::isnan(x) || x == infinity; });
  const bool has_finite = std::ranges::any_of(out, [](double x) { return std::isfinite(x); });
  if (!has_nan && has_finite) return out;
  raise<ValueError>({.op = "sample",
                     .problem = has_nan ? "a logit is NaN or infinite" : "no logit is finite",
                     .details = fmt::format("{} logits", logits.size())},
                    where);
}

void penalise(std::vector<double>& logits, std::span<const int64_t> sequence, double penalty, Location where) {
  if (penalty == 1) return;
  std::vector<int64_t> own(sequence.begin(), sequence.end());
  std::ranges::sort(own);
  own.erase(std::unique(own.begin(), own.end()), own.end());
  for (const int64_t token : own) {
    if (token < 0 || token >= std::ssize(logits)) {
      raise<ValueError>({.op = "sample", .problem = fmt::format("token {} of {}", token, logits.size())}, where);
    }
    double& x = logits[static_cast<size_t>(token)];
    x = x > 0 ? x / penalty : x * penalty;
  }
}

bool is_before(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

/// exp(x / temperature), scaled to a maximum of 1.
std::vector<double> weights_of(const std::vector<double>& logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> out(logits.size());
  std::ranges::transform(logits, out.begin(), [&](double x) { return std::exp((x - largest) / temperature); });
  return out;
}

/// Sorts the n most likely candidates to the front.
void bring_forward(std::vector<Candidate>& all, int64_t n) {
  std::partial_sort(all.begin(), all.begin() + std::min(n, std::ssize(all)), all.end(), is_before);
}

/// Number of the most likely candidates with a total of at least `share` of `sum`. They are then sorted.
int64_t count_of_share(std::vector<Candidate>& all, double share, double sum) {
  double have = 0;
  int64_t sorted = 0;
  for (int64_t i = 0; i < std::ssize(all); ++i) {
    if (i == sorted) bring_forward(all, sorted = std::max<int64_t>(64, 8 * sorted));
    have += all[static_cast<size_t>(i)].probability;
    if (have >= share * sum) return i + 1;
  }
  return std::ssize(all);
}

double sum_of(const std::vector<Candidate>& all) {
  double sum = 0;
  for (const Candidate& c : all) sum += c.probability;
  return sum;
}

/// Candidates after all filters, with unnormalised probabilities; sorted only if a filter requires it.
std::vector<Candidate> filter_candidates(const std::vector<double>& logits, const SamplingOptions& o) {
  if (o.temperature == 0) {
    const auto best = std::ranges::max_element(logits);
    return {{best - logits.begin(), 1}};
  }
  const std::vector<double> weights = weights_of(logits, o.temperature);
  std::vector<Candidate> all;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) all.push_back({static_cast<int64_t>(i), weights[i]});
  }
  if (o.top_k > 0 && o.top_k < std::ssize(all)) {
    bring_forward(all, o.top_k);
    all.resize(static_cast<size_t>(o.top_k));
  }
  if (o.top_p < 1) all.resize(static_cast<size_t>(count_of_share(all, o.top_p, sum_of(all))));
  if (o.min_p > 0) std::erase_if(all, [&](const Candidate& c) { return c.probability < o.min_p; });
  return all;
}

}  // namespace

void check(const SamplingOptions& o, Location where) {
  const auto refuse = [&](const char* name, const char* expected, double value) {
    raise<ValueError>({.op = "sample", .problem = mismatch_text(name, expected, value)}, where);
  };
  if (!(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty))) {
    refuse("repetition_penalty", "a finite number above 0", o.repetition_penalty);
  }
  if (!(o.temperature >= 0 && std::isfinite(o.temperature))) {
    refuse("temperature", "a finite number of at least 0", o.temperature);
  }
  if (o.top_k < 0) refuse("top_k", "at least 0", static_cast<double>(o.top_k));
  if (!(o.top_p > 0 && o.top_p <= 1)) refuse("top_p", "a number in (0, 1]", o.top_p);
  if (!(o.min_p >= 0 && o.min_p <= 1)) refuse("min_p", "a number in [0, 1]", o.min_p);
}

std::vector<Candidate> candidates(std::span<const float> logits, std::span<const int64_t> sequence,
                                  const SamplingOptions& options, Location where) {
  check(options, where);
  std::vector<double> own = checked_logits(logits, where);
  penalise(own, sequence, options.repetition_penalty, where);
  std::vector<Candidate> out = filter_candidates(own, options);
  std::ranges::sort(out, is_before);
  const double sum = sum_of(out);
  for (Candidate& c : out) c.probability /= sum;
  return out;
}

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

Sampler::Sampler(SamplingOptions options, uint64_t seed, uint64_t sequence_number, Location where)
    : options_(options), state_{seed, sequence_number, 0} {
  check(options, where);
}

double Sampler::uniform() {
  const PhiloxWords words = philox4x32_10(state_.seed, state_.subsequence, state_.offset++);
  const uint64_t bits = static_cast<uint64_t>(words.word[1]) << 32 | words.word[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Sampler::Drawn Sampler::operator()(std::span<const float> logits, std::span<const int64_t> sequence, Location where) {
  std::vector<double> own = checked_logits(logits, where);
  penalise(own, sequence, options_.repetition_penalty, where);
  std::vector<Candidate> stay = filter_candidates(own, options_);
  // Inverse transform over sorted candidates, so that models with similar probabilities draw the same token from the
  // same random number.
  const int64_t place = options_.temperature == 0 ? 1 : count_of_share(stay, uniform(), sum_of(stay));
  const int64_t token = stay[static_cast<size_t>(place - 1)].token;
  return {token, logits[static_cast<size_t>(token)] - log_sum_exp(logits)};
}

}  // namespace weft::generate
