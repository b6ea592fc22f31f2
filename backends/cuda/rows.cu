#define WEFT_FLOATS
#define WEFT_FILE <weft/backends/cuda/rows.inc>
#include <weft/backends/cuda/each_number.hpp>
