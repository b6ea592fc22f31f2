// The size that options claim, computed before a module is built from a file. Internal to the library.
#pragma once

#include <optional>
#include <string_view>

#include "../tensor/checked.hpp"
#include "causal_lm.hpp"
#include "registry.hpp"

namespace weft::nn::detail {

/// A lower bound of the elements in the parameters of one of Weft's layers. Nothing for other types, and for options
/// that its constructor rejects.
WEFT_API std::optional<Checked> least_elements(std::string_view type, const Config& config);
WEFT_API Checked least_elements(const CausalLMOptions& options);

/// Compares the claimed sizes of all modules with the tensors that the description lists below them, or with `stored`
/// elements if it lists none. Raises FormatError of `op`, with the path. `is_weft` is called with a type and returns
/// whether it is Weft's own.
WEFT_API void check_claims(const ModuleDescription& model, std::optional<int64_t> stored,
                           const Callback<bool(const std::string& type)>& is_weft, const char* op, Location where);

}  // namespace weft::nn::detail
