#include "npy_format-inl.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../tensor/checked.hpp"
#include "../files/byte_order-inl.hpp"
#include "../json/utf8-inl.hpp"

namespace weft::io {

namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr std::array<TypeCode, 14> type_codes = {{{"b1", DType::boolean},
                                                  {"u1", DType::u8},
                                                  {"i1", DType::i8},
                                                  {"u2", DType::u16},
                                                  {"i2", DType::i16},
                                                  {"u4", DType::u32},
                                                  {"i4", DType::i32},
                                                  {"u8", DType::u64},
                                                  {"i8", DType::i64},
                                                  {"f2", DType::f16},
                                                  {"f4", DType::f32},
                                                  {"f8", DType::f64},
                                                  {"c8", DType::c64},
                                                  {"c16", DType::c128}}};

struct Header {
  DType dtype = DType::f32;
  bool swapped = false, fortran_order = false;
  Dims shape;
};

[[noreturn]] void fail(const NpySource& source, const std::string& problem) {
  raise<FormatError>({.op = source.op, .problem = "not a valid .npy file: " + problem, .details = source.details},
                     source.where);
}

// Parses the header, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderText {
 public:
  HeaderText(std::string_view text, const NpySource& source) : rest_(text), source_(source) {}

  bool accept(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("the header lacks \"{}\" before {}", c, quoted(rest_.substr(0, 20))));
  }
  std::string_view string() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    return take(rest_.find(quote), 1);
  }
  std::string_view word() { return skip_spaces(), take(std::min(rest_.find_first_of(" ,)}"), rest_.size()), 0); }
  int64_t integer() {
    const std::string_view digits = word();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
      fail(quoted(digits) + " is no size");
    }
    return value;
  }
  bool at_end() { return skip_spaces(), rest_.empty(); }
  [[noreturn]] void fail(const std::string& problem) const { weft::io::fail(source_, problem); }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }
  std::string_view take(size_t count, size_t behind) {
    if (count > rest_.size()) fail("a string in the header does not end");
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count + behind);
    return result;
  }

  std::string_view rest_;
  const NpySource& source_;
};

void parse_descr(std::string_view descr, Header& header, const NpySource& source) {
  const char order = descr.empty() ? '\0' : descr.front();
  const auto type = std::ranges::find(type_codes, descr.substr(std::min<size_t>(1, descr.size())), &TypeCode::code);
  if (type == type_codes.end() || std::string_view("<>|=").find(order) == std::string_view::npos) {
    raise<DTypeError>({.op = source.op,
                       .problem = fmt::format("arrays of {} have no counterpart in Weft", quoted(descr)),
                       .details = source.details},
                      source.where);
  }
  header.dtype = type->dtype;
  header.swapped = order == '>';
}

Dims parse_shape(HeaderText& text, const NpySource& source) {
  std::vector<int64_t> sizes;
  text.expect('(');
  while (!text.accept(')')) {
    sizes.push_back(text.integer());
    if (!text.accept(',')) {
      text.expect(')');
      break;
    }
  }
  if (sizes.size() > static_cast<size_t>(max_rank)) {
    raise<ShapeError>({.op = source.op,
                       .problem = fmt::format("{} dimensions; at most {} are held", sizes.size(), max_rank),
                       .details = source.details},
                      source.where);
  }
  return sizes;
}

Header parse_dictionary(std::string_view dictionary, const NpySource& source) {
  HeaderText text(dictionary, source);
  Header header;
  std::array<int, 3> seen{};
  text.expect('{');
  while (!text.accept('}')) {
    const std::string_view key = text.string();
    text.expect(':');
    if (key == "descr" && seen[0]++ == 0) {
      if (text.accept('[')) parse_descr("a structure", header, source);
      parse_descr(text.string(), header, source);
    } else if (key == "fortran_order" && seen[1]++ == 0) {
      const std::string_view value = text.word();
      if (value != "True" && value != "False") text.fail("fortran_order is neither True nor False");
      header.fortran_order = value == "True";
    } else if (key == "shape" && seen[2]++ == 0) {
      header.shape = parse_shape(text, source);
    } else {
      text.fail(fmt::format("the key {} is unknown or occurs twice", quoted(key)));
    }
    if (!text.accept(',')) {
      text.expect('}');
      break;
    }
  }
  if (seen != std::array{1, 1, 1} || !text.at_end()) text.fail("the header is incomplete, or followed by something");
  return header;
}

// Consumes the header; the elements follow in the source.
Header take_header(const NpySource& source) {
  std::array<char, 12> start{};
  if (source.size < 10) fail(source, "it does not begin as one");
  source.take(start.data(), 8);
  if (std::string_view(start.data(), magic.size()) != magic) fail(source, "it does not begin as one");
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) fail(source, fmt::format("version {} is unknown", version));
  uint32_t length = 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (source.size < 8 + length_bytes) fail(source, "the header is cut off");
  source.take(&length, length_bytes);
  if (length > source.size - 8 - length_bytes) fail(source, "the header is cut off");
  std::string dictionary(length, '\0');
  source.take(dictionary.data(), length);
  const Header header = parse_dictionary(dictionary, source);
  Checked needed = itemsize(header.dtype);
  for (const int64_t n : header.shape) needed *= n;
  const size_t left = source.size - 8 - length_bytes - length;
  if (!needed.fits() || static_cast<uint64_t>(needed.value()) > left) fail(source, "the elements are cut off");
  return header;
}

}  // namespace

Tensor read_npy(const NpySource& source, Device device) {
  const Header header = take_header(source);
  Dims stored = header.shape, axes;
  for (int i = stored.size() - 1; i >= 0; --i) axes.push_back(i);
  if (header.fortran_order) std::reverse(stored.data(), stored.data() + stored.size());
  Tensor out = empty(stored, header.dtype, source.where);
  const auto bytes = static_cast<size_t>(out.nbytes());
  auto* data = static_cast<std::byte*>(out.data_ptr());
  if (bytes != 0) source.take(data, bytes);
  if (header.swapped) swap_bytes(data, bytes, static_cast<size_t>(itemsize(real_type(out.dtype()))));
  if (header.dtype == DType::boolean)
    std::transform(data, data + bytes, data, [](std::byte b) { return std::byte{b != std::byte{0}}; });
  if (!device.is_cpu()) out = out.to(device, source.where);
  return header.fortran_order ? out.permute(axes, source.where) : out;
}

std::string npy_header(const Tensor& tensor, const char* op, Location where) {
  const DType dtype = checked(tensor, op, where).dtype();
  const auto type = std::ranges::find(type_codes, dtype, &TypeCode::dtype);
  if (type == type_codes.end()) {
    raise<DTypeError>({.op = op,
                       .problem = fmt::format("NumPy has no {}", name(dtype)),
                       .remedy = "convert to float32, or use save_file"},
                      where);
  }
  const Dims shape = tensor.shape();
  const char order = itemsize(dtype) == 1 ? '|' : '<';
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order, type->code,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // NumPy leaves room for the first size to grow to 20 digits, then pads to 64 bytes.
  if (!shape.empty()) header.append(21 - std::to_string(shape[0]).size(), ' ');
  header.append(64 - (magic.size() + 4 + header.size() + 1) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  const char* length_bytes = reinterpret_cast<const char*>(&length);
  return std::string(magic).append("\x01\x00", 2).append(length_bytes, sizeof(length)) + header;
}

}  // namespace weft::io
