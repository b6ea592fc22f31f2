// Which token comes next, of a model's logits.
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

/// Applied in this order; each left out by its default.
struct SamplingOptions {
  /// Above 1, logits of tokens that the sequence has are divided by it where they are positive and else multiplied
  /// (Keskar et al. 2019).
  double repetition_penalty = 1;
  /// What logits are divided by. 0 takes the likeliest token, of equal ones the lowest, and draws nothing.
  double temperature = 1;
  /// The so many likeliest tokens stay, and of those that are as likely as the last one the lowest.
  int64_t top_k = 0;
  /// As few of the likeliest tokens stay as have together at least this probability, one at least (Holtzman et al.
  /// 2020).
  double top_p = 1;
  /// Tokens stay that are at least so many times as likely as the likeliest (Nguyen et al. 2024).
  double min_p = 0;
};
/// ValueError for a temperature or min_p below 0, a penalty that is not above 0, top_k below 0, top_p outside of (0,
/// 1], min_p above 1, and for NaN.
WEFT_API void check(const SamplingOptions& options, Location where = {});

/// A token that may come next.
struct Candidate {
  int64_t token;
  double probability;
};
/// The tokens that stay and their probabilities, the likeliest first, of equal ones the lowest. `sequence` is what the
/// penalty looks at. In double. ValueError where no logit is finite, for NaN, and for tokens beyond the logits.
WEFT_API std::vector<Candidate> candidates(std::span<const float> logits, std::span<const int64_t> sequence,
                                           const SamplingOptions& options, Location where = {});

/// Draws the tokens of one sequence. What comes of a seed depends on nothing else: one number is drawn for a token, by
/// the same bits on every device and machine, and `sequence_number` takes a stream of its own.
class WEFT_API Sampler {
 public:
  explicit Sampler(SamplingOptions options = {}, uint64_t seed = 0, uint64_t sequence_number = 0, Location where = {});

  struct Drawn {
    int64_t token;
    /// By the model, before options change it.
    double log_probability;
  };
  Drawn operator()(std::span<const float> logits, std::span<const int64_t> sequence, Location where = {});

 private:
  double uniform();

  SamplingOptions options_;
  GeneratorState state_;
};

/// What log-probabilities are less than logits, in double.
WEFT_API double log_sum_exp(std::span<const float> logits);

}  // namespace weft::generate
