// The .npy format, wherever its bytes are. Not public.
#pragma once

#include <cstddef>
#include <string>

#include "../../tensor/callback.hpp"
#include "../../tensor/index.hpp"

namespace weft::io {

/// Bytes that are taken one after the other, `size` in all, and what errors about them say.
struct NpySource {
  const char* op;
  std::string details;
  Location where;
  size_t size;
  Callback<void(void* to, size_t bytes)> take;
};

/// The array that the bytes begin with. Errors as load_npy's.
Tensor read_npy(const NpySource& source, Device device);

/// What numpy.save writes before the elements, row-major. DTypeError.
std::string npy_header(const Tensor& tensor, const char* op, Location where);

}  // namespace weft::io
