#define WEFT_FAMILY attention
#define WEFT_FAMILY_KERNELS WEFT_ATTENTION_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/attention.inc"
#define WEFT_FLOATS
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
