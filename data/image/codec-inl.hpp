// What the libraries for pictures are asked for. Their errors jump over frames, so the functions that they jump out of
// hold nothing that is destroyed, and each returns whether it came to its end. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "../image.hpp"

namespace weft::data {

/// A picture with its channels side by side, u8 or u16 [height, width, channels].
using Interleaved = Tensor;

/// What a file's header says.
struct ImageHeader {
  uint32_t width = 0, height = 0, channels = 0;
  bool wide = false;  ///< u16
};

/// What errors name: a file, if there is one, and the place of the call.
struct ImagePlace {
  std::string file = {};
  Location where;
  [[noreturn]] void refuse(const std::string& problem) const;
};

/// Refuses what is too large. `most_bytes` is what the file could hold at the very most.
Interleaved make_interleaved(const ImageHeader& header, const ImageOptions& options, uint64_t most_bytes,
                             const ImagePlace& place);

struct DecodedImage {
  Interleaved image;
  int orientation = 1;  ///< as Exif numbers it, where the options ask for it
};
DecodedImage decode_png(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place);
DecodedImage decode_jpeg(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place);
/// Of a contiguous picture on the CPU.
std::string png_of(const Interleaved& image, Location where);
std::string jpeg_of(const Interleaved& image, int quality, Location where);

}  // namespace weft::data
