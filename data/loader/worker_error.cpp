#include "worker_error-inl.hpp"

#include <algorithm>
#include <new>
#include <string>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "current_job-inl.hpp"

namespace weft::data::detail {

std::string place_of(const Job& job) {
  const std::string who = job.worker < 0 ? "" : fmt::format(", worker {}", job.worker);
  const std::string batch = fmt::format("batch {} of epoch {}{}", job.batch, job.epoch, who);
  if (job.at < 0) return batch;
  return fmt::format("{} of {}", sample_name(job, static_cast<size_t>(job.at)), batch);
}

namespace {

// Returns the current exception with another text, of the same type; null if it is not a Weft error.
template <class Text>
std::exception_ptr of_same_kind(const Text& text) {
  try {
    throw;
  } catch (const OutOfMemoryError&) {
    return {};
  }
#define WEFT_KIND(Kind)                                       \
  catch (const Kind& error) {                                 \
    return std::make_exception_ptr(Kind(text(error.what()))); \
  }
  WEFT_KIND(ShapeError)
  WEFT_KIND(DTypeError)
  WEFT_KIND(DeviceError)
  WEFT_KIND(IndexError)
  WEFT_KIND(ValueError)
  WEFT_KIND(KeyError)
  WEFT_KIND(ZeroDivisionError)
  WEFT_KIND(AutogradError)
  WEFT_KIND(FormatError)
  WEFT_KIND(VersionError)
  WEFT_KIND(IoError)
  WEFT_KIND(NotImplementedError)
  WEFT_KIND(NonFiniteError)
  WEFT_KIND(Error)
#undef WEFT_KIND
  catch (...) {
    return {};
  }
}

// Whether the text ends with "… at file.cpp:12".
bool has_place(const std::string& text) {
  const size_t colon = text.find_last_not_of("0123456789");
  return colon != text.npos && colon + 1 < text.size() && text[colon] == ':' && text.rfind("at ", colon) != text.npos;
}

}  // namespace

std::exception_ptr named_error(const Job& job, const char* doing) noexcept {
  try {
    const char* const what = job.at < 0 ? doing : "";
    const std::string place = fmt::format("[DataLoader] {}{}{}: ", what, *what == 0 ? "" : " ", place_of(job));
    if (auto same = of_same_kind([&](const char* text) { return place + text; })) return same;
    try {
      throw;
    } catch (const NamedError& named) {
      return named.error;
    } catch (const std::bad_alloc&) {
      return std::current_exception();
    } catch (const OutOfMemoryError&) {
      return std::current_exception();
    } catch (const std::exception& error) {
      return std::make_exception_ptr(Error(place + error.what()));
    } catch (...) {
      return std::current_exception();
    }
  } catch (...) {  // out of memory for the text
    return std::current_exception();
  }
}

std::exception_ptr placed_error(const std::exception_ptr& error, Location loop) noexcept {
  try {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      const auto same = of_same_kind([&](const std::string& text) {
        if (!loop.known() || has_place(text)) return text;
        const bool full = std::ranges::count(text, '\n') >= 2;
        return fmt::format("{}{}at {}", text, full ? ", " : "\n  ", loop.text());
      });
      return same != nullptr ? same : error;
    }
  } catch (...) {
    return error;
  }
}

}  // namespace weft::data::detail
