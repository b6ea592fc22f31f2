#include "program_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include <fmt/format.h>

#include "../../tensor/settings.hpp"

namespace weft::hpu {

namespace fs = std::filesystem;

namespace {

// A file: this, the key's length, the key, the program's length and digest, the program. Numbers as the machine has
// them, since programs are the machine's too.
constexpr char magic[8] = {'W', 'E', 'F', 'T', 'Z', 'E', '0', '1'};
constexpr size_t digest_digits = 32;
constexpr size_t key_limit = 4096;
constexpr const char* unfinished = ".unfinished";
constexpr auto unfinished_age = std::chrono::hours(1);

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  bool read(void* to, size_t bytes) {
    for (auto* at = static_cast<char*>(to); bytes > 0;) {
      const ssize_t got = ::read(descriptor_, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got, bytes -= static_cast<size_t>(got);
    }
    return true;
  }
  bool write(const void* from, size_t bytes) {
    for (auto* at = static_cast<const char*>(from); bytes > 0;) {
      const ssize_t put = ::write(descriptor_, at, bytes);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      at += put, bytes -= static_cast<size_t>(put);
    }
    return true;
  }

 private:
  const int descriptor_;
};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string new_name(const std::string& target) {
  static std::atomic<uint32_t> count{0};
  std::random_device random;
  return fmt::format("{}.{:08x}{:08x}{}", target, random(), count++, unfinished);
}

}  // namespace

std::string program_folder() {
  if (const char* own = detail::setting("WEFT_CACHE_DIR")) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); cache.starts_with('/')) return cache + "/weft";
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.cache/weft" : "";
}

// Two sums of FNV-1a's kind, over words of eight bytes and with the halves mixed as MurmurHash3 does at its end.
std::string digest(std::span<const uint8_t> bytes) {
  uint64_t a = 14695981039346656037u ^ bytes.size(), b = 0x9e3779b97f4a7c15u + bytes.size();
  const auto mix = [](uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
  };
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    a = mix(a ^ word) * 1099511628211u;
    b = mix(b + word) ^ (b << 7 | b >> 57);
  }
  return fmt::format("{:016x}{:016x}", mix(a), mix(b));
}

std::string ProgramFolder::file_of(const std::string& key) const { return path_ + "/" + digest(bytes_of(key)) + ".ze"; }

bool ProgramFolder::make_folder() const {
  std::error_code failed;
  fs::create_directories(path_, failed);
  return !failed;
}

std::optional<std::vector<uint8_t>> ProgramFolder::load(const std::string& key) {
  if (!keeps()) return {};
  File file(open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status;
  if (!file.open() || fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (status.st_uid != geteuid()) return {};  // others could have code run
  char start[sizeof magic];
  uint64_t key_bytes = 0, bytes = 0;
  if (!file.read(start, sizeof start) || std::memcmp(start, magic, sizeof magic) != 0) return {};
  if (!file.read(&key_bytes, sizeof key_bytes) || key_bytes != key.size() || key_bytes > key_limit) return {};
  std::string found(key.size(), '\0'), sum(digest_digits, '\0');
  if (!file.read(found.data(), found.size()) || found != key) return {};
  if (!file.read(&bytes, sizeof bytes) || !file.read(sum.data(), sum.size())) return {};
  const uint64_t before = sizeof magic + 2 * sizeof bytes + key.size() + sum.size();
  if (bytes != static_cast<uint64_t>(status.st_size) - before) return {};
  std::vector<uint8_t> program(bytes);
  if (!file.read(program.data(), program.size()) || digest(program) != sum) return {};
  futimens(file.descriptor(), nullptr);
  return program;
}

void ProgramFolder::store(const std::string& key, std::span<const uint8_t> program) {
  if (!keeps() || program.empty() || program.size() > limit_ || key.size() > key_limit || !make_folder()) return;
  const std::string target = file_of(key), temporary = new_name(target);
  bool whole = false;
  {
    File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.open()) return;
    const uint64_t key_bytes = key.size(), bytes = program.size();
    const std::string sum = digest(program);
    whole = file.write(magic, sizeof magic) && file.write(&key_bytes, sizeof key_bytes) &&
            file.write(key.data(), key.size()) && file.write(&bytes, sizeof bytes) &&
            file.write(sum.data(), sum.size()) && file.write(program.data(), program.size());
  }
  if (!whole || rename(temporary.c_str(), target.c_str()) != 0) {
    unlink(temporary.c_str());
    return;
  }
  make_room(program.size());
}

void ProgramFolder::make_room(size_t added) {
  const std::lock_guard lock(mutex_);
  if (bytes_ && (*bytes_ += added) <= limit_) return;
  struct Program {
    fs::file_time_type used;
    size_t bytes;
    fs::path path;
  };
  std::vector<Program> programs;
  size_t total = 0;
  std::error_code failed;
  for (fs::directory_iterator entry(path_, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code gone;
    const fs::path& path = entry->path();
    const auto used = fs::last_write_time(path, gone);
    const size_t bytes = gone ? 0 : fs::file_size(path, gone);
    if (gone) continue;
    if (path.extension() == unfinished) {  // of a process that was killed, once it is old
      if (fs::file_time_type::clock::now() - used > unfinished_age) fs::remove(path, gone);
    } else if (path.extension() == ".ze") {
      programs.push_back({used, bytes, path});
      total += bytes;
    }
  }
  std::sort(programs.begin(), programs.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  // A quarter more than is needed, so that the next programs find room without another look.
  const size_t wanted = total > limit_ ? limit_ / 4 * 3 : limit_;
  for (const Program& program : programs) {
    if (total <= wanted) break;
    std::error_code gone;
    if (fs::remove(program.path, gone) || gone) total -= program.bytes;
  }
  bytes_ = total;
}

}  // namespace weft::hpu
