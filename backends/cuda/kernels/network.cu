#define WEFT_FAMILY network
#define WEFT_FAMILY_KERNELS WEFT_NETWORK_KERNELS
#define WEFT_FAMILY_FILE "../../portable/device/network.inc"
#define WEFT_FLOATS
#define WEFT_FILE "list.inc"
#include "each_number.hpp"
