#define WEFT_SUFFIX any
#define WEFT_FAMILY move
#define WEFT_FAMILY_KERNELS WEFT_MOVE_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/move.inc"
#include "list.inc"
