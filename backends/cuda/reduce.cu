#define WEFT_UNSIGNED
#define WEFT_FILE <weft/backends/cuda/reduce.inc>
#include "each_number.hpp"
