// Sampling of the next token from a model's logits.
//
//   generate::Sampler draw({.temperature = 0.8, .top_p = 0.95}, 7);
//   const int64_t next = draw(logits, tokens).token;
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../tensor/generator.hpp"
#include "../tensor/location.hpp"

namespace weft::generate {

/// Applied in this order; the defaults disable each option.
struct SamplingOptions {
  /// If above 1, the logits of tokens already in the sequence are divided by it if positive, else multiplied (Keskar et
  /// al. 2019).
  double repetition_penalty = 1;
  /// Divisor of the logits. 0 takes the most likely token, among equals the lowest, without a random draw.
  double temperature = 1;
  /// Keep the k most likely tokens, among equals the lowest; 0 keeps all.
  int64_t top_k = 0;
  /// Keep the fewest most likely tokens with a total probability of at least this, at least one (Holtzman et al. 2020).
  double top_p = 1;
  /// Keep tokens with at least this fraction of the highest probability (Nguyen et al. 2024).
  double min_p = 0;
};
/// Raises ValueError for NaN, a temperature or min_p below 0, a penalty that is not above 0, top_k below 0, top_p
/// outside of (0, 1], and min_p above 1.
WEFT_API void check(const SamplingOptions& options, Location where = {});

/// A token and its probability.
struct Candidate {
  int64_t token;
  double probability;
};
/// The remaining tokens with their probabilities, most likely first, among equals the lowest. The penalty applies to
/// tokens of `sequence`. Computed in double. Raises ValueError if no logit is finite, for NaN, and for tokens beyond
/// the logits.
WEFT_API std::vector<Candidate> candidates(std::span<const float> logits, std::span<const int64_t> sequence,
                                           const SamplingOptions& options, Location where = {});

/// Draws the tokens of one sequence. The result depends only on the seed: each token uses one random number, with the
/// same bits on every device and machine. Each `sequence_number` has its own random stream.
class WEFT_API Sampler {
 public:
  explicit Sampler(SamplingOptions options = {}, uint64_t seed = 0, uint64_t sequence_number = 0, Location where = {});

  struct Drawn {
    int64_t token;
    /// From the model's logits, before options modify them.
    double log_probability;
  };
  Drawn operator()(std::span<const float> logits, std::span<const int64_t> sequence, Location where = {});

 private:
  double uniform();

  SamplingOptions options_;
  GeneratorState state_;
};

/// The difference between logits and log-probabilities, in double.
WEFT_API double log_sum_exp(std::span<const float> logits);

}  // namespace weft::generate
