// Bytes of a file, changed here and there as a disk, a wire or an attacker would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace weft {

class RandomDamage {
 public:
  explicit RandomDamage(uint64_t seed) : random_(seed) {}
  uint64_t word() { return random_(); }
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  /// Up to `most` changes; `usual` are bytes that the reader stumbles over, of which up to `longest` in a row are put
  /// in. One way of eight is `other(bytes, at)`.
  template <class Other>
  std::string changed(std::string bytes, std::string_view usual, size_t most, size_t longest, Other&& other) {
    for (size_t n = 1 + below(most); n > 0 && !bytes.empty(); --n) {
      const size_t at = below(bytes.size());
      switch (below(8)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = usual[below(usual.size())];
          break;
        case 2:
          bytes.erase(at, 1 + below(20));
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(60)));
          break;
        case 4:
          bytes.insert(at, std::string(1 + below(longest), usual[below(usual.size())]));
          break;
        case 5:
          other(bytes, at);
          break;
        case 6:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
          break;
        default:
          std::swap(bytes[at], bytes[below(bytes.size())]);
      }
    }
    return bytes;
  }

 private:
  std::mt19937_64 random_;
};

// A file in memory: a disk would take longer than the reading.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("damaged", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  std::string holding(const std::string& bytes) {
    if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, bytes.data(), bytes.size(), 0) != std::ssize(bytes)) std::abort();
    return "/proc/self/fd/" + std::to_string(file_);
  }

 private:
  int file_;
};

}  // namespace weft
