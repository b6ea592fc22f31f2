// Warnings: about calls that work but are probably mistakes. Each is given once per op and place in the program, on
// standard error or to a handler; WEFT_WARNINGS=0 in the environment turns all of them off.
#pragma once

#include <string>

#include "callback.hpp"
#include "error.hpp"

namespace weft {

/// A handler's argument; valid while the handler runs.
struct Warning {
  /// As an error's: "[op] problem", the details, then the remedy with the place.
  const std::string& text;
  Location where;
};
using WarningHandler = Callback<void(const Warning&)>;

/// Sends all warnings to `handler` from now on, or to standard error where it is empty; returns the previous one.
/// Several threads may call the handler at once. An exception that it throws leaves the op that warned.
WEFT_API WarningHandler set_warning_handler(WarningHandler handler);

/// Warns, unless this op already did at this place.
[[gnu::cold]] WEFT_API void warn(const ErrorText& text, Location where = detail::current_call.where);

}  // namespace weft
