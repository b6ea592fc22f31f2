// Images as tensors [channels, height, width], read and written as PNG (ISO/IEC 15948) and JPEG (ISO/IEC 10918-1).
// Channels: 1 is grey; 2 grey and alpha; 3 red, green and blue; 4 red, green, blue and alpha.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "../io/path.hpp"
#include "../tensor/index.hpp"

namespace weft::data {

struct ImageOptions {
  /// From 1 to 4, or 0 for the channels of the file. Colours are converted to grey by ITU-R BT.601. Alpha is dropped,
  /// or opaque if the file has none.
  int64_t channels = 0;
  /// Returns a 16-bit PNG as u16 instead of rounding it to u8.
  bool keep_16_bits = false;
  /// Rotates and mirrors the image by its Exif orientation. Otherwise the stored image is returned, as in PIL and
  /// torchvision.
  bool apply_exif_orientation = false;
  /// Larger images are rejected before memory is allocated.
  int64_t max_pixels = int64_t{1} << 27;
};

/// Returns u8 or u16 [channels, height, width]. Palettes are expanded; colour profiles are not applied. Raises IoError
/// if the file cannot be read; FormatError if it is neither PNG nor JPEG, or is damaged, truncated or too large;
/// ValueError for another number of channels; NotImplementedError if Weft was built without the required library;
/// OutOfMemoryError.
WEFT_API Tensor load_image(const io::Path& path, const ImageOptions& options = {}, Location where = {});
WEFT_API Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options = {}, Location where = {});

struct JpegOptions {
  int quality = 75;  ///< from 1 to 100
};
/// Returns the bytes of a PNG of an image u8 or u16 [channels, height, width] or [height, width], on any device. Raises
/// ShapeError and DTypeError.
WEFT_API std::string encode_png(const Tensor& image, Location where = {});
/// Returns the bytes of a JPEG of a u8 image with 1 or 3 channels.
WEFT_API std::string encode_jpeg(const Tensor& image, JpegOptions options = {}, Location where = {});
/// Same, into a file, which is replaced atomically. Raises IoError.
WEFT_API void save_png(const Tensor& image, const io::Path& path, Location where = {});
WEFT_API void save_jpeg(const Tensor& image, const io::Path& path, JpegOptions options = {}, Location where = {});

/// Files, each labelled by its folder.
struct ImageFolder {
  std::vector<io::Path> files;
  std::vector<int64_t> labels;
  std::vector<std::string> classes;  ///< names of the folders, sorted
};
/// Lists the images below each folder in `path`, sorted by name; each folder is a class. The images are not read. A
/// file counts if its name ends in one of the extensions, in any case. Raises IoError if a folder cannot be read, and
/// ValueError if there is no class or a class without images.
WEFT_API ImageFolder image_folder(const io::Path& path,
                                  const std::vector<std::string>& extensions = {".png", ".jpg", ".jpeg"},
                                  Location where = {});

}  // namespace weft::data
