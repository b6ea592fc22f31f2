// Whether ops of the calling thread record; autograd/mode.hpp sets it.
#pragma once

#include "config.hpp"

namespace weft {

struct GradMode {
  bool enabled = true;
  bool inference = false;
  bool operator==(const GradMode&) const = default;
};

namespace detail {
extern WEFT_API constinit thread_local GradMode current_mode;
}

/// The calling thread's mode.
inline GradMode grad_mode() { return detail::current_mode; }

}  // namespace weft
