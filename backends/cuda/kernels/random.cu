#define WEFT_FAMILY random
#define WEFT_FAMILY_KERNELS WEFT_RANDOM_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/random.inc"
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
