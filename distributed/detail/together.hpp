// Steps that succeed on all ranks or on none, and exchange of texts.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Runs a step on this rank, and returns if no rank of the group failed. Otherwise rethrows this rank's error, or
/// raises an IoError that names the first failed rank: "rank 2 could not save its part" for the verb "save".
void together(const Group& group, const char* verb, const Callback<void()>& step);

/// A text as bytes, 1-d u8, and back.
Tensor bytes_of(std::string_view text);
std::string text_of(const Tensor& bytes);
/// Broadcasts rank 0's text.
std::string told_by_first(const std::string& text, const Group& group);

}  // namespace weft::distributed::detail
