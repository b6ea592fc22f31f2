// How a camera was held, as it noted in a picture's Exif data (JEITA CP-3451, 4.6.4, tag 0x0112). Internal to data/.
#pragma once

#include <cstddef>
#include <span>

#include "../../tensor/index.hpp"

namespace weft::data {

/// From 1, upright, to 8; 1 where the data, which begin with their TIFF header, say nothing or are damaged.
int exif_orientation(std::span<const std::byte> exif);

/// [channels, height, width] as the picture is looked at.
Tensor turned_upright(const Tensor& planes, int orientation);

}  // namespace weft::data
