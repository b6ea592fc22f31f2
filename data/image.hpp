// Pictures as tensors [channels, height, width], read and written as PNG (ISO/IEC 15948) and JPEG (ISO/IEC 10918-1).
// Channels: 1 is grey, 2 grey and opacity, 3 red, green and blue, 4 these and opacity.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "../io/path.hpp"
#include "../tensor/index.hpp"

namespace weft::data {

struct ImageOptions {
  /// From 1 to 4, or 0 for those that the picture has. Colours become grey as ITU-R BT.601 weighs them; opacity is
  /// dropped, or full where the picture has none.
  int64_t channels = 0;
  /// A PNG of 16 bits gives u16 rather than u8, for which they are rounded.
  bool keep_16_bits = false;
  /// Turns and mirrors the picture as its Exif data say that the camera was held. Without it a picture is given as it
  /// is stored, as PIL and torchvision give it.
  bool apply_exif_orientation = false;
  /// Pictures of more are refused before memory is asked for.
  int64_t max_pixels = int64_t{1} << 27;
};

/// u8, or u16, [channels, height, width]. Palettes become colours. Colour profiles are not applied. IoError where the
/// file cannot be read; FormatError where it is neither PNG nor JPEG, damaged, cut short or too large; ValueError for
/// other numbers of channels; NotImplementedError where Weft was built without the library for it; OutOfMemoryError.
WEFT_API Tensor load_image(const io::Path& path, const ImageOptions& options = {}, Location where = {});
WEFT_API Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options = {}, Location where = {});

struct JpegOptions {
  int quality = 75;  ///< from 1 to 100
};
/// The bytes of a PNG of an image u8 or u16 [channels, height, width] or [height, width], on any device. ShapeError,
/// DTypeError.
WEFT_API std::string encode_png(const Tensor& image, Location where = {});
/// The bytes of a JPEG of an image u8 with 1 or 3 channels.
WEFT_API std::string encode_jpeg(const Tensor& image, JpegOptions options = {}, Location where = {});
/// The same into a file, which is replaced atomically. IoError.
WEFT_API void save_png(const Tensor& image, const io::Path& path, Location where = {});
WEFT_API void save_jpeg(const Tensor& image, const io::Path& path, JpegOptions options = {}, Location where = {});

/// Files with the number of the folder that each lies in.
struct ImageFolder {
  std::vector<io::Path> files;
  std::vector<int64_t> labels;
  std::vector<std::string> classes;  ///< names of the folders, sorted
};
/// The pictures below each folder in `path`, a class each, in the order of their names; nothing is read of them yet.
/// Names count that end in one of the extensions, in upper or lower case. IoError where a folder cannot be read,
/// ValueError where there is no class or one without a picture.
WEFT_API ImageFolder image_folder(const io::Path& path,
                                  const std::vector<std::string>& extensions = {".png", ".jpg", ".jpeg"},
                                  Location where = {});

}  // namespace weft::data
