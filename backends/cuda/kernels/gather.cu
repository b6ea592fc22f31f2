#define WEFT_FAMILY gather
#define WEFT_FAMILY_KERNELS WEFT_GATHER_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/gather.inc"
#define WEFT_FLOATS
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
