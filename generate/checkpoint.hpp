// Loads decoder models from published checkpoint folders.
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

/// Parses a config.json of the package transformers, of type gpt2, llama, mistral, qwen2 or qwen3. Raises FormatError
/// for malformed text; NotImplementedError, with the name, for another type and for an option that would change
/// results.
WEFT_API nn::CausalLMOptions causal_lm_options(std::string_view config_json, Location where = {});

struct LoadCausalLMOptions {
  /// Default: the dtype of the weights in the files.
  std::optional<DType> dtype = {};
  Device device = {};
};
/// Loads the model of a folder with config.json and model.safetensors, or several such files with an index. The model
/// is in evaluation mode. Raises IoError if a file is missing, KeyError and ShapeError for weights that do not match;
/// errors as causal_lm_options.
WEFT_API nn::CausalLM load_causal_lm(const io::Path& folder, const LoadCausalLMOptions& options = {},
                                     Location where = {});

/// The end-of-text tokens, from generation_config.json or else config.json; empty if neither has any.
WEFT_API std::vector<int64_t> end_tokens(const io::Path& folder, Location where = {});

/// Uses a cache of keys and values for each sequence, in the dtype of the weights.
WEFT_API LanguageModel language_model(const nn::CausalLM& model);
/// As above, with draft heads that propose tokens. Raises ValueError for heads of another width.
WEFT_API LanguageModel language_model(const nn::CausalLM& model, const nn::DraftHeads& heads, Location where = {});

}  // namespace weft::generate
