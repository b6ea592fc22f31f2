// Text generation with a language model.
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
  length,         ///< max_new_tokens is reached, or the model's context is full
  end_token,      ///< the last token is an end token
  stop_sequence,  ///< the tokens end with a stop sequence
  stopped,        ///< on_token returned false
};

struct TokenEvent {
  /// Index of the prompt.
  int64_t sequence;
  int64_t token;
  /// From the model's logits, before sampling options modify them.
  double log_probability;
  /// Set for the last token.
  std::optional<Finish> finish;
};

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  /// A prompt and a seed give the same text, independent of later prompts and of a draft: bit for bit for a CausalLM on
  /// the CPU, otherwise up to rounding of logits. Prompt i draws from random stream i.
  uint64_t seed = 0;
  std::vector<int64_t> end_tokens = {};
  /// Searched in the generated tokens only.
  std::vector<std::vector<int64_t>> stop_sequences = {};
  /// Called for each token, in the order of prompts within a step; returning false ends the sequence. Not supported
  /// with beams.
  Callback<bool(const TokenEvent& event)> on_token = {};
  /// Number of beams. If above 1, beam search returns the continuation with the highest log-probability divided by
  /// length ^ length_penalty. It chooses among continuations that finished or reached the maximum length. Nothing is
  /// drawn; sampling options other than the penalty raise an error.
  int64_t beams = 1;
  double length_penalty = 1;
  /// A faster model with the same vocabulary, which proposes `draft_tokens` tokens that the model then reads in one
  /// call. Does not change the result: the model draws every token, and a proposal is accepted only if it equals the
  /// drawn token (as Leviathan et al. 2023, but with common draws instead of resampling). Not supported with beams.
  /// Without a draft, the model's own draft_heads propose up to `draft_tokens` tokens; 0 disables them, and beams do
  /// not use them.
  std::optional<LanguageModel> draft = {};
  int64_t draft_tokens = 4;
};

struct Generation {
  /// Without the prompt.
  std::vector<int64_t> tokens;
  /// Sum over all tokens, from the model's logits.
  double log_probability = 0;
  Finish finish = Finish::length;
  /// Number of tokens proposed by the draft or the draft heads, and how many of them were accepted.
  int64_t proposed = 0, accepted = 0;
};

/// Generates a continuation of each prompt; prompts may differ in length. Not recorded. Raises ValueError for an empty
/// prompt, a token beyond the vocabulary, contradictory options, a draft with another vocabulary, and a prompt that
/// fills the context.
WEFT_API std::vector<Generation> generate(const LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                          const GenerateOptions& options = {}, Location where = {});

}  // namespace weft::generate
