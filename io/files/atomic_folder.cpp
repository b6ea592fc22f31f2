#include "atomic_folder-inl.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "folder-inl.hpp"
#include "temporary_name-inl.hpp"

namespace weft::io {

namespace {

int open_folder(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// Must not allocate: called in destructors.
void remove_at(int holder, const char* name) noexcept {
  if (::unlinkat(holder, name, 0) == 0) return;
  const int inside = ::openat(holder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (inside < 0) return;
  if (DIR* folder = ::fdopendir(inside)) {
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view found = entry->d_name;
      if (found != "." && found != "..") remove_at(inside, entry->d_name);
    }
    ::closedir(folder);
  } else {
    ::close(inside);
  }
  ::unlinkat(holder, name, AT_REMOVEDIR);
}

void remove_with_files(const std::string& path) noexcept { remove_at(AT_FDCWD, path.c_str()); }

void remove_left_folders(const std::string& target) {
  for (const std::string& name : temporary_names_of(target)) {
    const std::string path = folder_of(target) + '/' + name;
    const int folder = open_folder(path);
    if (folder < 0) continue;
    if (::flock(folder, LOCK_EX | LOCK_NB) == 0 && is_named(folder, path)) remove_with_files(path);
    ::close(folder);
  }
}

}  // namespace

void remove_folder(const Path& path) {
  const std::string hidden = new_temporary_name(path.string());
  if (::rename(path.c_str(), hidden.c_str()) == 0) remove_with_files(hidden);
}

namespace {

// Removes trailing slashes, "runs/a" for "runs/a/", so that names next to the folder can be formed.
std::string without_slashes(const Path& path) {
  std::string name = path.string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name;
}

}  // namespace

AtomicFolder::AtomicFolder(const Path& path, const char* op, Location where)
    : path_(without_slashes(path)), op_(op), where_(where) {
  remove_left_folders(path_.string());
  // Until it is locked, another writer may remove it as a leftover, so check and retry.
  while (lock_ < 0) {
    temporary_ = new_temporary_name(path_.string());
    if (::mkdir(temporary_.c_str(), 0777) != 0) fail("write", errno);
    lock_ = open_folder(temporary_.string());
    if (lock_ < 0 && errno != ENOENT) fail("write", errno);
    if (lock_ < 0) continue;
    (void)lock_in_use(lock_);
    if (is_named(lock_, temporary_.string())) return;
    ::close(std::exchange(lock_, -1));
  }
}

AtomicFolder::~AtomicFolder() {
  if (!temporary_.empty()) remove_with_files(temporary_.string());
  if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::fail(const char* action, int code) {
  raise<IoError>(
      {.op = op_, .problem = fmt::format("cannot {} {}", action, path_.string()), .details = std::strerror(code)},
      where_);
}

// Exchanges an existing folder with the new one atomically, if the file system supports it.
bool AtomicFolder::take_name() {
  const char *from = temporary_.c_str(), *to = path_.c_str();
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return true;
  if (errno != ENOENT) remove_folder(path_);
  if (::rename(from, to) != 0) return false;
  temporary_ = {};
  return true;
}

void AtomicFolder::commit() {
  flush_folder(temporary_.string());
  const std::string holder = folder_of(path_.string());  // opened before the rename, since nothing may fail after it
  constexpr int most_attempts = 1000;                    // other writers may create the folder between two steps
  for (int attempt = 1; !take_name(); ++attempt) {
    const bool exists_already = errno == ENOTEMPTY || errno == EEXIST;
    if (!exists_already || attempt == most_attempts) fail("replace", errno);
  }
  flush_folder(holder);
}

}  // namespace weft::io
