// Build-wide macros and the library version.
#pragma once

#if defined(WEFT_SHARED)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#define WEFT_LIKELY(x) __builtin_expect(!!(x), 1)
#define WEFT_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace weft {

/// The library's version, "major.minor.patch".
WEFT_API const char* version();

}  // namespace weft
