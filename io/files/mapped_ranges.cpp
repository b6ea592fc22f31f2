#include "mapped_ranges-inl.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../file.hpp"

namespace weft::io {

namespace {

constexpr size_t longest_name = 512;

struct Range {
  std::atomic<uintptr_t> begin = 0;  // 0 if the entry is free
  std::atomic<size_t> bytes = 0;
  std::atomic<uintptr_t> lost_from = 0;  // the first page that was replaced by zeros; 0 if there is none
  std::array<char, longest_name> name{};
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t number = 0;
};

// The signal handler reads these without the lock; all other code holds it.
constinit std::array<Range, 1024> ranges{};
constinit std::atomic<size_t> used_ranges = 0;  // one past the last used entry
constinit std::atomic<int> scopes = 0;
constinit std::atomic<uint64_t> losses = 0;
constinit uint64_t remembered = 0;  // guarded by `lock`
constinit std::array<char, longest_name> lost_name{};
constinit std::mutex lock;

Range* range_of(uintptr_t address) {
  const size_t count = used_ranges;
  for (size_t i = 0; i < count; ++i) {
    const uintptr_t begin = ranges[i].begin;
    if (begin != 0 && address >= begin && address - begin < ranges[i].bytes) return &ranges[i];
  }
  return nullptr;
}

void note_loss(const Range& range) {
  std::memcpy(lost_name.data(), range.name.data(), longest_name);
  ++losses;
}

// The rest of the file's last page reads as zeros without a signal.
bool is_cut(const Range& range) {
  struct stat now {};
  return ::stat(range.name.data(), &now) == 0 && now.st_dev == range.device && now.st_ino == range.inode &&
         static_cast<uint64_t>(now.st_size) < range.bytes;
}

void say(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

struct sigaction before {};

void on_bus_error(int signal, siginfo_t* info, void*) {
  if (recover_range(signal, info)) return;
  if (const Range* range = info->si_code > 0 ? range_of(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr) {
    say("weft: another program cut a mapped file short: ");
    say(range->name.data());
    say("\n  files that may change are loaded with mmap=false\n");
  }
  static std::atomic<bool> was_passed_on = false;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, was_passed_on.exchange(true) ? &standard : &before, nullptr);
  if (info->si_code <= 0) ::raise(signal);  // a fault is raised again by its instruction
}

void watch_bus_errors() {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
  before = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

size_t remember_range(std::byte* data, size_t bytes, const Path& path, const struct stat& file) {
  const std::lock_guard guard(lock);
  const auto free = std::ranges::find_if(ranges, [](const Range& r) { return r.begin == 0; });
  if (free == ranges.end() || path.string().size() >= longest_name) return no_range;
  std::ranges::copy(path.string(), free->name.begin());
  free->name[path.string().size()] = 0;
  free->device = file.st_dev, free->inode = file.st_ino;
  free->number = remembered++;
  free->bytes = bytes;
  free->lost_from = 0;
  free->begin = reinterpret_cast<uintptr_t>(data);
  const auto number = static_cast<size_t>(free - ranges.begin());
  used_ranges = std::max<size_t>(used_ranges, number + 1);
  watch_bus_errors();
  return number;
}

void forget_range(size_t number) {
  if (number == no_range) return;
  const std::lock_guard guard(lock);
  if (scopes > 0 && is_cut(ranges[number])) note_loss(ranges[number]);
  ranges[number].begin = 0;
}

bool recover_range(int signal, const siginfo_t* info) {
  if (signal != SIGBUS || info->si_code <= 0 || scopes == 0) return false;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  Range* range = range_of(address);
  if (range == nullptr) return false;
  // All pages from this one on are lost.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = address / page * page;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  void* const from = reinterpret_cast<void*>(first);  // NOLINT(performance-no-int-to-ptr): a fault's address
  if (::mmap(from, range->begin + range->bytes - first, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    return false;
  }
  const uintptr_t before = range->lost_from;
  if (before == 0 || first < before) range->lost_from = first;
  note_loss(*range);
  return true;
}

namespace {

// Maps pages that raise SIGBUS in place of zeros, because views of the file may outlive the scope.
void take_zeros_away(Range& range) {
  static const int empty_file = ::memfd_create("weft", MFD_CLOEXEC);
  const uintptr_t from = range.lost_from.exchange(0);
  const size_t bytes = range.begin + range.bytes - from;
  void* const pages = reinterpret_cast<void*>(from);  // NOLINT(performance-no-int-to-ptr): a fault's address
  constexpr int flags = MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED;
  const bool is_mapped =
      empty_file >= 0 && ::mmap(pages, bytes, PROT_READ | PROT_WRITE, flags, empty_file, 0) != MAP_FAILED;
  if (!is_mapped) (void)::mprotect(pages, bytes, PROT_NONE);
}

}  // namespace

ReadScope::ReadScope() {
  const std::lock_guard guard(lock);
  watch_bus_errors();
  ++scopes;
  losses_ = losses, first_range_ = remembered;
}

ReadScope::~ReadScope() {
  const std::lock_guard guard(lock);
  if (--scopes > 0) return;
  for (size_t i = 0; i < used_ranges; ++i) {
    if (ranges[i].begin != 0 && ranges[i].lost_from != 0) take_zeros_away(ranges[i]);
  }
}

void ReadScope::check(const char* op, Location where) const {
  std::string name;
  {
    const std::lock_guard guard(lock);
    const auto end = ranges.begin() + static_cast<ptrdiff_t>(used_ranges.load());
    const auto cut = std::find_if(
        ranges.begin(), end, [&](const Range& r) { return r.begin != 0 && r.number >= first_range_ && is_cut(r); });
    if (cut != end) note_loss(*cut);
    if (losses != losses_) name = lost_name.data();
  }
  if (name.empty()) return;
  raise<IoError>({.op = op,
                  .problem = fmt::format("another program cut {} short while it was read", name),
                  .remedy = "write a new file and rename it, or load with mmap=false"},
                 where);
}

}  // namespace weft::io
