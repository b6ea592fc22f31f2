#define WEFT_NUMBER int64_t
#define WEFT_SUFFIX i64
#define WEFT_WHOLE
#include "pointwise.inc"
