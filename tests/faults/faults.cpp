// Every k-th request for memory fails: nothing leaks, nothing is half written, the process lives, and afterwards the
// same works.
//
// usage: faults [--seconds N] [--only SCENARIO [--once K | --from K | --every K]]
//
// Without --seconds each scenario is gone through once, request by request, in a process of its own. With it, kinds of
// faults, scenarios and places are drawn at random until the time is over. The last three run one fault alone.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <random>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "faults/failing_memory.hpp"
#include "faults/scenario.hpp"

namespace {

using namespace weft;
using namespace weft::faults;

constexpr const char* kind_names[] = {"once", "from", "every"};

struct InUse {
  int64_t tensors = detail::live_tensors();
  int64_t bytes = static_cast<int64_t>(memory_stats().allocated);
  int64_t blocks = blocks_in_use();
};

std::string leaked(const char* what, int64_t count) { return std::to_string(count) + " " + what + " leaked"; }

// True where a request failed.
bool run_once(const Kind& kind, Fault fault) {
  const std::unique_ptr<Scenario> scenario = kind.make();
  bool failed = false, reached = false;
  {
    const FailingMemory memory(fault);
    try {
      scenario->act();
    } catch (const OutOfMemoryError&) {
      failed = true;
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    reached = memory.failures() > 0;
  }
  require(reached || !failed, "it failed though there was memory");
  scenario->check(failed);
  return reached;
}

// Caches may keep memory the first time, so only growth in the second run is a leak.
bool run(const Kind& kind, Fault fault) {
  for (int attempt = 0;; ++attempt) {
    const InUse before;
    const bool reached = run_once(kind, fault);
    const InUse after;
    if (!free_lists_are_sound()) {
      std::printf("FAILED: %s, --%s %lld: a block was freed twice\n", kind.name, kind_names[fault.kind],
                  static_cast<long long>(fault.k));
      std::_Exit(1);
    }
    require(after.tensors == before.tensors, leaked("tensors", after.tensors - before.tensors));
    require(after.bytes == before.bytes, leaked("bytes of elements", after.bytes - before.bytes));
    if (after.blocks <= before.blocks) return reached;
    require(attempt < 3, leaked("blocks", after.blocks - before.blocks));
  }
}

// Runs the fault and prints errors; returns false after an error.
bool passes(const Kind& kind, Fault fault, bool& reached) {
  try {
    reached = run(kind, fault);
    return true;
  } catch (const std::exception& error) {
    std::printf("FAILED: %s, --%s %lld: %s\n", kind.name, kind_names[fault.kind], static_cast<long long>(fault.k),
                error.what());
    return false;
  }
}

// Every request of the scenario, alone, with all that follow and with its multiples; of many, fewer the further on.
int go_through(const Kind& kind) {
  int wrong = 0, count = 0;
  for (const Fault::Kind how : {Fault::once, Fault::after, Fault::every}) {
    bool reached = true;
    for (int64_t k = 1; reached && wrong < 10; k += 1 + k / 100, ++count) {
      if (!passes(kind, {how, k}, reached)) ++wrong;
    }
  }
  std::printf("%-22s %6d faults, %d wrong\n", kind.name, count, wrong);
  return wrong;
}

/// Runs a scenario in a process of its own: the faults of many in one fragment its heap until it is slow.
int go_through_apart(const Kind& kind, const char* program) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", program, "--only", kind.name, nullptr);
    std::_Exit(127);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int draw(const std::vector<Kind>& kinds, double seconds) {
  std::mt19937_64 random(std::random_device{}());
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int wrong = 0;
  long long count = 0;
  for (; std::chrono::steady_clock::now() < end && wrong < 10; ++count) {
    const Kind& kind = kinds[random() % kinds.size()];
    const Fault fault{static_cast<Fault::Kind>(random() % 3),
                      static_cast<int64_t>(1 + random() % (1 << random() % 12))};
    bool reached;
    if (!passes(kind, fault, reached)) ++wrong;
  }
  std::printf("%lld faults, %d wrong\n", count, wrong);
  return wrong;
}

}  // namespace

int main(int count, char** arguments) {
  double seconds = 0;
  std::optional<Fault> fault;
  std::vector<Kind> kinds = scenarios();
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(arguments[i], "--seconds") == 0) seconds = std::atof(arguments[i + 1]);
    else if (std::strcmp(arguments[i], "--only") == 0)
      std::erase_if(kinds, [&](const Kind& kind) { return std::strcmp(kind.name, arguments[i + 1]) != 0; });
    for (int how = 0; how < 3; ++how) {
      if (std::string("--") + kind_names[how] == arguments[i])
        fault = {static_cast<Fault::Kind>(how), std::atoll(arguments[i + 1])};
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int wrong = 0;
  bool reached;
  if (fault) wrong = passes(kinds.at(0), *fault, reached) ? 0 : 1;
  else if (seconds > 0) wrong = draw(kinds, seconds);
  else if (kinds.size() == 1) wrong = go_through(kinds[0]);
  else
    for (const Kind& kind : kinds) wrong += go_through_apart(kind, arguments[0]);
  return wrong == 0 && !kinds.empty() ? 0 : 1;
}
