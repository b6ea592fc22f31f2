// Source location of a call in the user's program: one pointer, also stored in the graph.
//
// No constructor takes a pointer, because the 0 in `x.sum({0})` would convert to it.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <string>

#include "config.hpp"

namespace weft {

/// A location in a program in another language, such as a Python script. It must live as long as the process.
struct alignas(8) CallSite {
  const char* file;
  unsigned line;
};

#if !defined(__cpp_lib_source_location)
namespace detail {
/// Replacement for std::source_location, for compilers without it.
class SourcePlace {
 public:
  static SourcePlace current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file;
  unsigned line;

 private:
  SourcePlace(const char* file_, unsigned line_) : file(file_), line(line_) {}
};
}  // namespace detail
#endif

/// The source location of a call in eight bytes. Declare it as a defaulted last parameter: `Location where = {}`.
class Location {
 public:
#if defined(__cpp_lib_source_location)
  Location(std::source_location here = std::source_location::current()) : record_(std::bit_cast<uintptr_t>(here)) {}
#else
  Location(detail::SourcePlace here = detail::SourcePlace::current())
      : record_(packed | uintptr_t{here.line < line_limit ? here.line : 0} << address_bits |
                std::bit_cast<uintptr_t>(here.file)) {}
#endif

  // A named function, because a constructor from a pointer would accept the literal 0 of `x.sum({0})`.
  static Location at(const CallSite& site) { return {std::bit_cast<uintptr_t>(&site) | foreign, Record{}}; }
  static constexpr Location none() { return {0, Record{}}; }

  bool known() const { return line() != 0; }
  WEFT_API const char* file() const;
  WEFT_API unsigned line() const;
  /// "file.cpp:12", or "an unknown place". The file name is as the compiler received it.
  WEFT_API std::string text() const;

 private:
  // Three encodings. A std::source_location is one pointer to an aligned record. A CallSite is such a pointer with the
  // lowest bit set. The highest bit marks a packed line number and file name address.
  static constexpr uintptr_t foreign = 1, packed = uintptr_t{1} << 63;
  static constexpr int address_bits = 47;
  static constexpr unsigned line_limit = 1u << 16;
  struct Record {
    explicit constexpr Record() = default;
  };
  constexpr Location(uintptr_t record, Record) : record_(record) {}
  uintptr_t record_;
};
static_assert(sizeof(Location) == sizeof(void*));

}  // namespace weft
