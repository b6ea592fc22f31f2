// Checkpointing of modules: calls keep their inputs alone for backward, which computes the rest again (Chen et al.
// 2016).
//
//   nn::set_checkpointing(model, "^blocks\\.[0-9]+$");
//
// Rules are those of weft::checkpoint (hooks/checkpoint.hpp): gradients have the same bits, random draws are repeated,
// running statistics move once, calls nest. A module's own hooks run once, those of modules inside it both times. The
// second run has copies of the module and of what it was called with, so both may be gone by then.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.hpp"

namespace weft::nn {

/// Switches checkpointing of one module's calls on or off, for all its copies; clones have it, too. Where a call cannot
/// copy the module or an argument, it is a ValueError.
WEFT_API void checkpoint_module(const Module& module, bool on = true);
/// The same for every module below `model` whose name the regular expression (ECMAScript's) finds; returns the names.
/// ValueError for a pattern that is none or finds nothing. Containers that are never called, such as ModuleList, do
/// nothing with it.
WEFT_API std::vector<std::string> set_checkpointing(const Module& model, std::string_view pattern, bool on = true,
                                                    Location where = {});
WEFT_API bool is_checkpointed(const Module& module);

}  // namespace weft::nn
