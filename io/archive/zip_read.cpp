#if WEFT_HAS_ZIP

#include <array>

#include <fmt/format.h>
#include <zip.h>

#include "../../tensor/checked.hpp"
#include "../../tensor/error.hpp"
#include "../file.hpp"
#include "../json/utf8-inl.hpp"
#include "zip-inl.hpp"

namespace weft::io {

// libzip reads from the mapped file, so a stored entry is copied only once, into its tensor.
struct ZipReader::Archive {
  MappedFile file;  ///< unless the bytes are the caller's
  std::span<const std::byte> bytes;
  zip_t* zip = nullptr;

  explicit Archive(MappedFile mapped) : file(std::move(mapped)), bytes(file.bytes()) {}
  explicit Archive(std::span<const std::byte> bytes_) : bytes(bytes_) {}
  ~Archive() {
    if (zip != nullptr) zip_discard(zip);
  }
};

namespace {

// Deflate packs at most 258 bytes into two bits, plus a few bytes.
constexpr int64_t largest_ratio = 1032, slack = 64;

std::string problem_of(zip_error_t& error) {
  const int code = zip_error_code_zip(&error);
  if (code == ZIP_ER_NOZIP) return "not a valid zip archive";
  if (code == ZIP_ER_EXISTS) return "two entries of the archive have one name";
  return fmt::format("not a valid zip archive: {}", zip_error_strerror(&error));
}

zip_t* open_zip(std::span<const std::byte> bytes, std::string& problem) {
  // libzip would accept an empty file as an empty archive.
  if (bytes.empty()) {
    problem = "not a valid zip archive: the file is empty";
    return nullptr;
  }
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* zip = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (zip == nullptr) {
    if (source != nullptr) zip_source_free(source);
    problem = problem_of(error);
  }
  zip_error_fini(&error);
  return zip;
}

const char* problem_of(const zip_stat_t& entry, size_t file_size) {
  constexpr auto needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  const bool stored = entry.comp_method == ZIP_CM_STORE;
  if ((entry.valid & needed) != needed) return "has no size";
  if (entry.encryption_method != ZIP_EM_NONE) return "is encrypted";
  if (!stored && entry.comp_method != ZIP_CM_DEFLATE) return "is neither stored nor deflated";
  if (entry.comp_size > file_size) return "is larger than the file";
  if (stored && entry.size != entry.comp_size) return "is stored with two sizes";
  const Checked size_limit = Checked(static_cast<int64_t>(entry.comp_size)) * largest_ratio + slack;
  const bool fits = size_limit.fits() && entry.size <= static_cast<uint64_t>(size_limit.value());
  return fits ? nullptr : "claims to be larger than its packed bytes can be";
}

}  // namespace

ZipReader::ZipReader(const Path& path, const char* op, Location where) : path_(path.string()), op_(op), where_(where) {
  archive_ = Shared<Archive>::make(MappedFile::open(path, op, where));
  open();
}

ZipReader::ZipReader(std::span<const std::byte> bytes, std::string name, const char* op, Location where)
    : path_(std::move(name)), op_(op), where_(where), archive_(Shared<Archive>::make(bytes)) {
  open();
}

void ZipReader::open() {
  std::string problem;
  archive_->zip = open_zip(archive_->bytes, problem);
  if (archive_->zip == nullptr) fail(problem);
  check_entries();
  for (const ZipEntry& entry : entries_) {
    if (!by_name_.emplace(entry.name, &entry).second) fail(fmt::format("two entries {}", quoted(entry.name)));
  }
}

void ZipReader::check_entries() {
  const size_t file_size = archive_->bytes.size();
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(archive_->zip, 0));
  Checked packed = 0;
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t entry;
    zip_stat_init(&entry);
    if (zip_stat_index(archive_->zip, i, 0, &entry) != 0 || entry.name == nullptr) fail("an entry without a name");
    if (const char* problem = problem_of(entry, file_size)) {
      fail(fmt::format("the entry {} {}", quoted(entry.name), problem));
    }
    packed += static_cast<int64_t>(entry.comp_size);
    entries_.push_back({entry.name, i, entry.size});
  }
  if (!packed.fits() || packed.value() > static_cast<int64_t>(file_size)) fail("the archive's entries overlap");
}

ZipStream::ZipStream(const ZipReader& archive, const ZipEntry& entry)
    : archive_(archive), entry_(entry), left_(entry.size) {
  zip_t* zip = archive.archive_->zip;
  file_ = zip_fopen_index(zip, entry.index, 0);
  if (file_ == nullptr) fail(zip_strerror(zip));
}

ZipStream::~ZipStream() { zip_fclose(static_cast<zip_file_t*>(file_)); }

void ZipStream::read(void* to, size_t bytes) {
  auto* file = static_cast<zip_file_t*>(file_);
  if (bytes > left_) fail("it ends too early");
  left_ -= bytes;
  for (size_t done = 0; done < bytes;) {
    const zip_int64_t got = zip_fread(file, static_cast<char*>(to) + done, bytes - done);
    if (got <= 0) fail(got < 0 ? zip_file_strerror(file) : "it ends too early");
    done += static_cast<size_t>(got);
  }
}

void ZipStream::finish() {
  auto* file = static_cast<zip_file_t*>(file_);
  std::array<char, 4096> rest;
  zip_int64_t got = 0;
  while ((got = zip_fread(file, rest.data(), rest.size())) > 0) {
    if (static_cast<zip_uint64_t>(got) > left_) fail("it is larger than it claims");
    left_ -= static_cast<zip_uint64_t>(got);
  }
  if (got < 0) fail(zip_file_strerror(file));
  if (left_ != 0) fail("it ends too early");
}

}  // namespace weft::io

#endif
