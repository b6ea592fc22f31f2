// Files: memory-mapped for reading, replaced atomically, or growing line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "path.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/error.hpp"

namespace weft::io {

/// A file mapped into memory until this object is destroyed. Writes to the bytes change a private copy, never the file.
/// If another program truncates the file meanwhile, access raises SIGBUS and ends the process, except within a
/// ReadScope.
class WEFT_API MappedFile {
 public:
  /// Raises IoError if the file cannot be opened or is not a regular file. A pipe is rejected without blocking.
  static MappedFile open(const Path& path, const char* op, Location where = {});
  /// Reads the file into memory instead of mapping it, so later changes of the file have no effect. Errors as open, and
  /// OutOfMemoryError.
  static MappedFile read(const Path& path, const char* op, Location where = {});
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), range_(other.range_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(range_, other.range_);
    return *this;
  }
  ~MappedFile();

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  /// Key of the range in mapped_ranges-inl.hpp; undefined if `data_` is null.
  size_t range_ = 0;
};

/// While one exists, truncated bytes of mapped files read as zeros on every thread, instead of ending the process.
/// `check` then reports the truncation. After the last scope an access to these bytes ends the process again.
class WEFT_API ReadScope {
 public:
  ReadScope();
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  /// Raises IoError if a mapped file was truncated since the scope began.
  void check(const char* op, Location where = {}) const;

 private:
  uint64_t losses_, first_range_;
};

/// Calls read() within a ReadScope and checks it.
template <class F>
auto read_checked(const char* op, Location where, const F& read) {
  const ReadScope scope;
  auto out = read();
  scope.check(op, where);
  return out;
}

/// A file that is replaced atomically: `commit` flushes a temporary file in the same folder and renames it. Without a
/// commit the old file stays and the temporary file is removed. Symbolic links are followed, and the old file's
/// permissions are kept. Raises IoError with the path on any failure.
///
/// A killed process leaves its temporary file, `NAME.<16 digits>.weft-tmp`; the next write of the same file removes it.
/// Temporary files in use are locked, so several processes can write one file at once: each writes a complete file, and
/// the last rename wins.
class WEFT_API AtomicFile {
 public:
  /// Creates the temporary file, so that errors are found before anything is computed.
  AtomicFile(Path path, const char* op, Location where = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  /// After a failure nothing more can be written, and the old file stays.
  void write(const void* data, size_t bytes);
  /// Overwrites bytes that are already written.
  void write_over(size_t from, const void* data, size_t bytes);
  /// Flushes the written bytes to disk, so that `commit` has little left that can fail.
  void flush();
  void commit();
  /// Adds to the message of a failed write the description that `place_of` returns for the byte.
  void tell_places(Callback<std::string(size_t byte)> place_of) { place_of_ = std::move(place_of); }

 private:
  [[noreturn]] void fail(const char* action, int code);
  void make_temporary();
  void put(std::string_view bytes);
  void put_buffer();
  void discard();

  Path path_;
  /// `target_` is `path_` with symbolic links resolved.
  std::string target_, temporary_;
  const char* op_;
  Location where_;
  int file_ = -1;
  std::string buffer_;
  size_t written_ = 0;
  Callback<std::string(size_t)> place_of_;
};

/// A growing file, such as a log. `add` never fails. `flush` writes the added bytes and keeps those it could not write
/// for the next flush, so a full disk causes neither gaps nor torn lines.
class WEFT_API GrowingFile {
 public:
  /// Creates an empty file. Raises IoError.
  GrowingFile(Path path, const char* op, Location where = {});
  /// Writes as much as possible; errors are ignored.
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  /// Number of bytes added but not written yet.
  size_t waiting() const { return waiting_.size(); }
  /// Raises IoError with the cause.
  void flush(Location where = {});
  const Path& path() const { return path_; }

 private:
  Path path_;
  const char* op_;
  int file_ = -1;
  std::string waiting_;
};

/// Replaces the file by `text`, atomically. Raises IoError.
WEFT_API void write_file(const Path& path, std::string_view text, const char* op, Location where = {});

/// Returns the whole file. Raises IoError if it cannot be read or is not a regular file.
WEFT_API std::string read_file(const Path& path, const char* op, Location where = {});

/// Checks, at the start of a long run, that a file can be written under this name. Raises IoError if the folder is
/// missing or not writable, or if the name belongs to something other than a file.
WEFT_API void check_writable(const Path& path, const char* op, Location where = {});

}  // namespace weft::io
