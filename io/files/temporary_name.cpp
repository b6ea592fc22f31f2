#include "temporary_name-inl.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "folder-inl.hpp"
#include "../../tensor/atomic.hpp"

namespace weft::io {

namespace {

constexpr std::string_view suffix = ".weft-tmp";
constexpr size_t digits = 16;

std::string name_in_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Prefix of a file's temporary names. Long names are truncated between characters, so that temporary names stay within
// the limit.
std::string prefix_of(const std::string& name) {
  size_t length = std::min<size_t>(name.size(), 200);
  while (length < name.size() && length > 0 && (static_cast<unsigned char>(name[length]) & 0xC0) == 0x80) --length;
  return name.substr(0, length) + '.';
}

uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number)) return number;
  static Atomic<uint64_t> count{0};
  const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (now + (count.fetch_add(1, MemoryOrder::relaxed) << 48)) ^ static_cast<uint64_t>(::getpid()) << 32;
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool is_temporary_name(std::string_view name, std::string_view prefix) {
  return name.size() == prefix.size() + digits + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
         name.substr(prefix.size(), digits).find_first_not_of("0123456789abcdef") == name.npos;
}

// Holds the lock while removing, so that no other process can start writing the file.
void remove_unless_in_use(int folder, const char* name) {
  const int file = ::openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat opened {
  }, named{};
  if (::fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && ::flock(file, LOCK_EX | LOCK_NB) == 0 &&
      ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && same_file(opened, named)) {
    ::unlinkat(folder, name, 0);
  }
  ::close(file);
}

}  // namespace

std::string new_temporary_name(const std::string& target) {
  return fmt::format("{}/{}{:016x}{}", folder_of(target), prefix_of(name_in_folder(target)), random_number(), suffix);
}

bool lock_in_use(int file) {
  int result = 0;
  while ((result = ::flock(file, LOCK_EX)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

bool is_named(int file, const std::string& name) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::lstat(name.c_str(), &named) == 0 && same_file(opened, named);
}

std::vector<std::string> temporary_names_of(const std::string& target) {
  const std::string prefix = prefix_of(name_in_folder(target));
  std::vector<std::string> names = names_in(folder_of(target));
  std::erase_if(names, [&](const std::string& name) { return !is_temporary_name(name, prefix); });
  return names;
}

void remove_leftovers(const std::string& target) {
  const int folder = ::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  for (const std::string& name : temporary_names_of(target)) remove_unless_in_use(folder, name.c_str());
  ::close(folder);
}

}  // namespace weft::io
