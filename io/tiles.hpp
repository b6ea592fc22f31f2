// Matrices as images: the filters of a layer, images of a batch, a confusion matrix. Plain SVG, legible on light and
// dark backgrounds.
#pragma once

#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

struct TilesOptions {
  std::string title = {};
  /// Tiles per row; 0 fits as many as possible.
  int columns = 0;
  /// Captions below the tiles; may be fewer than the tiles.
  std::vector<std::string> captions = {};
  /// Names of the rows and columns of a single matrix; its elements are then written into the cells.
  std::vector<std::string> names = {};
  std::string row_label = {}, column_label = {};
  /// One colour scale for all tiles; otherwise one per tile.
  bool one_scale = false;
};

/// Draws matrices [count, rows, columns] or one [rows, columns], of any dtype and device, in shades from the minimum to
/// the maximum. If some elements are negative, the scale runs from orange through white at 0 to blue. Elements that are
/// not finite are red. Raises ShapeError for another rank.
WEFT_API std::string tiles_svg(const Tensor& matrices, const TilesOptions& options = {}, Location where = {});

/// Writes `tiles_svg` to a file, atomically. Raises IoError.
WEFT_API void save_tiles(const Path& path, const Tensor& matrices, const TilesOptions& options = {},
                         Location where = {});

}  // namespace weft::io
