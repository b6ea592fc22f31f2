#define WEFT_UNSIGNED
#define WEFT_FILE <weft/backends/cuda/reduce.inc>
#include <weft/backends/cuda/each_number.hpp>
