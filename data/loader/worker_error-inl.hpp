// Errors of datasets, with the sample and the worker. Internal to data/.
#pragma once

#include <exception>

#include "../loader.hpp"

namespace weft::data::detail {

/// The exception that is being handled, as one of the same kind whose text names the sample. Errors that are not
/// Weft's become an Error, but for std::bad_alloc, NamedError, and what is no std::exception, which stay as they are.
std::exception_ptr named_error(const Job& job, const char* doing) noexcept;

/// The same error, with the place of the loop where it names none.
std::exception_ptr placed_error(const std::exception_ptr& error, Location loop) noexcept;

}  // namespace weft::data::detail
