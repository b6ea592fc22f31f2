// Chrome's trace format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: complete
// events (X), flows between slices (s, f), and names of rows (M).
#include "profiler.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "detail/text.hpp"

namespace weft {

namespace {

/// Threads are rows of process 1. Each device is a further process with its streams as rows; events of its vendor's
/// profiler form another process.
struct Row {
  int process, row;
  auto operator<=>(const Row&) const = default;
};

bool same_place(Location a, Location b) { return std::bit_cast<uintptr_t>(a) == std::bit_cast<uintptr_t>(b); }

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

class Trace {
 public:
  explicit Trace(const std::vector<ProfiledEvent>& events) : events_(events) {}

  std::string run() {
    for (const ProfiledEvent& e : events_) {
      if (has_kernel(e)) join_call(e);
    }
    for (const auto& [row, call] : calls_) close(row, call);
    for (size_t i = 0; i < events_.size(); ++i) {
      add_slice(events_[i]);
      if (events_[i].forward) add_flow(i);
    }
    for (const auto& [name, process] : processes_) {
      const char* text = R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})";
      add(fmt::format(fmt::runtime(text), process, name));
    }
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + text_ + "\n]}\n";
  }

 private:
  /// Consecutive kernels of one op call on a row.
  struct Call {
    const ProfiledEvent* first = nullptr;
    int64_t end = 0;
    bool has_parts = false;  ///< has kernels of other ops than the called one

    bool goes_on_with(const ProfiledEvent& e) const {
      if (first == nullptr || first->called != e.called || !same_place(first->where, e.where)) return false;
      // If the first kernel occurs again, it is a new call.
      return first->backward == e.backward && (first->op != e.op || std::string_view(first->kernel) != e.kernel);
    }
  };

  static bool has_kernel(const ProfiledEvent& e) {
    return e.kind == ProfiledKind::kernel || e.kind == ProfiledKind::span;
  }

  Row row_of(const ProfiledEvent& e) {
    if (e.kind == ProfiledKind::kernel || e.kind == ProfiledKind::node) return {1, e.thread};
    const std::string name = e.device.name() + (e.kind == ProfiledKind::measured ? ", measured by its vendor" : "");
    const auto next = static_cast<int>(processes_.size()) + 2;
    return {processes_.try_emplace(name, next).first->second, e.stream};
  }

  void join_call(const ProfiledEvent& e) {
    const Row row = row_of(e);
    Call& call = calls_[row];
    if (!call.goes_on_with(e)) {
      close(row, call);
      call = {&e, 0, false};
    }
    call.end = std::max(call.end, e.end);
    call.has_parts = call.has_parts || e.op != e.called;
  }

  void close(Row row, const Call& call) {
    if (!call.has_parts) return;
    add_slice(row, call.first->called, call.first->begin, call.end, "called", line_of(*call.first));
  }

  void add_slice(const ProfiledEvent& e) {
    std::string about = line_of(e);
    if (has_kernel(e)) {
      about += fmt::format(",\"kernel\":\"{}\",\"output\":\"{} {}\"", e.kernel, weft::name(e.dtype), e.shape.text());
    }
    if (e.kind == ProfiledKind::kernel) about += fmt::format(",\"allocated\":{}", e.allocated);
    const std::string name = e.kind == ProfiledKind::node ? e.op + " backward" : e.op;
    add_slice(row_of(e), name, e.begin, e.end, e.backward ? "backward" : "forward", about);
  }

  void add_slice(Row row, const std::string& name, int64_t begin, int64_t end, const char* category,
                 const std::string& about) {
    add(fmt::format(R"({{"name":{},"cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{{}}}}})",
                    detail::json_text(name), category, microseconds(begin), microseconds(end - begin), row.process,
                    row.row, about));
  }

  void add_flow(size_t i) {
    const ProfiledEvent &to = events_[i], &from = events_[*to.forward];
    const char* flow = R"({{"name":"gradient","cat":"link","ph":"{}","id":{},"ts":{:.3f},"pid":1,"tid":{}{}}})";
    add(fmt::format(fmt::runtime(flow), "s", i, microseconds(from.begin), from.thread, ""));
    add(fmt::format(fmt::runtime(flow), "f", i, microseconds(to.begin), to.thread, ",\"bp\":\"e\""));
  }

  static std::string line_of(const ProfiledEvent& e) {
    return fmt::format("\"line\":{}", detail::json_text(e.where.text()));
  }
  void add(const std::string& event) { text_ += (text_.empty() ? "" : ",\n") + event; }

  const std::vector<ProfiledEvent>& events_;
  std::map<Row, Call> calls_;
  std::map<std::string, int> processes_;
  std::string text_;
};

}  // namespace

std::string Profiler::chrome_trace() const { return Trace(events()).run(); }

}  // namespace weft
