// Camera orientation in Exif data (JEITA CP-3451, 4.6.4, tag 0x0112). Internal to data/.
#pragma once

#include <cstddef>
#include <span>

#include "../../tensor/index.hpp"

namespace weft::data {

/// Returns 1 (upright) to 8. Returns 1 if the data, which begin with their TIFF header, have no orientation or are
/// damaged.
int exif_orientation(std::span<const std::byte> exif);

/// Returns [channels, height, width], rotated upright.
Tensor turned_upright(const Tensor& planes, int orientation);

}  // namespace weft::data
