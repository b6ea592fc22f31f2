// IDX files: one array each, the format of MNIST and Fashion-MNIST (LeCun, Cortes, Burges).
#pragma once

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// The array of a file, with its shape; bytes give u8 or i8, numbers of more bytes i16, i32, f32 or f64. IoError where
/// the file cannot be read; FormatError where it is malformed or compressed; ShapeError above 8 dimensions.
WEFT_API Tensor load_idx(const Path& path, Device device = {}, Location where = {});

}  // namespace weft::io
