#define WEFT_NUMBER double
#define WEFT_SUFFIX f64
#include <weft/backends/cuda/pointwise.inc>
