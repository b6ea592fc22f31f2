// Files: mapped for reading, replaced as a whole when written.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <weft/io/path.hpp>
#include <weft/tensor/error.hpp>

namespace weft::io {

/// A file in memory, as long as this lives. Writing to the bytes changes this process's copy, never the file. The file
/// must not be shortened meanwhile.
class WEFT_API MappedFile {
 public:
  /// IoError where it cannot be opened or is no regular file.
  static std::shared_ptr<MappedFile> open(const Path& path, const char* op, Location where = {});
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A file that appears under its name all at once: `commit` flushes the temporary file beside it and renames. Without a
/// commit the old file stays and the temporary one is removed. IoError with the path where anything fails.
class WEFT_API AtomicFile {
 public:
  AtomicFile(Path path, const char* op, Location where = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action);

  Path path_, temporary_;
  const char* op_;
  Location where_;
  int file_ = -1;
};

/// Replaces the file by `text`, all at once. IoError.
WEFT_API void write_file(const Path& path, std::string_view text, const char* op, Location where = {});

/// The whole file. IoError where it cannot be read.
WEFT_API std::string read_file(const Path& path, const char* op, Location where = {});

}  // namespace weft::io
