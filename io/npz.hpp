// NumPy's .npz files: named arrays in a zip archive. Needs libzip.
#pragma once

#include "path.hpp"
#include "safetensors.hpp"

namespace weft::io {

/// Writes the tensors, sorted by name, like `numpy.savez`, or deflated like `numpy.savez_compressed`. The same tensors
/// give the same bytes. The file is replaced atomically. Raises IoError, also if Weft was built without libzip;
/// DTypeError for bf16 and the 8-bit floats, which NumPy lacks; ValueError for a tensor that is undefined or on meta
/// and for a name that is not UTF-8, contains a zero byte or is longer than 60,000 bytes.
WEFT_API void save_npz(const TensorMap& tensors, const Path& path, bool compressed = false, Location where = {});

/// Returns every array of the file, stored or deflated, by its name without ".npy". Raises IoError; FormatError if the
/// file is malformed or has an entry that is not an array; otherwise the errors of load_npy, with the array's name.
WEFT_API TensorMap load_npz(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
