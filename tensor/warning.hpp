// Warnings about calls that work but are probably mistakes. Each is printed once per op and source location, on
// standard error or by a handler. WEFT_WARNINGS=0 in the environment turns all of them off.
#pragma once

#include <string>

#include "callback.hpp"
#include "error.hpp"

namespace weft {

/// The argument of a handler; valid while the handler runs.
struct Warning {
  /// As in an error: "[op] problem", the details, then the remedy with the location.
  const std::string& text;
  Location where;
};
using WarningHandler = Callback<void(const Warning&)>;

/// Sends all warnings to `handler`, or to standard error if it is empty; returns the previous handler. Several threads
/// may call it concurrently. An exception from the handler propagates out of the op that warned.
WEFT_API WarningHandler set_warning_handler(WarningHandler handler);

/// Warns, unless this op has already warned at this location.
[[gnu::cold]] WEFT_API void warn(const ErrorText& text, Location where = detail::current_call.where);

}  // namespace weft
