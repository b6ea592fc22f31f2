#include "profile.hpp"

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rules.hpp"

namespace stub {

namespace {

/// The host's profile events and the work that ran meanwhile.
struct Profile {
  std::mutex mutex;
  bool initialised = false, prepared = false, runs = false;
  int open = 0;  ///< spans, of all threads
  std::string told;
  struct Span {
    std::string name;
    WeftStream stream;
    uint64_t begin, end;
  };
  std::vector<Span> spans;
} profile;

/// The spans' depth is the thread's.
thread_local int span_depth = 0;
void tell(const std::string& line) { profile.told += std::string(static_cast<size_t>(span_depth), ' ') + line + "\n"; }

int profiler_initialize() {
  ENTER(profiler_initialize);
  const std::lock_guard lock(profile.mutex);
  require(!std::exchange(profile.initialised, true), "the profiler was initialised twice");
  tell("initialize");
  return WEFT_OK;
}
int profiler_prepare() {
  ENTER(profiler_prepare);
  const std::lock_guard lock(profile.mutex);
  require(profile.initialised && !profile.runs, "the profiler was prepared before it was initialised, or while it ran");
  profile.prepared = true;
  tell("prepare");
  return WEFT_OK;
}
int profiler_start() {
  ENTER(profiler_start);
  const std::lock_guard lock(profile.mutex);
  require(std::exchange(profile.prepared, false) && !std::exchange(profile.runs, true),
          "the profiler was not prepared");
  profile.spans.clear();
  tell("start");
  return WEFT_OK;
}
int profiler_stop() {
  ENTER(profiler_stop);
  const std::lock_guard lock(profile.mutex);
  require(std::exchange(profile.runs, false), "the profiler was stopped and does not run");
  require(profile.open == 0, "the profiler was stopped within a span");
  tell("stop");
  return WEFT_OK;
}
int profiler_collect(WeftSpan tell_span, void* data) {
  ENTER(profiler_collect);
  const std::lock_guard lock(profile.mutex);
  require(profile.initialised && !profile.runs, "a profile was collected before its end");
  tell("collect");
  for (const Profile::Span& s : profile.spans) tell_span(data, s.name.c_str(), s.stream, s.begin, s.end);
  if (garbage("backward_span")) tell_span(data, "late", nullptr, 2, 1);
  return WEFT_OK;
}
int profiler_finalize() {
  ENTER(profiler_finalize);
  const std::lock_guard lock(profile.mutex);
  require(std::exchange(profile.initialised, false) && !profile.runs, "the profiler was finalised before its end");
  return WEFT_OK;
}
void begin_span(const char* name, const char* file, uint32_t line) {
  const std::lock_guard lock(profile.mutex);
  require(getpid() == home_process, "a span begins in a child of fork()");
  require(profile.runs, "a span begins while the profiler does not run");
  const std::string whole = file != nullptr ? file : "";
  tell(std::string(name) + " " + whole.substr(whole.rfind('/') + 1) + ":" + std::to_string(line));
  ++span_depth, ++profile.open;
}
void end_span() {
  const std::lock_guard lock(profile.mutex);
  require(profile.runs && span_depth > 0, "a span ends that the thread had not begun");
  --span_depth, --profile.open;
}
WeftProfiler profiler = {sizeof profiler,  profiler_initialize, profiler_prepare, profiler_start, profiler_stop,
                         profiler_collect, profiler_finalize,   begin_span,       end_span};

/// An old plug-in's struct has no spans; its memory there must not be read.
void make_profiler_old() {
  profiler.size = offsetof(WeftProfiler, begin_span);
  profiler.begin_span = reinterpret_cast<decltype(profiler.begin_span)>(uintptr_t{16});
  profiler.end_span = reinterpret_cast<decltype(profiler.end_span)>(uintptr_t{16});
}

}  // namespace

uint64_t now_ns() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

void note_run(const WeftKernelCall& call, WeftStream stream, uint64_t begin) {
  const std::lock_guard lock(profile.mutex);
  if (profile.runs) profile.spans.push_back({std::string("stub_") + call.kernel, stream, begin, now_ns()});
}

const WeftProfiler* vendor_profiler() {
  if (garbage("old_minor")) make_profiler_old();
  if (garbage("profiler_size")) profiler.size = 8;
  return &profiler;
}

}  // namespace stub

/// For tests: the profiler's events, one per line, with spans indented by depth.
extern "C" __attribute__((visibility("default"))) const char* stub_told() { return stub::profile.told.c_str(); }
