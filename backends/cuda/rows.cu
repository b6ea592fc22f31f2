#define WEFT_FLOATS
#define WEFT_FILE <weft/backends/cuda/rows.inc>
#include "each_number.hpp"
