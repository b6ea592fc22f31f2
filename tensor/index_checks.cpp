#include "index_checks.hpp"

#include "settings.hpp"

namespace weft {

constinit thread_local std::optional<bool> detail::thread_checks_indices = {};

bool index_checks() {
  static const bool everywhere = detail::is_switched_on("WEFT_CHECK_INDEX");
  return detail::thread_checks_indices.value_or(everywhere);
}

}  // namespace weft
