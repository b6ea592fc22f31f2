#define WEFT_SUFFIX any
#include <weft/backends/cuda/modules.hpp>
#include <weft/backends/portable/move.inc>

namespace weft::cuda {

WEFT_LIST(move) = {WEFT_ENTRY(move) WEFT_ENTRY(fill) WEFT_ENTRY(where){nullptr, nullptr}};

}  // namespace weft::cuda
