#define WEFT_NUMBER double
#define WEFT_SUFFIX f64
#include "pointwise.inc"
