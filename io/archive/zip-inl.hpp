// Zip archives by libzip: entries stored or deflated, no encryption. Not public.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/index.hpp"
#include "../../tensor/shared.hpp"
#include "../path.hpp"

namespace weft::io {

struct ZipEntry {
  std::string name;
  /// Its place in the archive, and how many bytes it has once unpacked.
  uint64_t index, size;
};

/// An archive that is read. Opening it checks the directory: names are unique, stored entries lie within the file, no
/// entry claims more than deflate can pack, and together they are no larger than the file.
class ZipReader {
 public:
  /// IoError where the file cannot be read or Weft was built without libzip; FormatError where it is damaged.
  ZipReader(const Path& path, const char* op, Location where);
  ZipReader(const ZipReader&) = delete;

  /// In the order of the archive's directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null where there is none.
  const ZipEntry* find(std::string_view name) const;
  /// A whole entry.
  std::string read(const ZipEntry& entry) const;
  /// FormatError with the archive's path.
  [[noreturn]] void fail(std::string problem, std::string remedy = {}) const;

  const char* op() const { return op_; }
  Location where() const { return where_; }

 private:
  friend class ZipStream;
  struct Archive;
  void check_entries();

  std::string path_;
  const char* op_;
  Location where_;
  Shared<Archive> archive_;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, const ZipEntry*> by_name_;
};

/// The bytes of one entry, one after the other.
class ZipStream {
 public:
  ZipStream(const ZipReader& archive, const ZipEntry& entry);
  ~ZipStream();
  ZipStream(const ZipStream&) = delete;
  /// The next bytes. FormatError where there are fewer.
  void read(void* to, size_t bytes);
  /// Unpacks what is left, so that its checksum is known to be right. FormatError.
  void finish();

 private:
  [[noreturn]] void fail(const char* cause) const;

  const ZipReader& archive_;
  const ZipEntry& entry_;
  uint64_t left_ = 0;
  void* file_ = nullptr;
};

/// What becomes one entry: `head`, then the tensor's elements, row-major.
struct ZipItem {
  std::string name, head;
  Tensor tensor;
};

/// Replaces the file by an archive of these entries, atomically; equal items give equal bytes. A tensor is brought to
/// the CPU when its turn comes. IoError.
void write_zip(const Path& path, std::span<const ZipItem> items, bool compressed, const char* op, Location where);

}  // namespace weft::io
