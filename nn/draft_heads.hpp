// Draft heads of a language model: they propose several next tokens from one hidden state (speculative decoding).
//
//   nn::freeze(model);
//   nn::DraftHeads heads(model.options().width, 3);
//   nn::draft_loss(model, heads, tokens).backward();                        // tokens [batch, length], as for the model
//   auto out = generate(generate::language_model(model, heads), prompts);   // the same text, faster
#pragma once

#include "causal_lm.hpp"

namespace weft::nn {

/// Independent heads (Cai et al. 2024, Medusa) on hidden states h [..., width] of a CausalLM. Head i returns h +
/// silu(heads[i](h)); the model's output layer maps it to logits of the token i + 1 positions after the next one.
/// Initially the result is h. Raises ValueError for sizes that are not positive.
class WEFT_API DraftHeads : public Layer<DraftHeads> {
 public:
  DraftHeads(int64_t width, int64_t heads, Location where = {});
  /// Returns [..., heads, width].
  Tensor forward(const Tensor& hidden, Location where) const;

  ModuleList<Linear> heads;
};

/// Mean over heads of the cross-entropy between each head's predictions and the actual tokens of tokens [B, S], i64.
/// Hidden states get no gradient; the output layer gets one unless it is frozen. Raises ValueError for sequences of
/// fewer than heads + 2 tokens.
WEFT_API Tensor draft_loss(const CausalLM& model, const DraftHeads& heads, const Tensor& tokens, Location where = {});

}  // namespace weft::nn
