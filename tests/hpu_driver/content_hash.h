// Names the translated library of a SPIR-V module after its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "kernel_abi.h"

namespace weft::testing::ze {

// 64-bit FNV-1a over the module, seeded with the ABI version.
inline std::string content_hash(const uint8_t* bytes, size_t count) {
  constexpr uint64_t prime = 1099511628211u;
  uint64_t hash = (14695981039346656037u ^ WEFT_KERNEL_ABI_VERSION) * prime;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * prime;
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace weft::testing::ze
