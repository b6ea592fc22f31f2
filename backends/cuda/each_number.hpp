// Includes WEFT_FILE once for every number type that portable kernels compute in, or for the floats alone with
// WEFT_FLOATS.
#define WEFT_NUMBER float
#define WEFT_SUFFIX f32
#include WEFT_FILE
#undef WEFT_NUMBER
#undef WEFT_SUFFIX

#define WEFT_NUMBER double
#define WEFT_SUFFIX f64
#include WEFT_FILE
#undef WEFT_NUMBER
#undef WEFT_SUFFIX

#if !defined(WEFT_FLOATS)
#define WEFT_NUMBER int64_t
#define WEFT_SUFFIX i64
#define WEFT_WHOLE
#include WEFT_FILE
#undef WEFT_NUMBER
#undef WEFT_SUFFIX
#endif
