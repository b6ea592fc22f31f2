#define WEFT_FILE <weft/backends/cuda/random.inc>
#include <weft/backends/cuda/each_number.hpp>
