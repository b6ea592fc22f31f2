#if WEFT_HAS_ZIP

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include <fmt/format.h>
#include <zip.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../file.hpp"
#include "zip-inl.hpp"

namespace weft::io {

namespace {

// Same as zlib's default and NumPy; libzip's default is 9.
constexpr zip_uint32_t deflate_level = 6;

// Stores an exception, which must not cross libzip's C frames.
struct Failure {
  std::exception_ptr cause;
  zip_error_t code;

  Failure() { zip_error_init(&code); }
  ~Failure() { zip_error_fini(&code); }

  template <class F>
  zip_int64_t guard(F&& f) {
    try {
      return f();
    } catch (...) {
      if (!cause) cause = std::current_exception();
      zip_error_set(&code, ZIP_ER_INTERNAL, 0);
      return -1;
    }
  }
  zip_int64_t tell(void* data, zip_uint64_t length) { return zip_error_to_data(&code, data, length); }
};

// The bytes of an item. Its tensor is copied to contiguous CPU memory only while libzip reads it.
class ItemSource {
 public:
  ItemSource(const ZipItem& item, Failure& failure, Location where) : item_(item), failure_(failure), where_(where) {}

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<ItemSource*>(self)->run(data, length, command);
  }

 private:
  zip_int64_t run(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        at_ = 0;
        return failure_.guard([&] {
          if (item_.tensor.defined()) dense_ = item_.tensor.to(Device(), where_).contiguous(where_);
          return zip_int64_t{0};
        });
      case ZIP_SOURCE_READ:
        return read(static_cast<char*>(data), length);
      case ZIP_SOURCE_CLOSE:
        dense_ = Tensor();
        return 0;
      case ZIP_SOURCE_STAT: {
        auto* status = static_cast<zip_stat_t*>(data);
        zip_stat_init(status);
        status->valid = ZIP_STAT_SIZE;
        status->size = item_.head.size() + bytes_of(item_.tensor);
        return sizeof(*status);
      }
      case ZIP_SOURCE_ERROR:
        return failure_.tell(data, length);
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_READABLE;
      default:
        return 0;
    }
  }
  static size_t bytes_of(const Tensor& tensor) { return tensor.defined() ? static_cast<size_t>(tensor.nbytes()) : 0; }
  zip_int64_t read(char* to, size_t room) {
    const std::string& head = item_.head;
    const size_t first = std::min(room, head.size() - std::min(at_, head.size()));
    if (first != 0) std::memcpy(to, head.data() + at_, first);
    at_ += first;
    const size_t rest = std::min(room - first, head.size() + bytes_of(dense_) - at_);
    if (rest != 0) std::memcpy(to + first, static_cast<const char*>(dense_.data_ptr()) + (at_ - head.size()), rest);
    at_ += rest;
    return static_cast<zip_int64_t>(first + rest);
  }

  const ZipItem& item_;
  Failure& failure_;
  Location where_;
  Tensor dense_;
  size_t at_ = 0;
};

// The bytes of an archive in memory, with the methods of AtomicFile.
struct ByteTarget {
  std::string bytes;

  void write(const char* data, size_t count) { bytes.append(data, count); }
  void write_over(size_t at, const char* data, size_t count) { bytes.replace(at, count, data, count); }
};

// The output. libzip seeks back to write sizes and checksums into headers.
template <class Output>
class ArchiveTarget {
 public:
  ArchiveTarget(Output& file, Failure& failure) : file_(file), failure_(failure) {}

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    return static_cast<ArchiveTarget*>(self)->run(data, length, command);
  }

 private:
  zip_int64_t run(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_WRITE:
        return failure_.guard([&] { return write(static_cast<const char*>(data), length); });
      case ZIP_SOURCE_SEEK_WRITE: {
        const zip_int64_t to = zip_source_seek_compute_offset(at_, size_, data, length, &failure_.code);
        if (to >= 0) at_ = static_cast<size_t>(to);
        return to >= 0 ? 0 : -1;
      }
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_ERROR:
        return failure_.tell(data, length);
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_WRITABLE;
      case ZIP_SOURCE_STAT:  // the archive does not exist yet
        zip_error_set(&failure_.code, ZIP_ER_READ, ENOENT);
        return -1;
      default:
        return 0;
    }
  }
  zip_int64_t write(const char* data, size_t bytes) {
    const size_t over = std::min(bytes, size_ - at_);
    if (over != 0) file_.write_over(at_, data, over);
    if (over != bytes) file_.write(data + over, bytes - over);
    at_ += bytes;
    size_ = std::max(size_, at_);
    return static_cast<zip_int64_t>(bytes);
  }

  Output& file_;
  Failure& failure_;
  size_t at_ = 0, size_ = 0;
};

// An archive that is discarded unless it was closed.
struct NewArchive {
  zip_t* zip = nullptr;

  template <class Output>
  NewArchive(ArchiveTarget<Output>& target, Failure& failure) {
    zip_source_t* source = zip_source_function_create(ArchiveTarget<Output>::call, &target, &failure.code);
    if (source != nullptr) zip = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &failure.code);
    if (zip != nullptr) return;
    if (source != nullptr) zip_source_free(source);
    raise<IoError>({.problem = fmt::format("cannot make an archive: {}", zip_error_strerror(&failure.code))});
  }
  ~NewArchive() {
    if (zip != nullptr) zip_discard(zip);
  }
  NewArchive(const NewArchive&) = delete;
};

void add_item(zip_t* zip, const ZipItem& item, ItemSource& bytes, bool compressed) {
  zip_source_t* source = zip_source_function(zip, ItemSource::call, &bytes);
  const zip_int64_t index = source == nullptr ? -1 : zip_file_add(zip, item.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    raise<IoError>({.problem = fmt::format("the archive takes no entry: {}", zip_strerror(zip))});
  }
  const auto at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t first_day_of_1980 = 0x21;
  const zip_int32_t method = compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
  if (zip_set_file_compression(zip, at, method, compressed ? deflate_level : 0) != 0 ||
      zip_file_set_dostime(zip, at, 0, first_day_of_1980, 0) != 0) {
    raise<IoError>({.problem = fmt::format("the archive takes no entry: {}", zip_strerror(zip))});
  }
}

template <class Output>
void write_items(Output& file, std::span<const ZipItem> items, bool compressed, const std::string& name,
                 Location where) {
  NoGradGuard unrecorded;
  // libzip would remove an archive without entries.
  if (items.empty()) return file.write("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
  Failure failure;
  ArchiveTarget target(file, failure);
  std::vector<ItemSource> sources;
  for (const ZipItem& item : items) sources.emplace_back(item, failure, where);
  NewArchive archive(target, failure);
  for (size_t i = 0; i < items.size(); ++i) add_item(archive.zip, items[i], sources[i], compressed);
  const bool closed = zip_close(archive.zip) == 0;
  if (failure.cause) std::rethrow_exception(failure.cause);
  if (!closed) {
    raise<IoError>({.problem = fmt::format("cannot write {}", name), .details = zip_strerror(archive.zip)});
  }
  archive.zip = nullptr;
}

}  // namespace

void write_zip(const Path& path, std::span<const ZipItem> items, bool compressed, const char* op, Location where) {
  const CallScope call(op, where);
  AtomicFile file(path, op, where);
  write_items(file, items, compressed, path.string(), where);
  file.commit();
}

std::string zip_bytes(std::span<const ZipItem> items, bool compressed, const char* op, Location where) {
  const CallScope call(op, where);
  ByteTarget target;
  write_items(target, items, compressed, "an archive in memory", where);
  return std::move(target.bytes);
}

}  // namespace weft::io

#endif
