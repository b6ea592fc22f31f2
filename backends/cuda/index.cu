#define WEFT_SUFFIX any
#include "modules.hpp"
#include "../portable/device/index.inc"

namespace weft::cuda {

// clang-format off
WEFT_LIST(index) = {
  WEFT_ENTRY(index_select)
  WEFT_ENTRY(gather)
  WEFT_ENTRY(index_get)
  WEFT_ENTRY(destinations)
  WEFT_ENTRY(put_last)
  WEFT_ENTRY(sort_keys)
  WEFT_ENTRY(sort_block)
  WEFT_ENTRY(sort_merge)
  WEFT_ENTRY(sorted)
  WEFT_ENTRY(search)
  WEFT_ENTRY(mask_count)
  WEFT_ENTRY(nonzero)
  WEFT_ENTRY(masked_select)
  WEFT_ENTRY(masked_scatter)
  {nullptr, nullptr},
};
// clang-format on

}  // namespace weft::cuda
