// Files: mapped for reading, replaced as a whole when written, or growing line by line.
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

/// A file mapped into memory, as long as this lives. Writing to the bytes changes this process's copy, never the file.
/// A file that another program truncates meanwhile ends the process by SIGBUS, but for reads within a ReadScope.
class WEFT_API MappedFile {
 public:
  /// IoError where it cannot be opened or is not a regular file; a pipe is refused without waiting for it.
  static MappedFile open(const Path& path, const char* op, Location where = {});
  /// The same bytes in memory of their own, which nothing that becomes of the file changes. Errors as open, and
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
  /// Of mapped_ranges-inl.hpp; meaningless without data.
  size_t range_ = 0;
};

/// While one lives, what another program cuts off a mapped file reads as zeros instead of ending the process, on every
/// thread; `check` then refuses what was read.
class WEFT_API ReadScope {
 public:
  ReadScope();
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  /// IoError where a mapped file was cut short since the scope began.
  void check(const char* op, Location where = {}) const;

 private:
  uint64_t losses_, first_range_;
};

/// read() within a ReadScope, and its check.
template <class F>
auto read_checked(const char* op, Location where, const F& read) {
  const ReadScope scope;
  auto out = read();
  scope.check(op, where);
  return out;
}

/// A file that is replaced atomically: `commit` flushes a temporary file beside it and renames that. Without a commit
/// the old file stays and the temporary one is removed. Symbolic links are followed, the old file's permissions are
/// kept. IoError with the path where anything fails.
///
/// A process that is killed leaves its temporary file, `NAME.<16 digits>.weft-tmp`; the next write of the same file
/// removes it. A lock marks those in use, so several processes may write one file at once: each writes it whole, and
/// the last one stays.
class WEFT_API AtomicFile {
 public:
  /// Makes the temporary file, so that obstacles are found before anything is computed.
  AtomicFile(Path path, const char* op, Location where = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  /// After a failure nothing more can be written, and the old file stays.
  void write(const void* data, size_t bytes);
  /// Writes over bytes that are written already.
  void write_over(size_t from, const void* data, size_t bytes);
  /// Brings to the disk what was written, so that little is left for `commit` that may fail.
  void flush();
  void commit();
  /// From now on a failed write says, beside the byte, what the function tells of its place.
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

/// A file that grows, such as a log. `add` never fails; `flush` writes what was added and keeps what it could not write
/// for the next time, so that after a full disk there are neither gaps nor torn lines.
class WEFT_API GrowingFile {
 public:
  /// Starts an empty file. IoError.
  GrowingFile(Path path, const char* op, Location where = {});
  /// Writes as much as it can.
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  /// Number of bytes added but not written yet.
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

/// Replaces the file by `text`, atomically. IoError.
WEFT_API void write_file(const Path& path, std::string_view text, const char* op, Location where = {});

/// The whole file. IoError where it cannot be read or is not a regular file.
WEFT_API std::string read_file(const Path& path, const char* op, Location where = {});

/// IoError where no file can be written under this name: the folder is missing or not writable, or the name belongs to
/// something other than a file. For a check at the start of a long run.
WEFT_API void check_writable(const Path& path, const char* op, Location where = {});

}  // namespace weft::io
