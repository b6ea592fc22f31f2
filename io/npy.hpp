// NumPy's .npy files: one array each.
#pragma once

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// Writes the tensor as `numpy.save` does (row-major, the same bytes). DTypeError for bf16 and the 8-bit floats, which
/// NumPy lacks. The file is replaced atomically. IoError.
WEFT_API void save_npy(const Tensor& tensor, const Path& path, Location where = {});

/// Reads versions 1, 2 and 3, either byte order, row-major or column-major (then the tensor has column-major strides).
/// Bytes after the array are ignored, as by NumPy. IoError where the file cannot be read; FormatError
/// where it is malformed; DTypeError for complex, object, text and structured arrays; ShapeError above 8 dimensions.
WEFT_API Tensor load_npy(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
