// Steps that all ranks take, or none goes on, and texts that they tell each other.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Runs a step on this rank, and returns where no rank of the group failed. It raises what this rank's step threw, and
/// otherwise an IoError, "rank 2 could not save its part" for the verb "save", of the first rank that failed.
void together(const Group& group, const char* verb, const Callback<void()>& step);

/// A text as bytes, 1-d u8, and back.
Tensor bytes_of(std::string_view text);
std::string text_of(const Tensor& bytes);
/// Rank 0's text.
std::string told_by_first(const std::string& text, const Group& group);

}  // namespace weft::distributed::detail
