// Activation checkpointing of modules: calls save only their inputs for backward, which recomputes the rest (Chen et
// al. 2016).
//
//   nn::set_checkpointing(model, "^blocks\\.[0-9]+$");
//
// The rules are those of weft::checkpoint (hooks/checkpoint.hpp): gradients are bit-identical, random draws are
// repeated, running statistics are updated once, calls may be nested. A module's own hooks run once, those of its
// submodules also during recomputation. Recomputation uses copies of the module and its arguments, so both may be
// destroyed by then.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.hpp"

namespace weft::nn {

/// Turns checkpointing on or off for one module, all its copies and later clones. A call raises ValueError if the
/// module or an argument cannot be copied.
WEFT_API void checkpoint_module(const Module& module, bool on = true);
/// Turns checkpointing on or off for every module below `model` with a name that the ECMAScript regular expression
/// matches; returns the names. It has no effect on containers that are never called, such as ModuleList. Raises
/// ValueError for an invalid pattern, or if nothing matches.
WEFT_API std::vector<std::string> set_checkpointing(const Module& model, std::string_view pattern, bool on = true,
                                                    Location where = {});
WEFT_API bool is_checkpointed(const Module& module);

}  // namespace weft::nn
