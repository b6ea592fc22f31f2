// Includes WEFT_FILE once for float, double and int64_t, for the floats alone with WEFT_FLOATS, for uint64_t too with
// WEFT_UNSIGNED.
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

#if defined(WEFT_UNSIGNED)
#define WEFT_NUMBER uint64_t
#define WEFT_SUFFIX u64
#include WEFT_FILE
#undef WEFT_NUMBER
#undef WEFT_SUFFIX
#endif
