#include "codec-inl.hpp"
#include "exif-inl.hpp"

#include <fmt/format.h>

#if WEFT_HAS_JPEG

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <jerror.h>

#include "../../ops/create.hpp"

namespace weft::data {

namespace {

/// Error handler; `base` is the first member, so that a pointer to it can be cast to Errors.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr codec) {
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  errors->base.format_message(codec, errors->text);
  std::longjmp(errors->back, 1);
}
/// Makes warnings about damaged or missing data errors; libjpeg would fill the image with grey. Bytes between segments
/// are harmless.
void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  switch (codec->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_BOGUS_PROGRESSION:
      on_error(codec);
    default:
      return;
  }
}
void on_output(j_common_ptr) {}

void set_errors(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = on_error;
  errors.base.emit_message = on_message;
  errors.base.output_message = on_output;
  errors.text[0] = 0;
}

// ---- reading --------------------------------------------------------------------------------------------------------

/// A small file can contain very many scans, each of which decodes the whole image.
constexpr int most_scans = 100;
void on_progress(j_common_ptr codec) {
  if (!codec->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= most_scans) return;
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", most_scans);
  std::longjmp(errors->back, 1);
}

struct Reader {
  jpeg_decompress_struct codec = {};
  jpeg_progress_mgr progress = {};
  Errors errors;

  Reader() {
    set_errors(errors);
    codec.err = &errors.base;
  }
  Reader(const Reader&) = delete;
  ~Reader() { jpeg_destroy_decompress(&codec); }
};

constexpr int exif_marker = JPEG_APP0 + 1;

bool read_header(Reader& reader, const unsigned char* data, size_t bytes, bool keep_exif, ImageHeader& header) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_decompress_struct& codec = reader.codec;
  jpeg_create_decompress(&codec);
  reader.progress.progress_monitor = on_progress;
  codec.progress = &reader.progress;
  jpeg_mem_src(&codec, data, bytes);
  if (keep_exif) jpeg_save_markers(&codec, exif_marker, 0xFFFF);
  jpeg_read_header(&codec, TRUE);
  // libjpeg does not convert CMYK to RGB; colours_of_inks does.
  if (codec.jpeg_color_space == JCS_GRAYSCALE) codec.out_color_space = JCS_GRAYSCALE;
  else if (codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK) codec.out_color_space = JCS_CMYK;
  else codec.out_color_space = JCS_RGB;
  jpeg_calc_output_dimensions(&codec);
  header = {.width = codec.output_width,
            .height = codec.output_height,
            .channels = static_cast<uint32_t>(codec.output_components)};
  return true;
}

bool read_rows(Reader& reader, unsigned char* to, size_t row_bytes) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_start_decompress(&reader.codec);
  while (reader.codec.output_scanline < reader.codec.output_height) {
    JSAMPROW row = to + reader.codec.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.codec, &row, 1);
  }
  jpeg_finish_decompress(&reader.codec);
  return true;
}

int orientation_of(const Reader& reader) {
  constexpr std::string_view head("Exif\0\0", 6);
  for (jpeg_saved_marker_ptr marker = reader.codec.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (marker->marker != exif_marker || !data.starts_with(head)) continue;
    return exif_orientation(std::as_bytes(std::span(data.substr(head.size()))));
  }
  return 1;
}

/// Converts CMYK to RGB. Adobe's programs store inverted values.
Tensor colours_of_inks(const Tensor& inks, bool inverted) {
  const int64_t pixels = inks.size(0) * inks.size(1);
  const Tensor out = empty({inks.size(0), inks.size(1), 3}, {.dtype = DType::u8});
  const auto* from = static_cast<const uint8_t*>(inks.data_ptr());
  auto* to = static_cast<uint8_t*>(out.data_ptr());
  for (int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    for (int c = 0; c < 3; ++c) {
      const int light = inverted ? from[c] : 255 - from[c], black = inverted ? from[3] : 255 - from[3];
      to[c] = static_cast<uint8_t>((light * black + 127) / 255);
    }
  }
  return out;
}

// ---- writing --------------------------------------------------------------------------------------------------------

struct Writer {
  jpeg_compress_struct codec = {};
  Errors errors;
  unsigned char* out = nullptr;
  unsigned long bytes = 0;

  Writer() {
    set_errors(errors);
    codec.err = &errors.base;
  }
  Writer(const Writer&) = delete;
  ~Writer() {
    jpeg_destroy_compress(&codec);
    std::free(out);
  }
};

bool write_rows(Writer& writer, unsigned char* from, const ImageHeader& header, int quality) {
  if (setjmp(writer.errors.back)) return false;
  jpeg_compress_struct& codec = writer.codec;
  jpeg_create_compress(&codec);
  jpeg_mem_dest(&codec, &writer.out, &writer.bytes);
  codec.image_width = header.width;
  codec.image_height = header.height;
  codec.input_components = static_cast<int>(header.channels);
  codec.in_color_space = header.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    JSAMPROW row = from + size_t{codec.next_scanline} * header.width * header.channels;
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  return true;
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::byte> bytes, const ImageOptions& options, const ImagePlace& place) {
  Reader reader;
  ImageHeader header;
  if (!read_header(reader, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                   options.apply_exif_orientation, header)) {
    place.refuse(fmt::format("JPEG: {}", reader.errors.text));
  }
  const int orientation = orientation_of(reader);  // read_rows releases the markers
  const Tensor out = make_interleaved(header, options, UINT64_MAX, place);
  if (!read_rows(reader, static_cast<unsigned char*>(out.data_ptr()), size_t{header.width} * header.channels)) {
    place.refuse(fmt::format("JPEG: {}", reader.errors.text));
  }
  return {header.channels == 4 ? colours_of_inks(out, reader.codec.saw_Adobe_marker) : out, orientation};
}

std::string jpeg_of(const Interleaved& image, int quality, Location where) {
  Writer writer;
  const ImageHeader header = {.width = static_cast<uint32_t>(image.size(1)),
                              .height = static_cast<uint32_t>(image.size(0)),
                              .channels = static_cast<uint32_t>(image.size(2))};
  if (!write_rows(writer, static_cast<unsigned char*>(image.data_ptr()), header, quality)) {
    raise<ValueError>({.op = "encode_jpeg", .problem = fmt::format("libjpeg: {}", writer.errors.text)}, where);
  }
  return {reinterpret_cast<const char*>(writer.out), writer.bytes};
}

}  // namespace weft::data

#else

namespace weft::data {

namespace {

[[noreturn]] void raise_without_libjpeg(Location where) {
  raise<NotImplementedError>(
      {.op = "image",
       .problem = "this build of Weft reads and writes no JPEG",
       .remedy = "install libjpeg (Debian: libjpeg62-turbo-dev) and build with -DWEFT_WITH_JPEG=ON"},
      where);
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::byte>, const ImageOptions&, const ImagePlace& place) {
  raise_without_libjpeg(place.where);
}
std::string jpeg_of(const Interleaved&, int, Location where) { raise_without_libjpeg(where); }

}  // namespace weft::data

#endif
