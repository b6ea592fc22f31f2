// Zip archives by libzip: stored or deflated entries, no encryption. Not public; exported for libtorch/.
//
// Archives are written sequentially into an `AtomicFile`. A tensor is on the CPU and contiguous only while its entry
// is written.
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
  /// Index in the archive, and uncompressed size in bytes.
  uint64_t index, size;
};

/// An archive open for reading. Opening validates the directory: names are unique, stored entries are within the file,
/// no entry claims a size that deflate cannot reach, and together the entries are no larger than the file.
class WEFT_API ZipReader {
 public:
  /// Raises IoError if the file cannot be read or Weft was built without libzip, and FormatError if it is damaged.
  ZipReader(const Path& path, const char* op, Location where);
  /// Reads the bytes of a file, which must outlive it. `name` is for errors.
  ZipReader(std::span<const std::byte> bytes, std::string name, const char* op, Location where);
  ZipReader(const ZipReader&) = delete;

  /// In the order of the archive's directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns null if it does not exist.
  const ZipEntry* find(std::string_view name) const;
  std::string read(const ZipEntry& entry) const;
  /// Raises FormatError with the archive's path.
  [[noreturn]] void fail(std::string problem, std::string remedy = {}) const;

  const std::string& path() const { return path_; }
  const char* op() const { return op_; }
  Location where() const { return where_; }

 private:
  friend class ZipStream;
  struct Archive;
  void open();
  void check_entries();

  std::string path_;
  const char* op_;
  Location where_;
  Shared<Archive> archive_;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, const ZipEntry*> by_name_;
};

class ZipStream {
 public:
  ZipStream(const ZipReader& archive, const ZipEntry& entry);
  ~ZipStream();
  ZipStream(const ZipStream&) = delete;
  /// Reads the next bytes. Raises FormatError if there are fewer.
  void read(void* to, size_t bytes);
  /// Unpacks the rest, so that the checksum is verified. Raises FormatError.
  void finish();

 private:
  [[noreturn]] void fail(const char* cause) const;

  const ZipReader& archive_;
  const ZipEntry& entry_;
  uint64_t left_ = 0;
  void* file_ = nullptr;
};

/// Contents of one entry: `head`, then the elements of the tensor, if there is one, in row-major order.
struct ZipItem {
  std::string name, head;
  Tensor tensor;
};

/// Replaces the file by an archive of these entries, atomically; equal items give equal bytes. Tensors are copied to
/// the CPU one at a time. Raises IoError.
WEFT_API void write_zip(const Path& path, std::span<const ZipItem> items, bool compressed, const char* op,
                        Location where);
/// Returns the bytes of the archive.
WEFT_API std::string zip_bytes(std::span<const ZipItem> items, bool compressed, const char* op, Location where);

}  // namespace weft::io
