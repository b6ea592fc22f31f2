#include "folder-inl.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace weft::io {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> checked_names_in(const Path& folder, const char* op, Location where) {
  if (::access(folder.c_str(), R_OK | X_OK) == 0) return names_in(folder.string());
  raise<IoError>({.op = op, .problem = fmt::format("cannot list {}", folder.string()), .details = std::strerror(errno)},
                 where);
}

bool exists(const Path& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_folder(const Path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_link(const Path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

bool is_empty_folder(const Path& path, const char* op, Location where) {
  return is_folder(path) && checked_names_in(path, op, where).empty();
}

int64_t size_of_file(const Path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? static_cast<int64_t>(status.st_size) : -1;
}

void remove_file(const Path& path, const char* op, Location where) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return;
  raise<IoError>({.op = op, .problem = fmt::format("cannot remove {}", path.string()), .details = std::strerror(errno)},
                 where);
}

bool make_new_folder(const Path& path, const char* op, Location where) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  const int code = errno;
  if (exists(path)) return false;
  raise<IoError>(
      {.op = op, .problem = fmt::format("cannot make the folder {}", path.string()), .details = std::strerror(code)},
      where);
}

void make_folder(const Path& path, const char* op, Location where) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.string().find('/', end + 1);
    const Path part = path.string().substr(0, end);
    if (make_new_folder(part, op, where) || is_folder(part)) continue;
    raise<IoError>(
        {.op = op, .problem = fmt::format("cannot make the folder {}", part.string()), .details = "it is no folder"},
        where);
  }
}

bool follow_links(const std::string& path, std::string& target, int& error) {
  constexpr int most_links = 40;
  target = path;
  error = path.empty() ? ENOENT : ELOOP;
  for (int i = 0; i < most_links && !path.empty(); ++i) {
    std::vector<char> link(4096);
    const ssize_t length = ::readlink(target.c_str(), link.data(), link.size());
    if (length < 0) return true;
    const std::string to(link.data(), static_cast<size_t>(length));
    target = to.starts_with('/') ? to : folder_of(target) + "/" + to;
  }
  return false;
}

void flush_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  (void)::fsync(folder);
  ::close(folder);
}

}  // namespace weft::io
