// Decoders from the folders in which they are published.
//
//   const nn::CausalLM model = generate::load_causal_lm("Llama-3.2-1B");
//   const auto tokenizer = data::Tokenizer::load("Llama-3.2-1B/tokenizer.json");
//   const auto out = generate::generate(generate::language_model(model), {tokenizer.encode("Once upon")},
//                                       {.end_tokens = generate::end_tokens("Llama-3.2-1B")});
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "../io/path.hpp"
#include "../nn/draft_heads.hpp"
#include "language_model.hpp"

namespace weft::generate {

/// What a config.json of the package transformers says, of the types gpt2, llama, mistral, qwen2 and qwen3. FormatError
/// for what is malformed, NotImplementedError, with its name, for another type and for what would change results.
WEFT_API nn::CausalLMOptions causal_lm_options(std::string_view config_json, Location where = {});

struct LoadCausalLMOptions {
  /// Left out: that of the weights in the files.
  std::optional<DType> dtype = {};
  Device device = {};
};
/// The model of a folder with config.json and model.safetensors, or several such files with an index, not in training.
/// IoError where one is missing, KeyError and ShapeError for weights that do not fit; errors as causal_lm_options.
WEFT_API nn::CausalLM load_causal_lm(const io::Path& folder, const LoadCausalLMOptions& options = {},
                                     Location where = {});

/// The tokens that end a text, by generation_config.json or else config.json; none where neither says so.
WEFT_API std::vector<int64_t> end_tokens(const io::Path& folder, Location where = {});

/// Each sequence's keys and values are kept, in the dtype of the weights.
WEFT_API LanguageModel language_model(const nn::CausalLM& model);
/// The same, whose further heads propose tokens. ValueError for heads of another width.
WEFT_API LanguageModel language_model(const nn::CausalLM& model, const nn::DraftHeads& heads, Location where = {});

}  // namespace weft::generate
