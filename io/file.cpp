#include <weft/io/file.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace weft::io {

namespace {

[[noreturn]] void raise_io(const char* op, const char* action, const Path& path, int code, Location where) {
  raise<IoError>(
      {.op = op, .problem = fmt::format("cannot {} {}", action, path.string()), .details = std::strerror(code)}, where);
}

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

// Opens a regular file for reading and tells its size.
Descriptor open_regular(const Path& path, const char* op, size_t& size, Location where) {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0) raise_io(op, "open", path, errno, where);
  struct stat status {};
  const bool told = ::fstat(number, &status) == 0;
  if (!told || !S_ISREG(status.st_mode)) {
    const int code = !told ? errno : (S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    ::close(number);
    raise_io(op, "read", path, code, where);
  }
  size = static_cast<size_t>(status.st_size);
  return {number};
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const Path& path, const char* op, Location where) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  const Descriptor descriptor = open_regular(path, op, file->size_, where);
  if (file->size_ == 0) return file;
  void* data = ::mmap(nullptr, file->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.number, 0);
  if (data == MAP_FAILED) raise_io(op, "map", path, errno, where);
  file->data_ = static_cast<std::byte*>(data);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

AtomicFile::AtomicFile(Path path, const char* op, Location where) : path_(std::move(path)), op_(op), where_(where) {
  static std::atomic<unsigned> count{0};
  temporary_ = fmt::format("{}.{}.{}.tmp", path_.string(), ::getpid(), count++);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) raise_io(op_, "write", path_, errno, where_);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) { raise_io(op_, action, path_, errno, where_); }

void AtomicFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    from += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace");
  ::close(file_);
  file_ = -1;
}

void write_file(const Path& path, std::string_view text, const char* op, Location where) {
  AtomicFile file(path, op, where);
  file.write(text.data(), text.size());
  file.commit();
}

std::string read_file(const Path& path, const char* op, Location where) {
  size_t size = 0;
  const Descriptor descriptor = open_regular(path, op, size, where);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(descriptor.number, text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) raise_io(op, "read", path, errno, where);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace weft::io
