#include "grad_mode.hpp"

namespace weft::detail {

constinit thread_local GradMode current_mode = {};

}  // namespace weft::detail
