// Which library the thread is loading. Not public.
#pragma once

#include <exception>

#include "registry.hpp"

namespace weft::detail {

/// Tells the library that is being loaded by this thread, if there is one, of an op that it registered at namespace
/// scope or elsewhere.
void note_registered(RegisteredOp& op);
void note_registered(RegisteredKernel& kernel);
/// Of an error that has nobody to catch it; false where no library is being loaded.
bool note_failure(const std::exception& error);
/// An error's text as the details of another one.
std::string in_one_line(std::string text);

}  // namespace weft::detail
