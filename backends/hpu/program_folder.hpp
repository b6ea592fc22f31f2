// Native code that a driver made of SPIR-V, in files that later runs find.
//
// Files are written under another name and renamed, and hold their key and a digest. This room may not use io/,
// which is above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::hpu {

/// $WEFT_CACHE_DIR, or weft/ in $XDG_CACHE_HOME or in ~/.cache. Empty where WEFT_CACHE_DIR is set and empty, or where
/// there is no home: nothing is kept then.
std::string program_folder();

/// Files of one program each, named after their key. Processes may share a folder, and be killed at any time: files
/// appear complete. Damaged files, and files of another key or user, count as absent. Missing files and a full disk
/// raise no errors. Thread-safe.
class ProgramFolder {
 public:
  /// Nothing is kept where `path` is empty. Beyond `limit` bytes the programs that were not used for the longest time
  /// go.
  explicit ProgramFolder(std::string path, size_t limit = default_limit) : path_(std::move(path)), limit_(limit) {}

  /// The program, and its file counts as used now.
  std::optional<std::vector<uint8_t>> load(const std::string& key);
  void store(const std::string& key, std::span<const uint8_t> program);
  bool keeps() const { return !path_.empty(); }

  static constexpr size_t default_limit = size_t{256} << 20;

 private:
  std::string file_of(const std::string& key) const;
  bool make_folder() const;
  void make_room(size_t bytes);

  const std::string path_;
  const size_t limit_;
  std::mutex mutex_;
  std::optional<size_t> bytes_;  ///< in the folder, at least since it was last looked at
};

/// 128 bits in hexadecimal digits.
std::string digest(std::span<const uint8_t> bytes);

}  // namespace weft::hpu
