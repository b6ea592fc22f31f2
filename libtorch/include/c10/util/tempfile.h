// Temporary files and folders that are deleted with the object.
#pragma once

#include <string>

#include <c10/util/Optional.h>

namespace c10 {

struct TempFile {
  explicit TempFile(std::string name_) : name(std::move(name_)) {}
  TempFile(TempFile&& other) noexcept : name(std::exchange(other.name, {})) {}
  TempFile(const TempFile&) = delete;
  ~TempFile();
  std::string name;
};
struct TempDir {
  explicit TempDir(std::string name_) : name(std::move(name_)) {}
  TempDir(TempDir&& other) noexcept : name(std::exchange(other.name, {})) {}
  TempDir(const TempDir&) = delete;
  ~TempDir();
  std::string name;
};

/// Creates an empty file in the folder for temporary files. Raises IoError if that fails.
TempFile make_tempfile(std::string prefix = "torch-file-");
optional<TempFile> try_make_tempfile(std::string prefix = "torch-file-");
TempDir make_tempdir(std::string prefix = "torch-dir-");
optional<TempDir> try_make_tempdir(std::string prefix = "torch-dir-");

}  // namespace c10
