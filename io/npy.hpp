// NumPy's .npy files: one array each.
#pragma once

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// Writes the tensor like `numpy.save` (row-major, the same bytes). The file is replaced atomically. Raises DTypeError
/// for bf16 and the 8-bit floats, which NumPy lacks, and IoError.
WEFT_API void save_npy(const Tensor& tensor, const Path& path, Location where = {});

/// Returns the array of a file: versions 1, 2 and 3, either byte order, row-major or column-major (the tensor then has
/// column-major strides). Bytes after the array are ignored, as in NumPy. Raises IoError if the file cannot be read;
/// FormatError if it is malformed; DTypeError for complex, object, text and structured arrays; ShapeError for more than
/// 8 dimensions.
WEFT_API Tensor load_npy(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
