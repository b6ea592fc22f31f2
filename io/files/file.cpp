#include "../file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "../../tensor/call.hpp"
#include "../../tensor/large_storage.hpp"
#include "folder-inl.hpp"
#include "mapped_ranges-inl.hpp"
#include "temporary_name-inl.hpp"

namespace weft::io {

namespace {

[[noreturn]] void raise_io(const char* op, const char* action, const Path& path, const char* cause, Location where) {
  raise<IoError>({.op = op, .problem = fmt::format("cannot {} {}", action, path.string()), .details = cause}, where);
}
[[noreturn]] void raise_io(const char* op, const char* action, const Path& path, int code, Location where) {
  raise_io(op, action, path, std::strerror(code), where);
}

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "it is a folder" : S_ISFIFO(mode) ? "it is a pipe" : "it is no regular file";
}

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

// Opens a regular file for reading. Without O_NONBLOCK, opening a pipe would block until it has a writer.
Descriptor open_regular(const Path& path, const char* op, struct stat& status, Location where) {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) raise_io(op, "open", path, errno, where);
  const bool told = ::fstat(number, &status) == 0;
  if (!told || !S_ISREG(status.st_mode)) {
    const char* cause = told ? kind_of(status.st_mode) : std::strerror(errno);
    ::close(number);
    raise_io(op, "read", path, cause, where);
  }
  return {number};
}

// Writes until all bytes are written or an error occurs. Returns the number of written bytes; `error` is errno or 0.
size_t write_some(int file, std::string_view bytes, int& error) {
  size_t done = 0;
  error = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      error = errno;
      break;
    }
    done += static_cast<size_t>(written);
  }
  return done;
}

constexpr size_t buffer_size = size_t{1} << 18;

}  // namespace

// ---- reading --------------------------------------------------------------------------------------------------------

MappedFile MappedFile::open(const Path& path, const char* op, Location where) {
  struct stat status {};
  const Descriptor descriptor = open_regular(path, op, status, where);
  const auto size = static_cast<size_t>(status.st_size);
  MappedFile file;
  if (size == 0) return file;
  // Pages are copied only when they are written. MAP_NORESERVE allows files larger than the machine's memory.
  constexpr int flags = MAP_PRIVATE | MAP_NORESERVE;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, descriptor.number, 0);
  if (data == MAP_FAILED) raise_io(op, "map", path, errno, where);
  file.data_ = static_cast<std::byte*>(data);
  file.size_ = size;
  file.range_ = remember_range(file.data_, size, path, status);
  return file;
}

MappedFile MappedFile::read(const Path& path, const char* op, Location where) {
  struct stat status {};
  const Descriptor descriptor = open_regular(path, op, status, where);
  const auto size = static_cast<size_t>(status.st_size);
  MappedFile file;
  if (size == 0) return file;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    const CallScope call(op, where);
    weft::detail::raise_out_of_memory({}, size, " to read a file into");
  }
  file.data_ = static_cast<std::byte*>(data);
  file.size_ = size;
  file.range_ = no_range;
  for (size_t done = 0; done < size;) {
    const ssize_t got = ::read(descriptor.number, file.data_ + done, size - done);
    if (got < 0 && errno != EINTR) raise_io(op, "read", path, errno, where);
    if (got == 0) raise_io(op, "read", path, "another program cut it short meanwhile", where);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_range(range_);
  ::munmap(data_, size_);
}

std::string read_file(const Path& path, const char* op, Location where) {
  struct stat status {};
  const Descriptor descriptor = open_regular(path, op, status, where);
  const auto size = static_cast<size_t>(status.st_size);
  std::string text;
  // Reads to the end regardless of the reported size: files in /proc report 0.
  for (size_t done = 0;; text.resize(done)) {
    text.resize(done + std::max<size_t>(size - std::min(size, done), 4096));
    const ssize_t got = ::read(descriptor.number, text.data() + done, text.size() - done);
    if (got < 0 && errno != EINTR) raise_io(op, "read", path, errno, where);
    if (got == 0) {
      text.resize(done);
      return text;
    }
    if (got > 0) done += static_cast<size_t>(got);
  }
}

// ---- replacing ------------------------------------------------------------------------------------------------------

AtomicFile::AtomicFile(Path path, const char* op, Location where) : path_(std::move(path)), op_(op), where_(where) {
  if (int code = 0; !follow_links(path_.string(), target_, code)) fail("write", code);
  struct stat old {};
  const bool replaces = ::stat(target_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode)) raise_io(op_, "replace", path_, kind_of(old.st_mode), where_);
  if (replaces && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail("replace", errno);
  remove_leftovers(target_);
  make_temporary();
  if (replaces) (void)::fchmod(file_, old.st_mode & 07777);
}

AtomicFile::~AtomicFile() { discard(); }

// Discards the file: writing on after a failure would leave a gap.
void AtomicFile::fail(const char* action, int code) {
  discard();
  raise_io(op_, action, path_, code, where_);
}

void AtomicFile::discard() {
  if (file_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(file_);
  file_ = -1;
}

void AtomicFile::make_temporary() {
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts; ++i) {
    temporary_ = new_temporary_name(target_);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) fail("write", errno);
    // Another process may have removed the file as a leftover before it was locked.
    if (file_ >= 0 && (!lock_in_use(file_) || is_named(file_, temporary_))) return;
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }
  fail("write", EBUSY);
}

namespace {

// Starts writing a large chunk to disk while the next one is copied, so that the final flush is short.
void start_flush(int file, size_t from, size_t bytes) {
  constexpr size_t large = size_t{1} << 20;
  if (bytes >= large)
    (void)::sync_file_range(file, static_cast<off_t>(from), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

}  // namespace

void AtomicFile::put(std::string_view bytes) {
  int error = 0;
  const size_t before = written_;
  written_ += write_some(file_, bytes, error);
  if (error == 0) {
    start_flush(file_, before, written_ - before);
    return;
  }
  discard();
  std::string cause = fmt::format("{}, at byte {}", std::strerror(error), written_);
  if (place_of_) cause += ", " + place_of_(written_);
  raise_io(op_, "write", path_, cause.c_str(), where_);
}

void AtomicFile::put_buffer() {
  put(buffer_);
  buffer_.clear();
}

void AtomicFile::write(const void* data, size_t bytes) {
  const std::string_view given(static_cast<const char*>(data), bytes);
  if (buffer_.size() + bytes <= buffer_size) {
    buffer_ += given;
    return;
  }
  put_buffer();
  put(given);
}

void AtomicFile::flush() {
  put_buffer();
  buffer_.shrink_to_fit();
  if (::fsync(file_) != 0) fail("flush", errno);
}

void AtomicFile::write_over(size_t from, const void* data, size_t bytes) {
  put_buffer();
  for (size_t done = 0; done < bytes;) {
    const ssize_t written =
        ::pwrite(file_, static_cast<const char*>(data) + done, bytes - done, static_cast<off_t>(from + done));
    if (written < 0 && errno != EINTR) fail("write", errno);
    if (written > 0) done += static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  const std::string folder_name = folder_of(target_);
  flush();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("replace", errno);
  ::close(file_);
  file_ = -1;
  flush_folder(folder_name);  // makes the rename survive a power loss
}

void write_file(const Path& path, std::string_view text, const char* op, Location where) {
  AtomicFile file(path, op, where);
  file.write(text.data(), text.size());
  file.commit();
}

void check_writable(const Path& path, const char* op, Location where) { AtomicFile(path, op, where); }

// ---- growing --------------------------------------------------------------------------------------------------------

GrowingFile::GrowingFile(Path path, const char* op, Location where) : path_(std::move(path)), op_(op) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file_ < 0) raise_io(op_, "write", path_, errno, where);
}

GrowingFile::~GrowingFile() {
  int error = 0;
  write_some(file_, waiting_, error);
  ::close(file_);
}

void GrowingFile::flush(Location where) {
  int error = 0;
  waiting_.erase(0, write_some(file_, waiting_, error));
  if (error != 0) raise_io(op_, "write", path_, error, where);
}

}  // namespace weft::io
