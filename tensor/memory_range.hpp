// The memory range of a view's elements.
#pragma once

#include "layout.hpp"

namespace weft::detail {

struct MemoryRange {
  const char *begin = nullptr, *end = nullptr;
  bool operator==(const MemoryRange&) const = default;
};

/// Empty for a view without elements or memory.
inline MemoryRange range_of(const View& view) {
  if (view.data == nullptr || view.layout.numel == 0) return {};
  const ByteSpan span = byte_span(view.layout);
  const auto* const first = static_cast<const char*>(view.data);
  return {first + span.low, first + span.high};
}

}  // namespace weft::detail
