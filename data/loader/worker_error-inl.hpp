// Adds the sample and the worker to errors of datasets. Internal to data/.
#pragma once

#include <exception>

#include "../loader.hpp"

namespace weft::data::detail {

/// Returns the current exception, of the same type, with the sample in its text. Other exceptions than Weft's become
/// Error; std::bad_alloc, NamedError and types that do not derive from std::exception are unchanged.
std::exception_ptr named_error(const Job& job, const char* doing) noexcept;

/// Returns the same error, with the loop's location if it has none.
std::exception_ptr placed_error(const std::exception_ptr& error, Location loop) noexcept;

}  // namespace weft::data::detail
