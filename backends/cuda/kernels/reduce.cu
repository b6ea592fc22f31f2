#define WEFT_FAMILY reduce
#define WEFT_FAMILY_KERNELS WEFT_REDUCE_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/reduce.inc"
#define WEFT_UNSIGNED
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
