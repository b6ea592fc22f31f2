#define WEFT_NUMBER float
#define WEFT_SUFFIX f32
#include <weft/backends/cuda/reduce.inc>
#undef WEFT_NUMBER
#undef WEFT_SUFFIX

#define WEFT_NUMBER double
#define WEFT_SUFFIX f64
#include <weft/backends/cuda/reduce.inc>
#undef WEFT_NUMBER
#undef WEFT_SUFFIX

#define WEFT_NUMBER int64_t
#define WEFT_SUFFIX i64
#define WEFT_WHOLE
#include <weft/backends/cuda/reduce.inc>
#undef WEFT_NUMBER
#undef WEFT_SUFFIX
