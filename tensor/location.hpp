// Where in the user's source an op was called: one pointer, carried into the graph.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <string>

#include <weft/tensor/config.hpp>

namespace weft {

/// A place in a program that is not C++, such as a Python script. Whoever makes one keeps it as long as the process
/// runs.
struct alignas(8) CallSite {
  const char* file;
  unsigned line;
};

/// The call's source location in eight bytes. Take it as a defaulted last parameter: `Location where = {}`.
class Location {
 public:
  Location(std::source_location here = std::source_location::current()) : record_(std::bit_cast<const void*>(here)) {}

  explicit Location(const CallSite* site)
      : record_(std::bit_cast<const void*>(std::bit_cast<uintptr_t>(site) | foreign)) {}

  static constexpr Location none() { return Location(static_cast<const void*>(nullptr)); }

  bool known() const { return line() != 0; }
  const char* file() const { return is_foreign() ? site()->file : source().file_name(); }
  unsigned line() const { return is_foreign() ? site()->line : source().line(); }
  /// "file.cpp:12", or "an unknown place". The file is shown as the compiler saw it.
  WEFT_API std::string text() const;

 private:
  // Both kinds of record are aligned, so the lowest bit of the address tells them apart.
  static constexpr uintptr_t foreign = 1;
  explicit constexpr Location(const void* record) : record_(record) {}
  bool is_foreign() const { return (std::bit_cast<uintptr_t>(record_) & foreign) != 0; }
  const CallSite* site() const { return std::bit_cast<const CallSite*>(std::bit_cast<uintptr_t>(record_) & ~foreign); }
  std::source_location source() const { return std::bit_cast<std::source_location>(record_); }
  const void* record_;
};
static_assert(sizeof(std::source_location) == sizeof(void*));

}  // namespace weft
