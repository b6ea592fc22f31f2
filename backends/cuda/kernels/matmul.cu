#define WEFT_FAMILY matmul
#define WEFT_FAMILY_KERNELS WEFT_MATMUL_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/matmul.inc"
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
