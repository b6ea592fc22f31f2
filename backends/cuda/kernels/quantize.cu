#define WEFT_SUFFIX any
#define WEFT_FAMILY quantize
#define WEFT_FAMILY_KERNELS WEFT_QUANTIZE_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/quantize.inc"
#include "list.inc"
