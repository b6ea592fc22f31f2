#define WEFT_FILE <weft/backends/cuda/matmul.inc>
#include "each_number.hpp"
