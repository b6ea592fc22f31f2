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

#ifdef _GLIBCXX_DEBUG
// Containers have another layout: linking fails with this name unless Weft was compiled with the macro as well.
namespace detail {
extern WEFT_API const char compile_weft_with_GLIBCXX_DEBUG_or_use_GLIBCXX_ASSERTIONS;
[[gnu::used, gnu::retain]] static const char* const same_containers =
    &compile_weft_with_GLIBCXX_DEBUG_or_use_GLIBCXX_ASSERTIONS;
}  // namespace detail
#endif

}  // namespace weft
