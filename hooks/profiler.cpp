#include "profiler.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "../tensor/atomic.hpp"
#include "../autograd/engine.hpp"
#include "../autograd/mode.hpp"
#include "../autograd/node.hpp"
#include "../backends/backend.hpp"
#include "../backends/watch/observe.hpp"
#include "../backends/plugin/vendor_profiler.hpp"
#include "detail/device_times.hpp"
#include "detail/graph_text.hpp"
#include "../tensor/allocator.hpp"

namespace weft {

using detail::nanoseconds;

namespace {

Atomic<bool> one_runs{false};

/// A thread's state between the events of a run.
struct ThreadNow {
  int64_t run = 0, begin = 0;
  size_t allocated = 0;
  struct Running {
    const Node* node;
    int64_t begin;
  };
  /// Running nodes, the innermost last; recomputing nodes run nested backward passes.
  std::vector<Running> nodes;
  /// The last scope with a remembered forward.
  int64_t scope = 0;
  /// The device's stream before the running kernel.
  Shared<Fence> mark = {};
  /// Number of the running kernel's spans that are open in the vendor's profiler.
  int told = 0;
  const plugin::VendorProfiler* vendor = nullptr;
};
ThreadNow& now() {
  // on the heap, since static thread-local memory is limited
  static thread_local const auto of_thread = std::make_unique<ThreadNow>();
  return *of_thread;
}

}  // namespace

struct Profiler::State : KernelObserver, BackwardWatch {
  explicit State(ProfilerOptions o) : options(o) {}

  void before(const KernelCall& call) override {
    join();
    if (!vendors.empty()) tell_begin(call);
    if (options.device_spans) now().mark = times.mark(call.device);
    now().begin = nanoseconds();
  }
  void after(const KernelCall& call) override;
  void before(const BackwardPass&, Node& node, std::span<const Tensor>) override;
  void after(const BackwardPass&, Node& node, std::span<const Tensor>, std::span<const Tensor>) override;

  void join() {
    if (now().run != started) now() = {.run = started, .allocated = detail::thread_allocated_bytes(), .nodes = {}};
  }
  int64_t newly_allocated() {
    const size_t all = detail::thread_allocated_bytes();
    return static_cast<int64_t>(all - std::exchange(now().allocated, all));
  }
  void tell_begin(const KernelCall& call);
  void tell_end();
  void keep(ProfiledEvent&& event, const KernelScope* within = nullptr);
  void remember_forward(const ProfiledEvent& event, const KernelScope* within);
  std::optional<size_t> forward_of(const Node& node);
  int thread_number() {
    return threads.try_emplace(std::this_thread::get_id(), static_cast<int>(threads.size())).first->second;
  }
  void keep_span(const ProfiledEvent& about, Shared<Fence> done, int64_t returned);
  void measure(bool wait);
  void start_vendors();
  void stop_vendors();

  const ProfilerOptions options;
  int64_t started = 0, stopped = 0;
  bool running = false;
  std::optional<ObserverGuard> kernels;
  std::optional<BackwardWatchGuard> nodes;

  std::mutex mutex;
  std::vector<ProfiledEvent> events;
  /// Spans that the device may not have completed.
  struct Queued {
    ProfiledEvent event;
    Shared<Fence> begin, end;
    int64_t ended;  ///< the host's time when `end` was marked
  };
  std::deque<Queued> queued;
  std::vector<ProfiledEvent> spans;
  /// End of each stream's last span.
  std::map<const Queue*, int64_t> ends;
  detail::DeviceTimes times;
  /// Running profilers of plug-ins.
  std::vector<plugin::VendorProfiler*> vendors;
  size_t lost = 0;
  std::map<std::thread::id, int> threads;
  /// Recorded forward ops by location, the newest last, since backward runs in reverse.
  std::unordered_map<uintptr_t, std::vector<size_t>> forwards;
};

// ---- plug-ins -------------------------------------------------------------------------------------------------------

void Profiler::State::tell_begin(const KernelCall& call) {
  tell_end();  // for a previous kernel that failed
  const plugin::VendorProfiler* const vendor = plugin::vendor_profiler(call.device.type);
  if (vendor == nullptr) return;
  now().vendor = vendor;
  const auto begin = [&](const char* name, Location where) {
    vendor->begin_span(name, where);
    ++now().told;
  };
  const char* const op = call.op != nullptr ? call.op : call.kernel;
  if (call.within != nullptr) begin(call.within->op, call.within->where);
  else if (now().nodes.empty() && call.entry != nullptr && std::string_view(call.entry) != op)
    begin(call.entry, call.where);
  begin(op, call.where);
}

void Profiler::State::tell_end() {
  for (; now().told > 0; --now().told) now().vendor->end_span();
}

void Profiler::State::start_vendors() {
  for (plugin::VendorProfiler* vendor : plugin::vendor_profilers()) {
    vendor->start();
    vendors.push_back(vendor);
  }
}

void Profiler::State::stop_vendors() {
  tell_end();
  std::exception_ptr failure;
  for (plugin::VendorProfiler* vendor : std::exchange(vendors, {})) {
    for (size_t i = now().run == started ? now().nodes.size() : 0; i > 0; --i) vendor->end_span();
    try {
      for (plugin::MeasuredSpan& span : vendor->stop()) {
        if (events.size() >= options.most_events) {
          ++lost;
          continue;
        }
        ProfiledEvent& event = events.emplace_back();
        event.kind = ProfiledKind::measured, event.op = event.called = std::move(span.name);
        event.device = span.device, event.stream = span.stream;
        event.begin = span.begin - started, event.end = span.end - started;
      }
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// ---- events ---------------------------------------------------------------------------------------------------------

void Profiler::State::after(const KernelCall& call) {
  const int64_t returned = nanoseconds();
  tell_end();
  Shared<Fence> done = now().mark ? times.mark(call.device) : Shared<Fence>();
  if (options.synchronize && !call.device.is_cpu()) synchronize(call.device);
  const int64_t end = call.device.is_cpu() ? returned : nanoseconds();
  ProfiledEvent event{.op = call.op != nullptr ? call.op : call.kernel, .kernel = call.kernel, .where = call.where};
  event.backward = !now().nodes.empty();
  if (call.within != nullptr) {
    event.op = call.within->op, event.where = call.within->where;
  } else if (event.backward) {
    event.op = now().nodes.back().node->op, event.where = now().nodes.back().node->where;
  }
  event.called = call.within == nullptr && !event.backward && call.entry != nullptr ? call.entry : event.op;
  event.device = call.device;
  event.begin = now().begin - started, event.end = end - started;
  event.allocated = newly_allocated();
  if (!call.outputs.empty()) {
    const Layout& layout = call.outputs[0]->layout;
    event.dtype = layout.dtype;
    event.shape = Dims(std::span<const int64_t>(layout.sizes, layout.rank));
  }
  if (done) keep_span(event, std::move(done), returned);
  keep(std::move(event), call.within);
}

void Profiler::State::keep_span(const ProfiledEvent& about, Shared<Fence> done, int64_t returned) {
  const std::lock_guard lock(mutex);
  if (spans.size() + queued.size() >= options.most_events) {
    ++lost;
    return;
  }
  queued.push_back({about, std::move(now().mark), std::move(done), returned});
  ProfiledEvent& span = queued.back().event;
  span.kind = ProfiledKind::span, span.allocated = 0, span.thread = thread_number();
  span.stream = queued.back().end->queue().number();
  measure(false);
}

/// Computes the times of completed spans, or of all if `wait`. Spans of a lost device have no times.
void Profiler::State::measure(bool wait) {
  for (; !queued.empty(); queued.pop_front()) {
    auto& [span, begin, end, ended] = queued.front();
    try {
      if (wait) end->wait();
      else if (!end->reached()) return;
      int64_t& last = ends[&end->queue()];
      last = std::max(last, started);
      const int64_t from = std::max(last, times.time_of(*begin, span.begin + started));
      last = std::max(from, times.time_of(*end, std::max(from, ended)));
      span.begin = from - started, span.end = last - started;
      spans.push_back(std::move(span));
    } catch (const Error&) {
    }
  }
}

void Profiler::State::before(const BackwardPass&, Node& node, std::span<const Tensor>) {
  join();
  for (const plugin::VendorProfiler* vendor : vendors) {
    vendor->begin_span((std::string(node.op) + " backward").c_str(), node.where);
  }
  now().nodes.push_back({&node, nanoseconds()});
}

void Profiler::State::after(const BackwardPass&, Node& node, std::span<const Tensor>, std::span<const Tensor>) {
  ProfiledEvent event{.kind = ProfiledKind::node, .backward = true, .op = node.op, .where = node.where};
  event.begin = now().nodes.back().begin - started, event.end = nanoseconds() - started;
  now().nodes.pop_back();
  tell_end();
  for (const plugin::VendorProfiler* vendor : vendors) vendor->end_span();
  event.forward = forward_of(node);
  keep(std::move(event));
}

void Profiler::State::keep(ProfiledEvent&& event, const KernelScope* within) {
  const std::lock_guard lock(mutex);
  event.thread = thread_number();
  if (events.size() >= options.most_events) {
    ++lost;
    return;
  }
  const bool recorded = within != nullptr ? within->recorded : grad_mode().enabled;
  if (event.kind == ProfiledKind::kernel && !event.backward && recorded) remember_forward(event, within);
  events.push_back(std::move(event));
}

// Kernels of one op follow each other and differ, so they count once.
void Profiler::State::remember_forward(const ProfiledEvent& event, const KernelScope* within) {
  if (within != nullptr) {
    if (within->number <= now().scope) return;
    now().scope = within->number;
  }
  auto& list = forwards[std::bit_cast<uintptr_t>(event.where)];
  if (within == nullptr && !list.empty() && list.back() + 1 == events.size()) {
    const ProfiledEvent& last = events.back();
    if (last.op == event.op && std::string_view(last.kernel) != event.kernel) return;
  }
  list.push_back(events.size());
}

std::optional<size_t> Profiler::State::forward_of(const Node& node) {
  const std::lock_guard lock(mutex);
  const auto found = forwards.find(std::bit_cast<uintptr_t>(node.where));
  if (found == forwards.end()) return {};
  auto& list = found->second;
  for (size_t i = list.size(); i-- > 0;) {
    if (events[list[i]].op != node.op) continue;
    const size_t forward = list[i];
    list.erase(list.begin() + static_cast<ptrdiff_t>(i));
    return forward;
  }
  return {};
}

Profiler::Profiler(ProfilerOptions options) : state_(new State(options)) {}

Profiler::~Profiler() {
  try {
    if (state_->running) stop();
  } catch (...) {  // a destructor cannot report a plug-in's error
  }
}

void Profiler::start(Location where) {
  State& s = *state_;
  if (one_runs.exchange(true)) {
    raise<ValueError>({.op = "Profiler", .problem = "a profiler runs already", .remedy = "stop() it first"}, where);
  }
  s.events.clear(), s.threads.clear(), s.forwards.clear();
  s.queued.clear(), s.spans.clear(), s.ends.clear(), s.times.forget();
  s.lost = 0, s.running = true;
  s.started = nanoseconds();
  s.join();
  try {
    s.start_vendors();
  } catch (...) {
    s.running = false;
    one_runs = false;
    for (plugin::VendorProfiler* vendor : std::exchange(s.vendors, {})) vendor->abandon();
    throw;
  }
  s.nodes.emplace(s);
  s.kernels.emplace(s, ObserverScope::process);
}

void Profiler::stop(Location where) {
  State& s = *state_;
  if (!s.running) raise<ValueError>({.op = "Profiler", .problem = "stop() without start()"}, where);
  s.kernels.reset();
  s.nodes.reset();
  s.stopped = nanoseconds();
  s.measure(true);
  s.events.insert(s.events.end(), std::make_move_iterator(s.spans.begin()), std::make_move_iterator(s.spans.end()));
  s.spans.clear();
  s.running = false;
  one_runs = false;
  s.stop_vendors();
}

const std::vector<ProfiledEvent>& Profiler::events() const { return state_->events; }

namespace {

struct Row {
  std::string name;
  bool backward = false;
  int64_t calls = 0, time = 0, allocated = 0;
};

std::string place_of(Location where) {
  if (!where.known()) return "";
  const std::string text = where.text();
  return text.substr(text.find_last_of('/') + 1);
}

std::string time_text(double ns) {
  return ns < 1e3   ? fmt::format("{:.0f} ns", ns)
         : ns < 1e6 ? fmt::format("{:.1f} us", ns / 1e3)
                    : fmt::format("{:.1f} ms", ns / 1e6);
}

}  // namespace

std::string Profiler::table(const TableOptions& options) const {
  std::map<std::pair<std::string, bool>, Row> rows;
  int64_t all = 0, calls = 0, bytes = 0;
  for (const ProfiledEvent& e : state_->events) {
    if (e.kind != ProfiledKind::kernel) continue;
    std::string name = e.op;
    if (options.by_line) name += "  " + place_of(e.where);
    Row& row = rows[{name, e.backward}];
    row.name = std::move(name), row.backward = e.backward;
    ++row.calls, row.time += e.end - e.begin, row.allocated += e.allocated;
    all += e.end - e.begin, bytes += e.allocated, ++calls;
  }
  std::vector<Row> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
  size_t width = 12;
  const size_t shown = std::min(options.rows, sorted.size());
  for (size_t i = 0; i < shown; ++i) width = std::max(width, sorted[i].name.size());
  std::string out = fmt::format("{:<{}}  {:<8}  {:>7}  {:>9}  {:>6}  {:>9}  {:>10}\n", "op", width, "pass", "kernels",
                                "time", "share", "each", "allocated");
  for (size_t i = 0; i < shown; ++i) {
    const Row& r = sorted[i];
    out += fmt::format("{:<{}}  {:<8}  {:>7}  {:>9}  {:>5.1f}%  {:>9}  {:>10}\n", r.name, width,
                       r.backward ? "backward" : "forward", r.calls, time_text(static_cast<double>(r.time)),
                       100 * static_cast<double>(r.time) / static_cast<double>(std::max<int64_t>(1, all)),
                       time_text(static_cast<double>(r.time) / static_cast<double>(r.calls)),
                       detail::bytes_text(r.allocated));
  }
  if (shown < sorted.size()) out += fmt::format("and {} more\n", sorted.size() - shown);
  const int64_t wall = state_->stopped - state_->started;
  out +=
      fmt::format("{} kernels in {} of {} wall time ({:.0f}%), {} allocated\n", calls,
                  time_text(static_cast<double>(all)), time_text(static_cast<double>(std::max<int64_t>(0, wall))),
                  wall > 0 ? 100 * static_cast<double>(all) / static_cast<double>(wall) : 0, detail::bytes_text(bytes));
  if (state_->lost > 0) out += fmt::format("{} later events were not kept\n", state_->lost);
  return out;
}

}  // namespace weft
