// Matrices as pictures: the filters of a layer, images of a batch, a confusion matrix. Plain SVG that is legible on
// light and dark backgrounds.
#pragma once

#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

struct TilesOptions {
  std::string title = {};
  /// Pictures side by side; as many as fit where it is 0.
  int columns = 0;
  /// Under each picture, as far as given.
  std::vector<std::string> captions = {};
  /// Of the rows and columns of a single matrix, whose elements are written into it too.
  std::vector<std::string> names = {};
  std::string row_label = {}, column_label = {};
  /// One scale for all pictures; else each has its own.
  bool one_scale = false;
};

/// Matrices [count, rows, columns] or one [rows, columns], of any dtype and on any device, in shades from the least
/// element to the greatest; where some are negative from orange over white at 0 to blue. What is not finite is red.
/// ShapeError for another rank.
WEFT_API std::string tiles_svg(const Tensor& matrices, const TilesOptions& options = {}, Location where = {});

/// Writes `tiles_svg` to a file, which is replaced atomically. IoError.
WEFT_API void save_tiles(const Path& path, const Tensor& matrices, const TilesOptions& options = {},
                         Location where = {});

}  // namespace weft::io
