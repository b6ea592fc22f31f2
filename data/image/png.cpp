#include "codec-inl.hpp"
#include "exif-inl.hpp"

#include <fmt/format.h>

#if WEFT_HAS_PNG

#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

namespace weft::data {

namespace {

/// libpng state of one image, and its error message.
struct Job {
  png_structp png = nullptr;
  png_infop info = nullptr;
  char error[160] = "";
};

void on_error(png_structp png, png_const_charp text) {
  auto* job = static_cast<Job*>(png_get_error_ptr(png));
  std::snprintf(job->error, sizeof job->error, "%s", text);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

// ---- reading --------------------------------------------------------------------------------------------------------

struct Reader : Job {
  const std::byte* at;
  size_t left;

  explicit Reader(std::span<const std::byte> bytes) : at(bytes.data()), left(bytes.size()) {}
  Reader(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void take(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, "the file ends too early");
  std::memcpy(to, reader->at, count);
  reader->at += count;
  reader->left -= count;
}

bool read_header(Reader& reader, const ImageOptions& options, ImageHeader& header) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, take);
  png_set_user_limits(reader.png, 0x7FFFFFFF, 0x7FFFFFFF);  // make_interleaved checks the size
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  // Skip texts, profiles and other chunks, which cost memory and time.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  constexpr png_byte exif[] = "eXIf";
  if (options.apply_exif_orientation) {
    png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_AS_DEFAULT, exif, 1);
  }
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);  // palettes, low bit depths, and transparent colours
  if (!options.keep_16_bits) png_set_scale_16(reader.png);
  if constexpr (std::endian::native == std::endian::little) png_set_swap(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  header = {.width = png_get_image_width(reader.png, reader.info),
            .height = png_get_image_height(reader.png, reader.info),
            .channels = png_get_channels(reader.png, reader.info),
            .wide = png_get_bit_depth(reader.png, reader.info) == 16};
  return true;
}

/// Exif data may follow the rows, so `behind` receives chunks after them.
bool read_rows(Reader& reader, png_bytep to, size_t row_bytes, uint32_t height, png_infop behind) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  const int passes = png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    for (uint32_t row = 0; row < height; ++row) png_read_row(reader.png, to + row * row_bytes, nullptr);
  }
  png_read_end(reader.png, behind);
  return true;
}

int orientation_of(Reader& reader) {
  png_bytep exif = nullptr;
  png_uint_32 bytes = 0;
  if (png_get_eXIf_1(reader.png, reader.info, &bytes, &exif) == 0) return 1;
  return exif_orientation({reinterpret_cast<const std::byte*>(exif), bytes});
}

// ---- writing --------------------------------------------------------------------------------------------------------

struct Writer : Job {
  std::string out;
  Writer() = default;
  Writer(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

void append(png_structp png, png_bytep from, size_t count) {
  bool fits = true;
  try {
    static_cast<Writer*>(png_get_io_ptr(png))->out.append(reinterpret_cast<const char*>(from), count);
  } catch (...) {
    fits = false;
  }
  if (!fits) png_error(png, "there is not enough memory");
}
void flush(png_structp) {}

bool write_rows(Writer& writer, png_const_bytep from, size_t row_bytes, const ImageHeader& header) {
  if (setjmp(png_jmpbuf(writer.png))) return false;
  constexpr int colours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                             PNG_COLOR_TYPE_RGBA};
  png_set_write_fn(writer.png, &writer, append, flush);
  png_set_IHDR(writer.png, writer.info, header.width, header.height, header.wide ? 16 : 8, colours[header.channels],
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if (header.wide && std::endian::native == std::endian::little) png_set_swap(writer.png);
  for (uint32_t row = 0; row < header.height; ++row) png_write_row(writer.png, from + row * row_bytes);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

DecodedImage decode_png(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place) {
  Reader reader(bytes);
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Job*>(&reader), on_error, on_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) place.refuse("libpng cannot be started");
  ImageHeader header;
  if (!read_header(reader, options, header)) place.refuse(fmt::format("PNG: {}", reader.error));
  // Deflate expands a byte to at most 1032; each bit of these may become a pixel of up to eight bytes.
  const uint64_t byte_limit = uint64_t{1032} * 64 * bytes.size();
  const Tensor out = make_interleaved(header, options, byte_limit, place);
  const size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  const png_infop behind = options.apply_exif_orientation ? reader.info : nullptr;
  if (!read_rows(reader, static_cast<png_bytep>(out.data_ptr()), row_bytes, header.height, behind)) {
    place.refuse(fmt::format("PNG: {}", reader.error));
  }
  return {out, options.apply_exif_orientation ? orientation_of(reader) : 1};
}

std::string png_of(const Interleaved& image, Location where) {
  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<Job*>(&writer), on_error, on_warning);
  if (writer.png != nullptr) writer.info = png_create_info_struct(writer.png);
  const ImageHeader header = {.width = static_cast<uint32_t>(image.size(1)),
                              .height = static_cast<uint32_t>(image.size(0)),
                              .channels = static_cast<uint32_t>(image.size(2)),
                              .wide = image.dtype() == DType::u16};
  const size_t row_bytes = size_t{header.width} * header.channels * (header.wide ? 2 : 1);
  if (writer.info == nullptr ||
      !write_rows(writer, static_cast<png_const_bytep>(image.data_ptr()), row_bytes, header)) {
    raise<ValueError>({.op = "encode_png", .problem = fmt::format("libpng: {}", writer.error)}, where);
  }
  return std::move(writer.out);
}

}  // namespace weft::data

#else

namespace weft::data {

namespace {

[[noreturn]] void raise_without_libpng(Location where) {
  raise<NotImplementedError>({.op = "image",
                              .problem = "this build of Weft reads and writes no PNG",
                              .remedy = "install libpng (Debian: libpng-dev) and build with -DWEFT_WITH_PNG=ON"},
                             where);
}

}  // namespace

DecodedImage decode_png(std::span<const std::byte>, const ImageOptions&, const ImagePlace& place) {
  raise_without_libpng(place.where);
}
std::string png_of(const Interleaved&, Location where) { raise_without_libpng(where); }

}  // namespace weft::data

#endif
