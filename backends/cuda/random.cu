#define WEFT_FILE <weft/backends/cuda/random.inc>
#include "each_number.hpp"
