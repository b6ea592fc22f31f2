#define WEFT_NUMBER uint64_t
#define WEFT_SUFFIX u64
#define WEFT_WHOLE
#include "pointwise.inc"
