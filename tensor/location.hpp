// Where in the user's source an op was called: one pointer, carried into the graph.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <string>

#include "config.hpp"

namespace weft {

/// A place in a program that is not C++, such as a Python script. It must live as long as the process.
struct alignas(8) CallSite {
  const char* file;
  unsigned line;
};

#if !defined(__cpp_lib_source_location)
namespace detail {
/// What std::source_location would say, for compilers without it.
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

/// The call's source location in eight bytes. Take it as a defaulted last parameter: `Location where = {}`.
class Location {
 public:
#if defined(__cpp_lib_source_location)
  Location(std::source_location here = std::source_location::current()) : record_(std::bit_cast<uintptr_t>(here)) {}
#else
  Location(detail::SourcePlace here = detail::SourcePlace::current())
      : record_(packed | uintptr_t{here.line < line_limit ? here.line : 0} << address_bits |
                std::bit_cast<uintptr_t>(here.file)) {}
#endif

  // Named, because a constructor from a pointer would take the literal 0 of `x.sum({0})`.
  static Location at(const CallSite& site) { return {std::bit_cast<uintptr_t>(&site) | foreign, Record{}}; }
  static constexpr Location none() { return {0, Record{}}; }

  bool known() const { return line() != 0; }
  WEFT_API const char* file() const;
  WEFT_API unsigned line() const;
  /// "file.cpp:12", or "an unknown place". The file is shown as the compiler saw it.
  WEFT_API std::string text() const;

 private:
  // A std::source_location is one pointer to an aligned record, and so is a CallSite, marked by the lowest bit. The
  // highest bit marks the third kind, a line beside the address of a file's name.
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
