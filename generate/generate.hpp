// Text from a language model, token by token.
//
//   const LanguageModel model = without_cache(gpt, vocabulary, context);
//   const std::vector<Generation> out = generate::generate(
//       model, {tokenizer.encode("Once upon"), tokenizer.encode("In")},
//       {.max_new_tokens = 200, .sampling = {.temperature = 0.8, .top_p = 0.95}, .seed = 7,
//        .on_token = [&](const TokenEvent& e) { return stream(e.sequence, e.token), true; }});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "language_model.hpp"
#include "sampling.hpp"

namespace weft::generate {

enum class Finish : uint8_t {
  length,         ///< max_new_tokens, or the model's context is full
  end_token,      ///< which is the last of the tokens
  stop_sequence,  ///< which is the end of the tokens
  stopped,        ///< on_token said so
};

struct TokenEvent {
  /// Number of the prompt.
  int64_t sequence;
  int64_t token;
  /// By the model, before sampling options change it.
  double log_probability;
  /// Given with the last token.
  std::optional<Finish> finish;
};

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  /// The same prompt gives the same text by the same seed, whichever prompts stand behind it, with a draft too: bit by
  /// bit for a CausalLM on the CPU, elsewhere up to the rounding of logits. Prompt i draws from stream i.
  uint64_t seed = 0;
  std::vector<int64_t> end_tokens = {};
  /// Sought in what is generated alone.
  std::vector<std::vector<int64_t>> stop_sequences = {};
  /// As soon as a token is known, in the order of prompts within a step; false ends its sequence. Not with beams.
  Callback<bool(const TokenEvent& event)> on_token = {};
  /// Above 1, so many continuations are followed at once, and the one of the highest log-probability, divided by
  /// length ^ length_penalty, is the result: of all that were finished, or not finished when the length was reached.
  /// Nothing is drawn, and options of sampling but the penalty are refused.
  int64_t beams = 1;
  double length_penalty = 1;
  /// A faster model of the same vocabulary that proposes `draft_tokens` tokens, which the model then reads at once: the
  /// result is the one that the model gives alone, since the model draws every token, and the draft's count only where
  /// they are the same (as Leviathan et al. 2023, with draws in common instead of draws anew). Not with beams.
  /// Without one a model's own draft_heads propose as many at most; 0 lets them rest, and beams do not ask them.
  std::optional<LanguageModel> draft = {};
  int64_t draft_tokens = 4;
};

struct Generation {
  /// Without the prompt.
  std::vector<int64_t> tokens;
  /// Of all of them, by the model.
  double log_probability = 0;
  Finish finish = Finish::length;
  /// How many tokens were proposed by a draft or by the model's own heads, and how many of them the model drew, too.
  int64_t proposed = 0, accepted = 0;
};

/// Continues each prompt; there may be any number, of different lengths. Nothing is recorded for backward. ValueError
/// for an empty prompt, a token beyond the vocabulary, options that say nothing, a draft of another vocabulary, and a
/// prompt that fills the context.
WEFT_API std::vector<Generation> generate(const LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                          const GenerateOptions& options = {}, Location where = {});

}  // namespace weft::generate
