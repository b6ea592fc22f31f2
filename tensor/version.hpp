// The version of these headers. CMakeLists.txt raises an error if it differs from the project's.
#pragma once

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

namespace weft::detail {

/// Code compiled with headers of another version is not compatible with this library.
inline constexpr int header_version = WEFT_VERSION_MAJOR * 1000 + WEFT_VERSION_MINOR;

}  // namespace weft::detail
