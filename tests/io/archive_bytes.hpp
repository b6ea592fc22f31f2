// Archives and pickles made byte by byte, so that they can be wrong in one place.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace weft {

template <class T>
std::string little(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline uint32_t crc_of(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

struct RawEntry {
  std::string name, bytes;
  /// Offsets to the correct checksum, packed and unpacked size.
  uint32_t crc = 0, packed = 0, unpacked = 0;
  uint16_t method = 0, flags = 0;
};

/// A zip archive of stored entries.
inline std::string zip_of(const std::vector<RawEntry>& entries) {
  std::string out, directory;
  for (const RawEntry& e : entries) {
    const auto size = static_cast<uint32_t>(e.bytes.size());
    const std::string common = little<uint16_t>(20) + little(e.flags) + little(e.method) + little<uint32_t>(0x210000) +
                               little(crc_of(e.bytes) + e.crc) + little(size + e.packed) + little(size + e.unpacked) +
                               little(static_cast<uint16_t>(e.name.size())) + little<uint16_t>(0);
    directory += "PK\1\2" + little<uint16_t>(20) + common + std::string(10, '\0') +
                 little(static_cast<uint32_t>(out.size())) + e.name;
    out += "PK\3\4" + common + e.name + e.bytes;
  }
  const auto count = static_cast<uint16_t>(entries.size());
  const std::string end = std::string("PK\5\6\0\0\0\0", 8) + little(count) + little(count) +
                          little(static_cast<uint32_t>(directory.size())) + little(static_cast<uint32_t>(out.size())) +
                          std::string(2, '\0');
  return out + directory + end;
}

/// A file as torch.save writes it.
inline std::string pt_of(const std::string& pickle, const std::string& storage = "",
                         const std::vector<RawEntry>& more = {}) {
  std::vector<RawEntry> entries = {
      {"archive/data.pkl", pickle}, {"archive/data/0", storage}, {"archive/version", "3\n"}};
  entries.insert(entries.end(), more.begin(), more.end());
  return zip_of(entries);
}

// ---- pickles of protocol 2 ----
namespace pickled {

inline std::string text(const std::string& s) { return "X" + little(static_cast<uint32_t>(s.size())) + s; }
inline std::string number(int64_t n) { return std::string("\x8a\x08") + little(n); }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::string& parts) { return "(" + parts + "t"; }
inline std::string numbers(const std::vector<int64_t>& values) {
  std::string parts;
  for (const int64_t v : values) parts += number(v);
  return tuple(parts);
}
inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }
inline const std::string no_hooks = global("collections", "OrderedDict") + ")R";

inline std::string storage(int64_t elements, const std::string& type = "FloatStorage", const std::string& key = "0") {
  return tuple(text("storage") + global("torch", type) + text(key) + text("cpu") + number(elements)) + "Q";
}
inline std::string tensor(const std::string& stored, int64_t offset, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides, const std::string& requires_grad = "\x89") {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(stored + number(offset) + numbers(sizes) + numbers(strides) + requires_grad + no_hooks) + "R";
}
/// Of a storage without a dtype, as PyTorch writes the dtypes that are new.
inline std::string typed_tensor(int64_t bytes, const std::string& dtype, const std::vector<int64_t>& sizes,
                                const std::vector<int64_t>& strides) {
  const std::string stored =
      tuple(text("storage") + global("torch.storage", "UntypedStorage") + text("0") + text("cpu") + number(bytes)) +
      "Q";
  return global("torch._utils", "_rebuild_tensor_v3") +
         tuple(stored + number(0) + numbers(sizes) + numbers(strides) + "\x89" + no_hooks + global("torch", dtype)) +
         "R";
}
inline std::string dict(const std::string& entries) { return "}(" + entries + "u"; }

}  // namespace pickled

}  // namespace weft
