// The text of an error.
#pragma once

#include <string>

namespace weft {

/// The text of the E that `f` throws.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace weft
