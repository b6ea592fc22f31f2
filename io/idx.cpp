#include "idx.hpp"

#include <bit>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "../ops/create.hpp"
#include "../tensor/checked.hpp"
#include "files/byte_order-inl.hpp"
#include "file.hpp"

namespace weft::io {

namespace {

constexpr const char* op = "load_idx";

[[noreturn]] void refuse(const Path& path, const std::string& why, Location where) {
  raise<FormatError>({.op = op, .problem = path.string() + ": " + why}, where);
}

std::optional<DType> dtype_of_code(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return {};
  }
}

/// Sizes and numbers are big-endian.
void to_native_order(std::byte* data, size_t bytes, size_t width) {
  if constexpr (std::endian::native != std::endian::big) swap_bytes(data, bytes, width);
}

}  // namespace

namespace {

Tensor idx_of(std::span<const std::byte> bytes, const Path& path, Device device, Location where) {
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B}) {
    refuse(path, "the file is compressed: gunzip it first", where);
  }
  if (bytes.size() < 4 || bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) {
    refuse(path, "an IDX file starts with two zeros, a code of the numbers' type and the number of dimensions", where);
  }
  const std::optional<DType> dtype = dtype_of_code(bytes[2]);
  if (!dtype)
    refuse(path, fmt::format("byte 2: no type of numbers has the code {}", std::to_integer<int>(bytes[2])), where);
  const auto rank = std::to_integer<size_t>(bytes[3]);
  if (bytes.size() < 4 + 4 * rank) refuse(path, fmt::format("it ends in the sizes of {} dimensions", rank), where);
  if (rank > max_rank) {
    raise<ShapeError>(
        {.op = op, .problem = fmt::format("{}: {} dimensions, at most {} are possible", path.string(), rank, max_rank)},
        where);
  }
  Dims shape;
  Checked count = 1;
  for (size_t d = 0; d < rank; ++d) {
    uint32_t size;
    std::memcpy(&size, bytes.data() + 4 + 4 * d, sizeof size);
    to_native_order(reinterpret_cast<std::byte*>(&size), sizeof size, sizeof size);
    shape.push_back(size);
    count *= size;
  }
  const size_t item = itemsize(*dtype), first = 4 + 4 * rank;
  const Checked wanted = count * static_cast<int64_t>(item);
  if (!wanted.fits() || static_cast<uint64_t>(wanted.value()) != bytes.size() - first) {
    refuse(path, fmt::format("shape {} does not fit the {} bytes that follow", shape.text(), bytes.size() - first),
           where);
  }
  const Tensor out = empty(shape, {.dtype = *dtype}, where);
  if (wanted.value() > 0) {
    std::memcpy(out.data_ptr(), bytes.data() + first, bytes.size() - first);
    to_native_order(static_cast<std::byte*>(out.data_ptr()), bytes.size() - first, item);
  }
  return out.to(device);
}

}  // namespace

Tensor load_idx(const Path& path, Device device, Location where) {
  return read_checked(op, where, [&] {
    const MappedFile file = MappedFile::open(path, op, where);
    return idx_of(file.bytes(), path, device, where);
  });
}

}  // namespace weft::io
