// IDX files, the format of MNIST and Fashion-MNIST (LeCun, Cortes, Burges): one array each.
#pragma once

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// Returns the array of a file, with its shape: u8, i8, i16, i32, f32 or f64. Raises IoError if the file cannot be
/// read, FormatError if it is malformed or compressed, and ShapeError for more than 8 dimensions.
WEFT_API Tensor load_idx(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
