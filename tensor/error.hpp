// Typed errors of at most three lines: what is wrong, with which shapes, and the remedy with the caller's place.
#pragma once

#include <stdexcept>
#include <string>

#include "call.hpp"

namespace weft {

/// Base of every error. `what()` is "[op] what is wrong", then shapes and devices, then "remedy (at file:line)".
class WEFT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

#define WEFT_DECLARE_ERROR(Name)       \
  class WEFT_API Name : public Error { \
   public:                             \
    using Error::Error;                \
  }
WEFT_DECLARE_ERROR(ShapeError);
WEFT_DECLARE_ERROR(DTypeError);
WEFT_DECLARE_ERROR(DeviceError);
WEFT_DECLARE_ERROR(IndexError);
WEFT_DECLARE_ERROR(ValueError);
WEFT_DECLARE_ERROR(ZeroDivisionError);
WEFT_DECLARE_ERROR(AutogradError);
WEFT_DECLARE_ERROR(FormatError);
WEFT_DECLARE_ERROR(IoError);
WEFT_DECLARE_ERROR(NotImplementedError);
/// The first NaN or infinity: what() has the op and its place in the forward, the shapes and what is known of the
/// values that it read.
WEFT_DECLARE_ERROR(NonFiniteError);
#undef WEFT_DECLARE_ERROR

/// An allocation that did not fit, all in bytes. `limit` is 0 where none was set.
class WEFT_API OutOfMemoryError : public Error {
 public:
  OutOfMemoryError(const std::string& message, size_t requested_, size_t allocated_, size_t reserved_, size_t limit_)
      : Error(message), requested(requested_), allocated(allocated_), reserved(reserved_), limit(limit_) {}
  size_t requested, allocated, reserved, limit;
};

/// The three lines of an error; empty lines are left out.
struct ErrorText {
  /// Null: the op that runs.
  const char* op = nullptr;
  std::string problem = {};
  std::string details = {};
  std::string remedy = {};
  /// What happened at the place: "saved at file:line". Empty: the call itself was there, and inside an op that calls
  /// others the place is the outermost call's.
  const char* event = "";
};

WEFT_API std::string format_error(const ErrorText& text, Location where = detail::current_call.where);

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise(const ErrorText& text, Location where) {
  throw E(format_error(text, where));
}
/// From inside an op: names the place that called it.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise(const ErrorText& text) {
  throw E(format_error(text));
}

}  // namespace weft
