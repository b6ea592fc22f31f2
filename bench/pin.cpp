#include "pin.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace weft::bench {

#if defined(__linux__)

struct Pin::Threads {
  struct Thread {
    pid_t id;
    cpu_set_t allowed;
  };
  std::vector<Thread> list;
};

namespace {

std::vector<pid_t> threads_of_process() {
  std::vector<pid_t> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = entry.path().filename();
    pid_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc()) ids.push_back(id);
  }
  return ids;
}

/// `count` cores of `allowed`, starting at the current core.
cpu_set_t some_of(const cpu_set_t& allowed, int count) {
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  const int first = std::max(sched_getcpu(), 0);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&chosen) < count; ++i) {
    const int core = (first + i) % CPU_SETSIZE;
    if (CPU_ISSET(core, &allowed)) CPU_SET(core, &chosen);
  }
  return chosen;
}

}  // namespace

Pin::Pin(int cores) : moved_(std::make_unique<Threads>()) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  holds_ = CPU_COUNT(&allowed) <= cores;
  if (holds_) return;
  const cpu_set_t chosen = some_of(allowed, cores);
  for (const pid_t id : threads_of_process()) {
    Threads::Thread thread{.id = id, .allowed = {}};
    if (sched_getaffinity(id, sizeof thread.allowed, &thread.allowed) != 0) continue;
    if (sched_setaffinity(id, sizeof chosen, &chosen) == 0) moved_->list.push_back(thread);
  }
  holds_ = !moved_->list.empty();
}
Pin::~Pin() {
  for (const Threads::Thread& thread : moved_->list)
    sched_setaffinity(thread.id, sizeof thread.allowed, &thread.allowed);
}

#else

struct Pin::Threads {};
Pin::Pin(int) {}
Pin::~Pin() = default;

#endif

}  // namespace weft::bench
