#define WEFT_SUFFIX any
#define WEFT_FAMILY index
#define WEFT_FAMILY_KERNELS WEFT_INDEX_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/index.inc"
#include "list.inc"
