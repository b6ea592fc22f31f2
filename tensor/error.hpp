// Error classes. The text has at most three lines: the problem, the shapes, and the remedy with the caller's location.
#pragma once

#include <stdexcept>
#include <string>

#include "call.hpp"
#include "device.hpp"

namespace weft {

/// Base class of all errors. `what()` is "[op] problem", then shapes and devices, then "remedy (at file:line)".
class WEFT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

#define WEFT_DECLARE_ERROR(Name)       \
  class WEFT_API Name : public Error { \
   public:                             \
    using Error::Error;                \
  }
WEFT_DECLARE_ERROR(ShapeError);           ///< sizes or ranks that do not match, or too many dimensions or elements
WEFT_DECLARE_ERROR(DTypeError);           ///< a dtype that the op does not support, or dtypes that do not promote
WEFT_DECLARE_ERROR(DeviceError);          ///< no such device, operands on different devices, or a driver error
WEFT_DECLARE_ERROR(IndexError);           ///< an index or a dimension out of range
WEFT_DECLARE_ERROR(ValueError);           ///< any other invalid argument, including the undefined tensor
WEFT_DECLARE_ERROR(KeyError);             ///< no entry of this name in a file, a map or a state
WEFT_DECLARE_ERROR(ZeroDivisionError);    ///< integer division by 0
WEFT_DECLARE_ERROR(AutogradError);        ///< no graph, a freed graph, or an overwritten saved tensor
WEFT_DECLARE_ERROR(FormatError);          ///< malformed bytes in a file or a saved state
WEFT_DECLARE_ERROR(VersionError);         ///< a file format newer than this program supports
WEFT_DECLARE_ERROR(IoError);              ///< a file operation that the system rejected
WEFT_DECLARE_ERROR(NotImplementedError);  ///< no kernel for the device, or the values of a meta tensor are needed
/// The first NaN or infinity. what() has the op, its location in the forward pass, the shapes and a summary of its
/// inputs.
WEFT_DECLARE_ERROR(NonFiniteError);
#undef WEFT_DECLARE_ERROR

/// A failed allocation; all figures are in bytes. `free`: free memory as reported by the system or the driver, 0 if
/// unknown. `limit`: the memory limit, 0 if none is set.
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

/// The lines of an error message; empty lines are omitted.
struct ErrorText {
  /// Null means the running op.
  const char* op = nullptr;
  std::string problem = {};
  std::string details = {};
  std::string remedy = {};
  /// Verb for the location: "saved" gives "saved at file:line". Empty if the location is that of the call.
  const char* event = "";
};

/// The message: "[op] problem: details; remedy", with the line of the call.
WEFT_API std::string format_error(const ErrorText& text, Location where = detail::current_call.where);

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise(const ErrorText& text, Location where) {
  throw E(format_error(text, where));
}
/// Raises E from inside an op, with the location of the call of that op.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise(const ErrorText& text) {
  throw E(format_error(text));
}

}  // namespace weft
