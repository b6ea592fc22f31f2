#include "dispatch_log.hpp"

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nan_check.hpp"
#include "../../tensor/settings.hpp"

namespace weft {

namespace {

constinit thread_local std::optional<bool> thread_logs = {};
/// Whether a guard of this thread has the observer already.
constinit thread_local bool thread_observes = false;

class DispatchLog final : public KernelObserver {
 public:
  void before(const KernelCall& call) override {
    if (!thread_logs.value_or(true)) return;
    const std::string line = detail::dispatch_line(call);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
};

DispatchLog& the_log() {
  static auto* const log = new DispatchLog;
  return *log;
}

std::vector<std::string> texts_of(std::span<const View* const> views) {
  std::vector<std::string> out;
  for (const View* view : views) out.push_back(detail::shape_text(*view));
  return out;
}

}  // namespace

std::string detail::dispatch_line(const KernelCall& call) {
  return fmt::format("[dispatch] {}: {} {} <- {}{}\n", call.op == nullptr ? "no op" : call.op, call.kernel,
                     fmt::join(texts_of(call.outputs), ", "), fmt::join(texts_of(call.inputs), ", "),
                     call.where.known() ? fmt::format(", {}:{}", call.where.file(), call.where.line()) : "");
}

bool detail::logs_dispatch() {
  static const bool on = [] {
    const char* const said = setting("WEFT_LOG");
    if (said == nullptr || std::strcmp(said, "dispatch") != 0) return false;
    static auto* const guard = new ObserverGuard(the_log(), ObserverScope::process);
    return guard != nullptr;
  }();
  return on;
}

DispatchLogGuard::DispatchLogGuard(bool on) : outer_(std::exchange(thread_logs, on)) {
  if (!on || thread_observes || detail::logs_dispatch()) return;
  observer_.emplace(the_log());
  thread_observes = true;
}

DispatchLogGuard::~DispatchLogGuard() {
  thread_logs = outer_;
  if (observer_) thread_observes = false;
}

}  // namespace weft
