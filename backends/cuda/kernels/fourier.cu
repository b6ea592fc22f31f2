#define WEFT_FAMILY fourier
#define WEFT_FAMILY_KERNELS WEFT_FOURIER_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/fourier.inc"
#define WEFT_FLOATS
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
