// Interface to the image libraries. They report errors by longjmp, so functions that call them have no local objects
// with destructors, and return whether they completed. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "../image.hpp"

namespace weft::data {

/// An image u8 or u16 [height, width, channels].
using Interleaved = Tensor;

struct ImageHeader {
  uint32_t width = 0, height = 0, channels = 0;
  bool wide = false;  ///< u16
};

/// Context of an error: the file, if any, and the location of the call.
struct ImagePlace {
  std::string file = {};
  Location where;
  [[noreturn]] void refuse(const std::string& problem) const;
};

/// Raises an error if the image is too large. `most_bytes` is an upper bound of the uncompressed size that the file can
/// contain.
Interleaved make_interleaved(const ImageHeader& header, const ImageOptions& options, uint64_t most_bytes,
                             const ImagePlace& place);

struct DecodedImage {
  Interleaved image;
  int orientation = 1;  ///< Exif orientation, if the options request it
};
DecodedImage decode_png(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place);
DecodedImage decode_jpeg(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place);
/// Of a contiguous image on the CPU.
std::string png_of(const Interleaved& image, Location where);
std::string jpeg_of(const Interleaved& image, int quality, Location where);

}  // namespace weft::data
