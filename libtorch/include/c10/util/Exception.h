// Errors and warnings of libtorch: Weft's base error, TORCH_CHECK and TORCH_WARN.
#pragma once

#include <atomic>
#include <string>

#include <weft/tensor/error.hpp>

#include <c10/util/StringUtil.h>

namespace c10 {

/// Weft's errors are caught as c10::Error.
using Error = weft::Error;
using IndexError = weft::IndexError;
using ValueError = weft::ValueError;
using TypeError = weft::DTypeError;
using NotImplementedError = weft::NotImplementedError;

struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

/// Receives warnings. Install one with Warning::set_warning_handler.
class WarningHandler {
 public:
  virtual ~WarningHandler() = default;
  virtual void process(const SourceLocation& source_location, const std::string& msg, bool verbatim);
};

class Warning {
 public:
  /// Sends the warnings of TORCH_WARN and of Weft to `handler`.
  static void set_warning_handler(WarningHandler* handler) noexcept;
  static WarningHandler* get_warning_handler() noexcept;
  static void warn(const SourceLocation& source_location, const std::string& msg, bool verbatim = false);
  /// TORCH_WARN_ONCE warns at every call.
  static void set_warnAlways(bool on) noexcept;
  static bool get_warnAlways() noexcept;
  class WarnAlways {
   public:
    explicit WarnAlways(bool on = true) : saved_(get_warnAlways()) { set_warnAlways(on); }
    ~WarnAlways() { set_warnAlways(saved_); }
    WarnAlways(const WarnAlways&) = delete;

   private:
    bool saved_;
  };
};

namespace detail {
[[noreturn]] void throw_error(const char* function, const char* file, uint32_t line, const std::string& message);
[[noreturn]] void throw_index_error(const std::string& message);
[[noreturn]] void throw_value_error(const std::string& message);
[[noreturn]] void throw_type_error(const std::string& message);
[[noreturn]] void throw_not_implemented(const std::string& message);

template <class... A>
std::string check_message(const char* condition, const A&... parts) {
  if constexpr (sizeof...(A) == 0) return std::string("Expected ") + condition + " to be true, but got false.";
  else return c10::str(parts...);
}
}  // namespace detail

}  // namespace c10

// libtorch appends a backtrace to what(); Weft's what() has none.
#define what_without_backtrace what

#define TORCH_CHECK(condition, ...)                                                                    \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::c10::detail::throw_error(__func__, __FILE__, __LINE__,                                         \
                                 ::c10::detail::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define TORCH_CHECK_WITH(type, condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...)                                                                    \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::c10::detail::throw_index_error(::c10::detail::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_VALUE(condition, ...)                                                                    \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::c10::detail::throw_value_error(::c10::detail::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_TYPE(condition, ...)                                                                    \
  do {                                                                                                      \
    if (!(condition)) [[unlikely]]                                                                          \
      ::c10::detail::throw_type_error(::c10::detail::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...)                                                              \
  do {                                                                                                           \
    if (!(condition)) [[unlikely]]                                                                               \
      ::c10::detail::throw_not_implemented(::c10::detail::check_message(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define AT_ERROR(...) ::c10::detail::throw_error(__func__, __FILE__, __LINE__, ::c10::str(__VA_ARGS__))
#define AT_ASSERT(condition) TORCH_INTERNAL_ASSERT(condition)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define TORCH_WARN(...)                                                                            \
  ::c10::Warning::warn(::c10::SourceLocation{__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, \
                       ::c10::str(__VA_ARGS__))
#define TORCH_WARN_ONCE(...)                                                                        \
  do {                                                                                              \
    static std::atomic_bool warned_before = false;                                                  \
    if (!warned_before.exchange(true) || ::c10::Warning::get_warnAlways()) TORCH_WARN(__VA_ARGS__); \
  } while (false)
