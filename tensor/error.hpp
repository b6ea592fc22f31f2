// Typed errors with a text of at most three lines: the problem, the shapes, and the remedy with the caller's place.
#pragma once

#include <stdexcept>
#include <string>

#include "call.hpp"
#include "device.hpp"

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
WEFT_DECLARE_ERROR(ShapeError);           ///< sizes or ranks that do not fit, or too many dimensions or elements
WEFT_DECLARE_ERROR(DTypeError);           ///< a dtype that the op does not take, or dtypes without a common one
WEFT_DECLARE_ERROR(DeviceError);          ///< no such device, operands on several, or a driver's failure
WEFT_DECLARE_ERROR(IndexError);           ///< an index or a dimension that is out of range
WEFT_DECLARE_ERROR(ValueError);           ///< any other bad argument, the undefined tensor included
WEFT_DECLARE_ERROR(KeyError);             ///< no entry of this name in a file, a map or a state
WEFT_DECLARE_ERROR(ZeroDivisionError);    ///< integers divided by 0
WEFT_DECLARE_ERROR(AutogradError);        ///< no graph, a freed one, or a saved tensor that was overwritten
WEFT_DECLARE_ERROR(FormatError);          ///< malformed bytes in a file or a saved state
WEFT_DECLARE_ERROR(VersionError);         ///< a file of a version that is newer than this program's
WEFT_DECLARE_ERROR(IoError);              ///< the system refused a file operation
WEFT_DECLARE_ERROR(NotImplementedError);  ///< no kernel for the device, or a meta tensor's values are needed
/// The first NaN or infinity: what() has the op, its place in the forward pass, the shapes and a summary of the values
/// that it read.
WEFT_DECLARE_ERROR(NonFiniteError);
#undef WEFT_DECLARE_ERROR

/// A failed allocation; all figures in bytes. `free` is the memory that the system or the driver calls free, 0 where it
/// does not say; `limit` is 0 where none was set.
class WEFT_API OutOfMemoryError : public Error {
 public:
  OutOfMemoryError(const std::string& message, Device device_, size_t requested_, size_t free_, size_t allocated_,
                   size_t reserved_, size_t limit_)
      : Error(message),
        device(device_),
        requested(requested_),
        free(free_),
        allocated(allocated_),
        reserved(reserved_),
        limit(limit_) {}
  Device device;
  size_t requested, free, allocated, reserved, limit;
};

/// The three lines of an error; empty lines are left out.
struct ErrorText {
  /// Null stands for the op that is running.
  const char* op = nullptr;
  std::string problem = {};
  std::string details = {};
  std::string remedy = {};
  /// What happened at the place: "saved" gives "saved at file:line". Empty where it is the place of the call.
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
