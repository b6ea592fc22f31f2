// NumPy's .npy files: one array each.
#pragma once

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// Writes the tensor as `numpy.save` does (row-major, the same bytes). DTypeError for bf16 and the 8-bit floats, which
/// NumPy lacks. The file appears all at once. IoError.
WEFT_API void save_npy(const Tensor& tensor, const Path& path, Location where = {});

/// Reads versions 1, 2 and 3, either byte order, row-major or column-major (then the tensor has column-major strides).
/// What follows the array in the file is passed over, as NumPy does. IoError where the file cannot be read; FormatError
/// where it is malformed; DTypeError for complex, object, text and structured arrays; ShapeError above 8 dimensions.
WEFT_API Tensor load_npy(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
