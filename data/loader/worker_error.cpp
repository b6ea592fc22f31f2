#include "worker_error-inl.hpp"

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

template <class E>
std::exception_ptr renamed(const std::string& place, const E& error) {
  return std::make_exception_ptr(E(place + error.what()));
}

}  // namespace

std::exception_ptr named_error(const Job& job, const char* doing) noexcept {
  try {
    const char* const what = job.at < 0 ? doing : "";
    const std::string place = fmt::format("[DataLoader] {}{}{}: ", what, *what == 0 ? "" : " ", place_of(job));
    try {
      throw;
#define WEFT_RENAME(Kind)     \
  }                           \
  catch (const Kind& error) { \
    return renamed(place, error);
      WEFT_RENAME(ShapeError)
      WEFT_RENAME(DTypeError)
      WEFT_RENAME(DeviceError)
      WEFT_RENAME(IndexError)
      WEFT_RENAME(ValueError)
      WEFT_RENAME(KeyError)
      WEFT_RENAME(ZeroDivisionError)
      WEFT_RENAME(AutogradError)
      WEFT_RENAME(FormatError)
      WEFT_RENAME(VersionError)
      WEFT_RENAME(IoError)
      WEFT_RENAME(NotImplementedError)
      WEFT_RENAME(NonFiniteError)
#undef WEFT_RENAME
    } catch (const NamedError& named) {
      return named.error;
    } catch (const OutOfMemoryError&) {
      return std::current_exception();
    } catch (const std::bad_alloc&) {
      return std::current_exception();
    } catch (const std::exception& error) {
      return std::make_exception_ptr(Error(place + error.what()));
    } catch (...) {
      return std::current_exception();
    }
  } catch (...) {  // no memory for the text
    return std::current_exception();
  }
}

}  // namespace weft::data::detail
