// Steps that all ranks take, or none goes on.
#pragma once

#include <string>

#include "../../tensor/callback.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Runs a step on this rank, and returns where no rank of the group failed. It raises what this rank's step threw, and
/// otherwise an IoError, "rank 2 could not save its part" for the verb "save", of the first rank that failed.
void together(const Group& group, const char* verb, const Callback<void()>& step);

/// Rank 0's text.
std::string told_by_first(const std::string& text, const Group& group);

}  // namespace weft::distributed::detail
