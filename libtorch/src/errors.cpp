#include <c10/util/Exception.h>

#include <weft/tensor/warning.hpp>

namespace c10 {

namespace {

WarningHandler* installed = nullptr;
std::atomic_bool warns_always = false;

template <class E>
[[noreturn]] void raise(const std::string& message) {
  throw E(message);
}

}  // namespace

namespace detail {

void throw_error(const char* function, const char* file, uint32_t line, const std::string& message) {
  throw Error(c10::str(message, "\n  raised by ", function, " at ", file, ":", line));
}
void throw_index_error(const std::string& message) { raise<weft::IndexError>(message); }
void throw_value_error(const std::string& message) { raise<weft::ValueError>(message); }
void throw_type_error(const std::string& message) { raise<weft::DTypeError>(message); }
void throw_not_implemented(const std::string& message) { raise<weft::NotImplementedError>(message); }

}  // namespace detail

void WarningHandler::process(const SourceLocation& source_location, const std::string& msg, bool /*verbatim*/) {
  std::fprintf(stderr, "[W %s:%u] Warning: %s (function %s)\n", source_location.file, source_location.line, msg.c_str(),
               source_location.function);
}

void Warning::set_warning_handler(WarningHandler* handler) noexcept {
  installed = handler;
  if (handler == nullptr) {
    weft::set_warning_handler({});
    return;
  }
  weft::set_warning_handler([handler](const weft::Warning& warning) {
    handler->process({"", warning.where.file(), warning.where.line()}, warning.text, false);
  });
}

WarningHandler* Warning::get_warning_handler() noexcept {
  static WarningHandler printer;
  return installed != nullptr ? installed : &printer;
}

void Warning::set_warnAlways(bool on) noexcept { warns_always = on; }
bool Warning::get_warnAlways() noexcept { return warns_always; }

void Warning::warn(const SourceLocation& source_location, const std::string& msg, bool verbatim) {
  get_warning_handler()->process(source_location, msg, verbatim);
}

}  // namespace c10
