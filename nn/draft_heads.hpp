// Further heads of a language model, which propose the tokens behind the next one from its own hidden state.
//
//   nn::freeze(model);
//   nn::DraftHeads heads(model.options().width, 3);
//   nn::draft_loss(model, heads, tokens).backward();                        // tokens [batch, length], as for the model
//   auto out = generate(generate::language_model(model, heads), prompts);   // the same text, sooner
#pragma once

#include "causal_lm.hpp"

namespace weft::nn {

/// Independent heads (Cai et al. 2024, Medusa) over hidden states h [..., width] of a CausalLM: head i gives h +
/// silu(heads[i](h)), of which the model's own output layer makes logits of the token i + 1 places behind the next one.
/// At first that is h. ValueError for sizes that are not positive.
class WEFT_API DraftHeads : public Layer<DraftHeads> {
 public:
  DraftHeads(int64_t width, int64_t heads, Location where = {});
  /// [..., heads, width].
  Tensor forward(const Tensor& hidden, Location where) const;

  ModuleList<Linear> heads;
};

/// The mean over heads of the cross-entropy of what each says behind every token of tokens [B, S], i64, with the token
/// that stands there. No gradient goes into hidden states; the output layer gets one unless it is frozen. ValueError
/// for texts of fewer tokens than heads + 2.
WEFT_API Tensor draft_loss(const CausalLM& model, const DraftHeads& heads, const Tensor& tokens, Location where = {});

}  // namespace weft::nn
