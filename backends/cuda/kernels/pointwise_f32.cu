#define WEFT_NUMBER float
#define WEFT_SUFFIX f32
#include "pointwise.inc"
