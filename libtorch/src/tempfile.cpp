#include <c10/util/tempfile.h>

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <weft/tensor/error.hpp>

namespace c10 {

namespace {
std::string pattern(const std::string& prefix) {
  return (std::filesystem::temp_directory_path() / (prefix + "XXXXXX")).string();
}
}  // namespace

TempFile::~TempFile() {
  std::error_code ignored;
  if (!name.empty()) std::filesystem::remove(name, ignored);
}
TempDir::~TempDir() {
  std::error_code ignored;
  if (!name.empty()) std::filesystem::remove_all(name, ignored);
}
optional<TempFile> try_make_tempfile(std::string prefix) {
  std::string name = pattern(prefix);
  const int file = mkstemp(name.data());
  if (file == -1) return nullopt;
  close(file);
  return TempFile(std::move(name));
}
TempFile make_tempfile(std::string prefix) {
  if (auto file = try_make_tempfile(prefix)) return std::move(*file);
  throw weft::IoError("[make_tempfile] cannot create a file with prefix " + prefix);
}
optional<TempDir> try_make_tempdir(std::string prefix) {
  std::string name = pattern(prefix);
  if (mkdtemp(name.data()) == nullptr) return nullopt;
  return TempDir(std::move(name));
}
TempDir make_tempdir(std::string prefix) {
  if (auto folder = try_make_tempdir(prefix)) return std::move(*folder);
  throw weft::IoError("[make_tempdir] cannot create a folder with prefix " + prefix);
}

}  // namespace c10
