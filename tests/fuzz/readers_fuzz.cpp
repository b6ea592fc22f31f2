// Damaged files of the readers of data/: a typed error, or values that can be read in full, never more. Pictures are
// damaged with their checksums made right again in half of the cases.
//
// usage: readers_fuzz [--count N] [--seed N]     (N files of each reader)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>

#include <weft/data/cifar.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/image.hpp>
#include <weft/data/json_lines.hpp>
#include <weft/data/lines.hpp>
#include <weft/data/tokenizer.hpp>
#include <weft/io/idx.hpp>
#include <weft/weft.hpp>

#include "damage.hpp"
#include "fuzz.hpp"

namespace weft {
namespace {

std::string contents(const std::string& name) {
  std::ifstream file(std::string(WEFT_SOURCE_DIR "/tests/data/cases/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads every byte.
void read(const Tensor& t) {
  const Tensor dense = t.contiguous();
  char all = 0;
  const size_t bytes = static_cast<size_t>(dense.numel()) * itemsize(dense.dtype());
  for (size_t i = 0; i < bytes; ++i) all = static_cast<char>(all ^ static_cast<const char*>(dense.data_ptr())[i]);
  asm volatile("" : : "r"(all));
}

void read(const data::Table& table) {
  for (const data::Column& column : table.columns()) {
    if (!column.is_text()) read(column.values);
    if (column.rows() != table.rows()) std::abort();
  }
}

uint32_t crc_of(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/// Sets the checksums of a PNG's chunks.
void mend(std::string& png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(png[at + i]);
    if (length > png.size() - at - 12) return;
    const uint32_t crc = crc_of(std::string_view(png).substr(at + 4, length + 4));
    for (size_t i = 0; i < 4; ++i) png[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

struct Reader {
  const char* name;
  std::vector<std::string> seeds;
  std::string_view usual;
  void (*read)(const std::string& path, const std::string& bytes);
  bool is_picture = false;
};

void read_picture(const std::string&, const std::string& bytes) {
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  read(data::decode_image(
      all,
      {.keep_16_bits = bytes.size() % 2 == 0, .apply_exif_orientation = bytes.size() % 3 != 0, .max_pixels = 1 << 16}));
}

std::string small_tokenizer(const char* pattern) {
  data::Tokenizer trained =
      data::Tokenizer::train(std::vector<std::string>{"low low lower lowest new newer"},
                             {.vocab_size = 268,
                              .special_tokens = {"<s>"},
                              .pattern = *pattern == '2' ? data::WordPattern::gpt2 : data::WordPattern::gpt4});
  return trained.to_json();
}

/// Exif data in a whole picture, which is read whatever they are.
void read_exif(const std::string&, const std::string& bytes) {
  static const std::string plain = contents("rgb.jpg");
  const std::string segment = std::string("Exif\0\0", 6) + bytes.substr(0, 60000);
  const size_t length = segment.size() + 2;
  std::string jpeg = plain.substr(0, 2) + "\xFF\xE1";
  jpeg += {static_cast<char>(length >> 8), static_cast<char>(length)};
  jpeg += segment + plain.substr(2);
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(jpeg.data()), jpeg.size());
  const Tensor image = data::decode_image(all, {.apply_exif_orientation = true});
  read(image);
  if (image.numel() != 3 * 13 * 19) std::abort();
  if (image.size(1) == 13) throw FormatError("no quarter turn is in the data");
}

/// Parts of many kinds, so that damage meets all of their readers.
std::string tokenizer_with_parts() {
  std::string json = small_tokenizer("2");
  const auto set = [&](const std::string& from, const std::string& to) {
    json.replace(json.find(from), from.size(), to);
  };
  set("\"normalizer\": null", R"json("normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "Prepend", "prepend": "_"},
    {"type": "Replace", "pattern": {"Regex": "\\s+|[aeiou]"}, "content": "-"}]})json");
  set("\"pre_tokenizer\": {", R"json("pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{L}+(?!\\S)"}, "behavior": "MergedWithNext", "invert": false},
    {"type": "Split", "pattern": {"String": "ow"}, "behavior": "Contiguous", "invert": true},
    {"type": "Punctuation", "behavior": "Removed"}, {"type": "Digits", "individual_digits": true},
    {"type": "Whitespace"}, {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true},
    {"type": "CharDelimiterSplit", "delimiter": "w"}]}, "unused": {)json");
  set("\"normalized\": false", "\"normalized\": true");
  set("\"single_word\": false", "\"single_word\": true");
  set("\"post_processor\": null", R"json("post_processor": {"type": "Sequence", "processors": [
    {"type": "ByteLevel"}, {"type": "RobertaProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0]}]})json");
  return json;
}

std::string small_csv() { return "a,b,c\n1,2.5,x\n3,4.5,\"y,\"\"z\"\"\"\n,NA,w\n7,8,x\n9,10,\"l\nm\"\n"; }

/// The parts make up the table, and a reader of other parts can resume after each.
void read_parts(const std::string& path, const std::string& bytes) {
  const data::CsvOptions options = {.types = {{"c", data::ColumnType::category}}};
  const int64_t each = 1 + static_cast<int64_t>(bytes.size() % 3);
  data::CsvChunks chunks(path, each, options);
  int64_t rows = 0;
  while (const std::optional<data::Table> part = chunks.next()) {
    read(*part);
    rows += part->rows();
    data::CsvChunks again(path, 2, options);
    try {
      again.restore(chunks.state());
    } catch (const ValueError&) {  // a name that is not UTF-8
      continue;
    }
    if (again.row() != rows) std::abort();
  }
  if (rows != data::read_csv(path, options).rows()) std::abort();
}

/// Damaged places over a whole file.
void read_place(const std::string&, const std::string& bytes) {
  static MemoryFile table;
  const std::string csv = table.holding(small_csv());
  data::CsvChunks chunks(csv, 2, {.types = {{"c", data::ColumnType::category}}});
  chunks.restore(bytes);
  while (const std::optional<data::Table> part = chunks.next()) read(*part);
}

std::string small_place() {
  MemoryFile table;
  data::CsvChunks chunks(table.holding(small_csv()), 2, {.types = {{"c", data::ColumnType::category}}});
  chunks.next();
  return chunks.state();
}

std::vector<Reader> readers() {
  std::vector<Reader> out;
  out.push_back({"csv_parts", {small_csv()}, ",\"\n\r0123456789.eENA", read_parts});
  out.push_back({"csv_place", {small_place()}, "{}[]\",:0123456789-null", read_place});
  out.push_back(
      {"csv",
       {"a,b,c\n1,2.5,x\n3,4.5,\"y,\"\"z\"\"\"\n,NA,w\n", "1;2\r\n# note\r\n3;4\r\n", "t,u\ntrue,1e5\nfalse,-7\n"},
       ",\"\n\r;#0123456789.eE+-truefalsNA",
       [](const std::string& path, const std::string& bytes) {
         const char delimiter = bytes.size() % 3 == 0 ? ';' : ',';
         read(data::read_csv(path, {.delimiter = delimiter, .header = bytes.size() % 2 == 0, .comment = '#'}));
       }});
  out.push_back({"json_lines",
                 {"{\"text\": \"a\", \"x\": [[1, 2], [3, 4]], \"n\": 1}\n{\"text\": \"b\", \"x\": [[1, 2], [3, 4.5]], "
                  "\"n\": 2}\n"},
                 "{}[]\",:0123456789.-eE\\truefalsn \n",
                 [](const std::string& path, const std::string&) { read(data::read_json_table(path)); }});
  out.push_back(
      {"lines", {"one\r\ntwo\n\nthree"}, "\r\n\xEF\xBB\xBF", [](const std::string& path, const std::string& bytes) {
         size_t size = 0;
         for (const std::string& line : data::read_lines(path)) size += line.size();
         if (size > bytes.size()) std::abort();
         if (bytes.size() % 5 == 0) throw FormatError("no text is refused");
       }});
  out.push_back({"cifar",
                 {std::string(1, '\3') + std::string(3072, 'a') + std::string(1, '\4') + std::string(3072, 'b')},
                 std::string_view("\0\1\11\12\377", 5),
                 [](const std::string& path, const std::string&) { read(data::read_cifar10({path}).images); }});
  out.push_back({"idx",
                 {std::string("\0\0\10\2\0\0\0\2\0\0\0\3abcdef", 18), std::string("\0\0\15\1\0\0\0\2abcdefgh", 16)},
                 std::string_view("\0\1\2\10\11\13\14\15\16\377", 10),
                 [](const std::string& path, const std::string&) { read(io::load_idx(path)); }});
  out.push_back({"tokenizer",
                 {
                     small_tokenizer("2"),
                     small_tokenizer("4"),
#if WEFT_HAS_UTF8PROC && WEFT_HAS_ONIG
                     tokenizer_with_parts(),
#endif
                 },
                 "{}[]\",:0123456789nulltruefalse ()+*?\\",
                 [](const std::string& path, const std::string&) {
                   const data::Tokenizer tokenizer = data::Tokenizer::load(path);
                   const std::string text = "lower low<s> don't 12 \xFF\n Å e\u0301 <s>.";
                   try {
                     const data::Encoding encoding = tokenizer.encode_with_offsets(text);
                     if (encoding.ids != tokenizer.encode(text)) std::abort();
                     for (const auto& [begin, end] : encoding.offsets) {
                       if (begin < 0 || end < begin || end > std::ssize(text)) std::abort();
                     }
                     (void)tokenizer.decode_bytes(encoding.ids);
                   } catch (const ValueError&) {  // a byte without a token
                   }
                   data::Tokenizer::from_json(tokenizer.to_json());
                 }});
  const std::string_view picture_bytes("\0\1\2\3\4\5\6\7\10\20\377\376\332\304\333\300\302\xD8\xD9", 19);
#if WEFT_HAS_PNG
  out.push_back({"png",
                 {contents("rgb.png"), contents("palette.png"), contents("interlaced.png"), contents("wide.png"),
                  contents("bits.png"), contents("grey_alpha.png"), contents("oriented_6.png")},
                 picture_bytes,
                 read_picture,
                 true});
#endif
#if WEFT_HAS_JPEG
  out.push_back({"exif",
                 {std::string("II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22),
                  std::string("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 22)},
                 std::string_view("\0\1\3\6\10IM\x2A\x12\377", 10),
                 read_exif});
  out.push_back({"jpeg",
                 {contents("rgb.jpg"), contents("progressive.jpg"), contents("cmyk.jpg"), contents("grey.jpg"),
                  contents("oriented_6.jpg")},
                 picture_bytes,
                 read_picture,
                 true});
#endif
  return out;
}

std::string failure(const Reader& reader, const std::string& path, const std::string& bytes, uint64_t& taken) {
  try {
    reader.read(path, bytes);
    ++taken;
  } catch (const OutOfMemoryError& error) {
    return std::string("memory beyond what the file can fill: ") + error.what();
  } catch (const Error& error) {
    return problem_of(error.what());
  } catch (const std::exception& error) {
    return std::string("no error of Weft's: ") + error.what();
  }
  return {};
}

int fuzz(uint64_t count, uint64_t first) {
  set_memory_limit(Device(), size_t{64} << 20);
  MemoryFile file;
  for (const Reader& reader : readers()) {
    uint64_t taken = 0;
    const int code = for_seeds(count, first, [&](uint64_t seed) {
      RandomDamage damage(seed);
      const std::string& whole = reader.seeds[damage.below(reader.seeds.size())];
      std::string bytes = damage.changed(whole, reader.usual, 4, 100, [&](std::string& cut, size_t at) {
        if (damage.below(4) == 0) cut.resize(at);
      });
      if (reader.is_picture && damage.below(2) == 0) mend(bytes);
      const std::string problem = failure(reader, file.holding(bytes), bytes, taken);
      return problem.empty() ? 0 : failed(seed, reader.name, problem);
    });
    if (code != 0) return code;
    std::printf("%s: %llu files, %llu of them read\n", reader.name, static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(taken));
    if (count >= 1000 && (taken == 0 || taken == count)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::fuzz_main(argc, argv, 2'000, weft::fuzz); }
