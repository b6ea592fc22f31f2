#define WEFT_FILE <weft/backends/cuda/matmul.inc>
#include <weft/backends/cuda/each_number.hpp>
