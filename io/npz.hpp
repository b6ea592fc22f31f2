// NumPy's .npz files: named arrays in a zip archive. Needs libzip.
#pragma once

#include "path.hpp"
#include "safetensors.hpp"

namespace weft::io {

/// Writes the tensors as `numpy.savez` does, in the order of their names, or deflated as `numpy.savez_compressed` does.
/// The same tensors give the same bytes. The file is replaced atomically. IoError, also where Weft was built without
/// libzip; DTypeError for bf16 and the 8-bit floats, which NumPy lacks; ValueError for a tensor that is undefined or on
/// meta and for a name that is not UTF-8, has a zero or is longer than 60,000 bytes.
WEFT_API void save_npz(const TensorMap& tensors, const Path& path, bool compressed = false, Location where = {});

/// Every array of the file, stored or deflated, by its name without ".npy". IoError; FormatError where the file is
/// malformed or has something else than arrays; otherwise errors as load_npy's, with the array's name.
WEFT_API TensorMap load_npz(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
