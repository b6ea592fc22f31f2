#define WEFT_SUFFIX any
#include "modules.hpp"
#include "../portable/device/move.inc"

namespace weft::cuda {

WEFT_LIST(move) = {WEFT_ENTRY(move) WEFT_ENTRY(fill) WEFT_ENTRY(where){nullptr, nullptr}};

}  // namespace weft::cuda
