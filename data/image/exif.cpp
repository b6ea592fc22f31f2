#include "exif-inl.hpp"

#include <cstdint>

#include "../../ops/rearrange.hpp"

namespace weft::data {

namespace {

/// Reads numbers of either byte order; 0 outside of the data.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes), big_(starts_with_two('M')) {}
  bool is_one() const { return (big_ || starts_with_two('I')) && number(2, 2) == 42; }
  uint32_t number(uint64_t at, size_t length) const {
    if (at > bytes_.size() || length > bytes_.size() - at) return 0;
    uint32_t out = 0;
    for (size_t i = 0; i < length; ++i) {
      out = out << 8 | static_cast<uint32_t>(bytes_[at + (big_ ? i : length - 1 - i)]);
    }
    return out;
  }

 private:
  bool starts_with_two(char c) const {
    return bytes_.size() >= 8 && bytes_[0] == std::byte(c) && bytes_[1] == std::byte(c);
  }
  std::span<const std::byte> bytes_;
  bool big_;
};

}  // namespace

int exif_orientation(std::span<const std::byte> exif) {
  const Tiff tiff(exif);
  if (!tiff.is_one()) return 1;
  constexpr uint32_t tag = 0x0112, type_short = 3, entry_bytes = 12;
  const uint64_t directory = tiff.number(4, 4);
  const uint32_t entries = tiff.number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + i * entry_bytes;
    if (tiff.number(entry, 2) != tag) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    const bool valid = tiff.number(entry + 2, 2) == type_short && tiff.number(entry + 4, 4) == 1;
    return valid && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Tensor turned_upright(const Tensor& planes, int orientation) {
  // Orientations from 5 on transpose the image; then rows and columns may be reversed.
  const Tensor image = orientation >= 5 ? planes.transpose(-2, -1) : planes;
  const bool columns = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool rows = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (rows && columns) return flip(image, {-2, -1});
  return rows ? flip(image, {-2}) : columns ? flip(image, {-1}) : image.contiguous();
}

}  // namespace weft::data
