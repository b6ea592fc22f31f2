#include "zip-inl.hpp"

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../json/utf8-inl.hpp"

namespace weft::io {

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::string ZipReader::read(const ZipEntry& entry) const {
  std::string bytes(entry.size, '\0');
  ZipStream stream(*this, entry);
  stream.read(bytes.data(), bytes.size());
  stream.finish();
  return bytes;
}

void ZipReader::fail(std::string problem, std::string remedy) const {
  raise<FormatError>({.op = op_, .problem = std::move(problem), .details = path_, .remedy = std::move(remedy)}, where_);
}

void ZipStream::fail(const char* cause) const {
  archive_.fail(fmt::format("the entry {} is damaged: {}", quoted(entry_.name), cause));
}

#if !WEFT_HAS_ZIP

namespace {

[[noreturn]] void raise_without_libzip(const char* op, Location where) {
  raise<IoError>({.op = op,
                  .problem = "this build of Weft reads and writes no zip archives",
                  .remedy = "install libzip (Debian: libzip-dev) and build with -DWEFT_WITH_ZIP=ON"},
                 where);
}

}  // namespace

struct ZipReader::Archive {};
ZipReader::ZipReader(const Path&, const char* op, Location where) : op_(op), where_(where) {
  raise_without_libzip(op, where);
}
ZipReader::ZipReader(std::span<const std::byte>, std::string, const char* op, Location where) : op_(op), where_(where) {
  raise_without_libzip(op, where);
}
ZipStream::ZipStream(const ZipReader& archive, const ZipEntry& entry) : archive_(archive), entry_(entry) {
  raise_without_libzip(archive.op(), archive.where());
}
ZipStream::~ZipStream() = default;
void ZipStream::read(void*, size_t) { raise_without_libzip(archive_.op(), archive_.where()); }
void ZipStream::finish() { raise_without_libzip(archive_.op(), archive_.where()); }
void write_zip(const Path&, std::span<const ZipItem>, bool, const char* op, Location where) {
  raise_without_libzip(op, where);
}
std::string zip_bytes(std::span<const ZipItem>, bool, const char* op, Location where) {
  raise_without_libzip(op, where);
}

#endif

}  // namespace weft::io
