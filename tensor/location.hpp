// Where in the user's source an op was called: one pointer, carried into the graph.
#pragma once

#include <bit>
#include <source_location>
#include <string>

#include <weft/tensor/config.hpp>

namespace weft {

/// The call's source location in eight bytes. Take it as a defaulted last parameter: `Location where = {}`.
class Location {
 public:
  Location(std::source_location here = std::source_location::current()) : record_(std::bit_cast<const void*>(here)) {}

  static Location none() { return Location(std::source_location{}); }

  bool known() const { return line() != 0; }
  const char* file() const { return source().file_name(); }
  unsigned line() const { return source().line(); }
  /// "file.cpp:12", or "an unknown place". The file is shown as the compiler saw it.
  WEFT_API std::string text() const;

 private:
  std::source_location source() const { return std::bit_cast<std::source_location>(record_); }
  const void* record_;
};
static_assert(sizeof(std::source_location) == sizeof(void*));

}  // namespace weft
