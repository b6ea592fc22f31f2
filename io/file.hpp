// Files: mapped for reading, replaced as a whole when written, or growing line by line.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "path.hpp"
#include "../tensor/error.hpp"

namespace weft::io {

/// A file in memory, as long as this lives. Writing to the bytes changes this process's copy, never the file. The file
/// must not be shortened meanwhile.
class WEFT_API MappedFile {
 public:
  /// IoError where it cannot be opened or is no regular file, such as a folder or a pipe: that is never waited for.
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
/// commit the old file stays and the temporary one is removed. A symbolic link is followed, the old file's permissions
/// are kept. IoError with the path where anything fails.
///
/// A process that is killed leaves its temporary file, `NAME.<16 digits>.weft-tmp`; whoever writes the same file next
/// removes it. The writer's lock says which ones are in use, so several processes may write one file at once: each
/// writes it whole, and the last one stays.
class WEFT_API AtomicFile {
 public:
  /// Makes the temporary file, so that what stands in the way is known before anything is computed.
  AtomicFile(Path path, const char* op, Location where = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  /// After a failure nothing more can be written, and the old file stays.
  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int code);
  void make_temporary();
  void flush();
  void discard();

  Path path_;
  /// What `path_` names behind symbolic links.
  std::string target_, temporary_;
  const char* op_;
  Location where_;
  int file_ = -1;
  std::string buffer_;
};

/// A file that grows, such as a log. `add` never fails; `flush` hands over what was added, and what it could not write
/// it keeps for the next time, so that a full disk leaves neither gaps nor torn lines once there is room again.
class WEFT_API GrowingFile {
 public:
  /// Starts an empty file. IoError.
  GrowingFile(Path path, const char* op, Location where = {});
  /// Writes what it still can.
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  /// Bytes added and not written yet.
  size_t waiting() const { return waiting_.size(); }
  /// IoError with the cause.
  void flush(Location where = {});
  const Path& path() const { return path_; }

 private:
  Path path_;
  const char* op_;
  int file_ = -1;
  std::string waiting_;
};

/// Replaces the file by `text`, all at once. IoError.
WEFT_API void write_file(const Path& path, std::string_view text, const char* op, Location where = {});

/// The whole file. IoError where it cannot be read or is no regular file.
WEFT_API std::string read_file(const Path& path, const char* op, Location where = {});

/// IoError where no file can be written under this name: the folder is missing, or may not be written to, or something
/// other than a file has the name. For a start of a long run, before there is something to lose.
WEFT_API void check_writable(const Path& path, const char* op, Location where = {});

}  // namespace weft::io
