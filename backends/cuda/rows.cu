#define WEFT_NUMBER float
#define WEFT_SUFFIX f32
#include <weft/backends/cuda/rows.inc>
#undef WEFT_NUMBER
#undef WEFT_SUFFIX

#define WEFT_NUMBER double
#define WEFT_SUFFIX f64
#include <weft/backends/cuda/rows.inc>
#undef WEFT_NUMBER
#undef WEFT_SUFFIX
