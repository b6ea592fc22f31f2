// Warnings: what works but is hardly meant. Each kind comes once for each place in the program that causes it, on
// standard error, unless a handler takes it; WEFT_WARNINGS=0 in the environment turns them all off.
#pragma once

#include <functional>
#include <string>

#include "error.hpp"

namespace weft {

/// What a handler is told; valid while it runs.
struct Warning {
  /// As an error's: "[op] what is odd", the details, then "remedy, at file:line".
  const std::string& text;
  Location where;
};
using WarningHandler = std::function<void(const Warning&)>;

/// Takes all warnings from now on and returns the handler before; an empty one writes to standard error. Several
/// threads may call it at the same time. What it throws leaves the function that warns.
WEFT_API WarningHandler set_warning_handler(WarningHandler handler);

/// Warns, unless this op did at this place before.
[[gnu::cold]] WEFT_API void warn(const ErrorText& text, Location where = detail::current_call.where);

}  // namespace weft
