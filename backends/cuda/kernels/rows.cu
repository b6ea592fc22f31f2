#define WEFT_FAMILY rows
#define WEFT_FAMILY_KERNELS WEFT_ROWS_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/rows.inc"
#define WEFT_FLOATS
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
