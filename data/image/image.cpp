#include "../image.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "codec-inl.hpp"
#include "exif-inl.hpp"
#include "../../io/file.hpp"
#include "../../io/files/folder-inl.hpp"
#include "../../io/json/utf8-inl.hpp"
#include "../../ops/create.hpp"
#include "../../ops/join.hpp"
#include "../../ops/rearrange.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

void ImagePlace::refuse(const std::string& problem) const {
  raise<FormatError>({.problem = file.empty() ? problem : file + ": " + problem}, where);
}

Interleaved make_interleaved(const ImageHeader& header, const ImageOptions& options, uint64_t most_bytes,
                             const ImagePlace& place) {
  const DType dtype = header.wide ? DType::u16 : DType::u8;
  const Checked pixels = Checked(header.width) * header.height;
  const Checked bytes = pixels * header.channels * static_cast<int64_t>(itemsize(dtype));
  if (!bytes.fits() || pixels.value() > options.max_pixels) {
    place.refuse(fmt::format("{} x {} pixels, at most {} are read", header.width, header.height, options.max_pixels));
  }
  if (static_cast<uint64_t>(bytes.value()) > most_bytes) {
    place.refuse(fmt::format("the file is too short for {} x {} pixels", header.width, header.height));
  }
  return empty({header.height, header.width, header.channels}, {.dtype = dtype}, place.where);
}

namespace {

/// Grey by BT.601 (0.299, 0.587, 0.114), in units of 2^-16.
template <class T>
T grey_of(const T* colour) {
  const uint64_t sum = uint64_t{19595} * colour[0] + uint64_t{38470} * colour[1] + uint64_t{7471} * colour[2];
  return static_cast<T>((sum + 0x8000) >> 16);
}

/// Converts [height, width, channels] to [wished channels, height, width].
template <class T>
Tensor planes_of(const Tensor& image, int64_t wished) {
  const int64_t pixels = image.size(0) * image.size(1), has = image.size(2);
  const Tensor out = empty({wished, image.size(0), image.size(1)}, {.dtype = image.dtype()});
  const T* from = static_cast<const T*>(image.data_ptr());
  T* to = static_cast<T*>(out.data_ptr());
  const bool has_colour = has >= 3, has_opacity = has % 2 == 0;
  for (int64_t c = 0; c < wished; ++c, to += pixels) {
    const bool opacity = wished % 2 == 0 && c == wished - 1;
    if (opacity && !has_opacity) {
      std::fill_n(to, pixels, std::numeric_limits<T>::max());
    } else if (!opacity && has_colour && wished <= 2) {
      for (int64_t i = 0; i < pixels; ++i) to[i] = grey_of(from + i * has);
    } else {
      const int64_t source = opacity ? has - 1 : has_colour ? c : 0;
      for (int64_t i = 0; i < pixels; ++i) to[i] = from[i * has + source];
    }
  }
  return out;
}

Tensor decode(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place) {
  if (options.channels < 0 || options.channels > 4) {
    raise<ValueError>({.problem = fmt::format("{} channels; an image has from 1 to 4", options.channels)}, place.where);
  }
  const auto starts = [&](std::initializer_list<int> with) {
    return bytes.size() >= with.size() &&
           std::equal(with.begin(), with.end(), bytes.begin(), [](int a, std::byte b) { return std::byte(a) == b; });
  };
  DecodedImage decoded;
  if (starts({0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'})) decoded = decode_png(bytes, options, place);
  else if (starts({0xFF, 0xD8, 0xFF})) decoded = decode_jpeg(bytes, options, place);
  else place.refuse("it is neither a PNG nor a JPEG");
  const Tensor& image = decoded.image;
  const int64_t channels = options.channels == 0 ? image.size(2) : options.channels;
  const Tensor planes =
      image.dtype() == DType::u16 ? planes_of<uint16_t>(image, channels) : planes_of<uint8_t>(image, channels);
  return turned_upright(planes, decoded.orientation);
}

/// Validates an image and returns it as [height, width, channels] on the CPU.
Tensor interleaved_of(const Tensor& image, bool jpeg, Location where) {
  if (image.dtype() != DType::u8 && (jpeg || image.dtype() != DType::u16)) {
    raise<DTypeError>({.problem = mismatch_text("image", jpeg ? "uint8" : "uint8 or uint16", image.dtype()),
                       .remedy = "convert it with (x * 255).round().to(u8)"},
                      where);
  }
  const Tensor planes = image.dim() == 2 ? image.unsqueeze(0) : image;
  const int64_t channels = planes.dim() == 3 ? planes.size(0) : 0;
  const bool fits = jpeg ? channels == 1 || channels == 3 : channels >= 1 && channels <= 4;
  constexpr int64_t max_side = 65500;  // limit of JPEG, lower than that of PNG
  const int64_t side = jpeg ? max_side : INT32_MAX;
  if (!fits || planes.numel() == 0 || planes.size(1) > side || planes.size(2) > side) {
    raise<ShapeError>(
        {.problem = mismatch_text("image", "shape [channels, height, width]", image.shape()),
         .details = fmt::format("with {} channels and sizes from 1 to {}", jpeg ? "1 or 3" : "1 to 4", side)},
        where);
  }
  return planes.to(Device()).permute({1, 2, 0}).contiguous();
}

}  // namespace

Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options, Location where) {
  const CallScope call("decode_image", where);
  return decode(bytes, options, {.where = where});
}

Tensor load_image(const io::Path& path, const ImageOptions& options, Location where) {
  const CallScope call("load_image", where);
  return io::read_checked("load_image", where, [&] {
    const io::MappedFile file = io::MappedFile::open(path, "load_image", where);
    return decode(file.bytes(), options, {path.string(), where});
  });
}

std::string encode_png(const Tensor& image, Location where) {
  const CallScope call("encode_png", where);
  return png_of(interleaved_of(image, false, where), where);
}

std::string encode_jpeg(const Tensor& image, JpegOptions options, Location where) {
  const CallScope call("encode_jpeg", where);
  if (options.quality < 1 || options.quality > 100) {
    raise<ValueError>({.problem = mismatch_text("quality", "a number in [1, 100]", options.quality)}, where);
  }
  return jpeg_of(interleaved_of(image, true, where), options.quality, where);
}

void save_png(const Tensor& image, const io::Path& path, Location where) {
  const CallScope call("save_png", where);
  io::write_file(path, png_of(interleaved_of(image, false, where), where), "save_png", where);
}

void save_jpeg(const Tensor& image, const io::Path& path, JpegOptions options, Location where) {
  const CallScope call("save_jpeg", where);
  io::write_file(path, encode_jpeg(image, options, where), "save_jpeg", where);
}

// ---- folders --------------------------------------------------------------------------------------------------------

namespace {

bool ends_in(std::string name, const std::vector<std::string>& extensions) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(extensions, [&](const std::string& extension) { return name.ends_with(extension); });
}

// Does not follow links to folders, which avoids cycles.
void list(const io::Path& folder, const std::vector<std::string>& extensions, std::vector<io::Path>& files,
          Location where) {
  for (const std::string& name : io::checked_names_in(folder, "image_folder", where)) {
    const io::Path path = folder / name;
    if (io::is_folder(path)) {
      if (!io::is_link(path)) list(path, extensions, files, where);
    } else if (ends_in(name, extensions)) {
      files.push_back(path);
    }
  }
}

}  // namespace

ImageFolder image_folder(const io::Path& path, const std::vector<std::string>& extensions, Location where) {
  ImageFolder out;
  for (const std::string& name : io::checked_names_in(path, "image_folder", where)) {
    if (!io::is_folder(path / name)) continue;
    const size_t before = out.files.size();
    list(path / name, extensions, out.files, where);
    if (out.files.size() == before) {
      raise<ValueError>(
          {.op = "image_folder", .problem = fmt::format("there is no picture in {}", (path / name).string())}, where);
    }
    out.labels.resize(out.files.size(), std::ssize(out.classes));
    out.classes.push_back(name);
  }
  if (!out.classes.empty()) return out;
  raise<ValueError>({.op = "image_folder", .problem = fmt::format("there are no folders in {}", path.string())}, where);
}

}  // namespace weft::data
