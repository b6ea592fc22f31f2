// Bytes as hexadecimal digits, two per byte. Internal to io/.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace weft::io {

inline std::string hex_of(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

/// Returns nothing if a digit is invalid or their number is odd.
inline std::optional<std::string> bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    if (error != std::errc() || end != digits.data() + i + 2) return {};
    bytes += static_cast<char>(byte);
  }
  return digits.size() % 2 == 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace weft::io
