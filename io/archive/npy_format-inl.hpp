// The .npy format, for any byte source. Not public.
#pragma once

#include <cstddef>
#include <string>

#include "../../tensor/callback.hpp"
#include "../../tensor/index.hpp"

namespace weft::io {

/// A sequential byte source of `size` bytes, with details for its errors.
struct NpySource {
  const char* op;
  std::string details;
  Location where;
  size_t size;
  Callback<void(void* to, size_t bytes)> take;
};

/// Reads the array at the start of the bytes. Errors as load_npy.
Tensor read_npy(const NpySource& source, Device device);

/// Returns the header that numpy.save writes before the elements, for row-major order. Raises DTypeError.
std::string npy_header(const Tensor& tensor, const char* op, Location where);

}  // namespace weft::io
