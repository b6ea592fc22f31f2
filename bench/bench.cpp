#include "../bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "../backends/backend.hpp"
#include "../backends/dispatch.hpp"
#include "pin.hpp"
#include "../tensor/device_kinds.hpp"
#include "../tensor/error.hpp"
#include "../tensor/threads.hpp"

namespace weft::bench {

namespace {

constexpr const char* op = "bench.compare";
constexpr int least_rounds = 5, steady_rounds = 15, most_rounds = 1001;
constexpr int64_t most_calls = int64_t{1} << 20;
/// Duration of a sample: long compared to the clock's overhead, short compared to disturbances.
constexpr double sample_seconds = 1e-3, warm_seconds = 20e-3;
constexpr double steady = 0.01;

double steady_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}
/// The distribution-free 95 % confidence interval of the median: two order statistics.
std::pair<double, double> confidence(const std::vector<double>& sorted) {
  const double n = static_cast<double>(sorted.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
  return {sorted[low], sorted[sorted.size() - 1 - low]};
}
std::vector<double> in_order(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// Seconds per call in each round.
struct Samples {
  const Case* of;
  int64_t calls = 1;
  std::vector<double> seconds = {};

  bool known() const {
    const std::vector<double> sorted = in_order(seconds);
    const auto [low, high] = confidence(sorted);
    return high - low <= 2 * steady * quantile(sorted, 0.5);
  }
};

/// Waits only for started backends; a query of others would start them.
void wait_for_devices() {
  for (DeviceType type : detail::named_kinds()) {
    if (kernels(type).fill == nullptr) continue;
    for (int i = 0; i < device_count(type); ++i) synchronize(Device(type, i));
  }
}

class Run {
 public:
  Run(const std::vector<Case>& cases, const Options& options)
      : clock_(options.clock ? options.clock : steady_clock_seconds), limit_(options.seconds) {
    for (const Case& c : cases) samples_.push_back({.of = &c});
  }

  const std::vector<Samples>& measure() {
    for (Samples& s : samples_) warm(s);
    const double start = clock_(), end = start + limit_ * static_cast<double>(samples_.size());
    for (int round = 0; round < most_rounds && !(round >= least_rounds && (clock_() >= end || all_known(round)));
         ++round) {
      for (size_t i = 0; i < samples_.size(); ++i) {
        Samples& s = samples_[round % 2 == 0 ? i : samples_.size() - 1 - i];
        s.seconds.push_back(time(s) / static_cast<double>(s.calls));
      }
    }
    return samples_;
  }

 private:
  double time(const Samples& s) {
    const double start = clock_();
    for (int64_t i = 0; i < s.calls; ++i) s.of->run();
    wait_for_devices();
    return clock_() - start;
  }
  /// Calls the function until caches, free lists and compiled kernels are ready, and determines the calls per sample.
  void warm(Samples& s) {
    double spent = time(s), last = time(s);
    for (spent += last; last < sample_seconds && s.calls < most_calls; spent += last) {
      s.calls *= 2;
      last = time(s);
    }
    while (spent < warm_seconds && last > 0) spent += last = time(s);
  }
  bool all_known(int round) const {
    return round >= steady_rounds && std::all_of(samples_.begin(), samples_.end(), [](auto& s) { return s.known(); });
  }

  std::function<double()> clock_;
  double limit_;
  std::vector<Samples> samples_;
};

double or_else(double value, double otherwise) { return value > 0 ? value : otherwise; }

/// The minimum seconds per call that the roofs allow for this work; 0 if unknown.
double least_seconds(double bytes, double operations, const Roofs& roofs) {
  // Half a megabyte stays in a core's own cache from one call to the next.
  const double bandwidth = bytes <= 512 * 1024 ? roofs.cache_bytes_per_second : roofs.memory_bytes_per_second;
  const double moving = bandwidth > 0 ? bytes / bandwidth : 0;
  const double computing = roofs.operations_per_second > 0 ? operations / roofs.operations_per_second : 0;
  return std::max(moving, computing);
}

Figures figures(const Samples& s, const Samples& first, const Options& options, const Roofs& roofs) {
  const std::vector<double> sorted = in_order(s.seconds);
  Figures f;
  f.name = s.of->name;
  f.calls = s.calls;
  f.median = quantile(sorted, 0.5);
  f.lower_quartile = quantile(sorted, 0.25);
  f.upper_quartile = quantile(sorted, 0.75);
  std::vector<double> ratios;
  for (size_t i = 0; i < s.seconds.size(); ++i) {
    if (first.seconds[i] > 0) ratios.push_back(s.seconds[i] / first.seconds[i]);
  }
  if (!ratios.empty()) {
    std::sort(ratios.begin(), ratios.end());
    f.ratio = quantile(ratios, 0.5);
    std::tie(f.ratio_low, f.ratio_high) = confidence(ratios);
  }
  const double bytes = or_else(s.of->bytes, options.bytes), operations = or_else(s.of->operations, options.operations);
  if (f.median > 0) {
    f.bytes_per_second = bytes / f.median;
    f.operations_per_second = operations / f.median;
    f.of_roof = least_seconds(bytes, operations, roofs) / f.median;
  }
  return f;
}

/// Three significant digits with a unit: 1.23 µs.
std::string scaled(double value, double unit, std::initializer_list<const char*> units) {
  auto name = units.begin();
  for (; name + 1 != units.end() && value >= 999.5 * unit; ++name) unit *= 1000;
  const double shown = value / unit;
  return fmt::format("{:.{}f} {}", shown, shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0, *name);
}
std::string time_text(double seconds) { return seconds > 0 ? scaled(seconds, 1e-9, {"ns", "us", "ms", "s"}) : "0 ns"; }
std::string rate_text(double rate, std::initializer_list<const char*> units) {
  return rate > 0 ? scaled(rate, 1e6, units) : "-";
}
std::string bytes_text(double rate) { return rate_text(rate, {"MB/s", "GB/s", "TB/s"}); }
std::string operations_text(double rate) { return rate_text(rate, {"MFLOP/s", "GFLOP/s", "TFLOP/s"}); }
std::string ratio_text(const Figures& f) {
  if (std::isnan(f.ratio)) return "-";
  return fmt::format("{:.3g} ({:.3g} to {:.3g})", f.ratio, f.ratio_low, f.ratio_high);
}

}  // namespace

Comparison compare(const std::vector<Case>& cases, const Options& options, Location where) {
  if (cases.empty()) {
    raise<ValueError>({.op = op, .problem = "there is nothing to compare", .remedy = "name at least one function"},
                      where);
  }
  for (const Case& c : cases) {
    if (!c.run) raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" holds no function", c.name)}, where);
  }
  Comparison result;
  result.threads = num_threads();
  const auto pin = options.pin ? std::make_unique<Pin>(result.threads) : nullptr;
  result.pinned = pin != nullptr && pin->holds();
  const bool has_work =
      options.bytes > 0 || options.operations > 0 ||
      std::any_of(cases.begin(), cases.end(), [](auto& c) { return c.bytes > 0 || c.operations > 0; });
  Run run(cases, options);
  const std::vector<Samples>& samples = run.measure();
  if (has_work) result.roofs = roofs();
  result.rounds = static_cast<int>(samples[0].seconds.size());
  for (const Samples& s : samples) result.cases.push_back(figures(s, samples[0], options, result.roofs));
  if (options.print) std::fputs(result.table().c_str(), stdout);
  return result;
}

std::string Comparison::table() const {
  const bool has_work = roofs.memory_bytes_per_second > 0 || roofs.operations_per_second > 0;
  size_t width = 4;
  for (const Figures& f : cases) width = std::max(width, f.name.size());
  std::string out = fmt::format("{} rounds by turns, {} {}{}\n", rounds, threads, threads == 1 ? "thread" : "threads",
                                pinned ? ", pinned" : "");
  if (has_work) {
    out += fmt::format("roofs: {}, memory {}, cache {}\n", operations_text(roofs.operations_per_second),
                       bytes_text(roofs.memory_bytes_per_second), bytes_text(roofs.cache_bytes_per_second));
  }
  out += fmt::format("{:<{}}  {:>8}  {:<20}  {:<22}", "case", width, "median", "quartiles", "times the first (95 %)");
  out += has_work ? fmt::format("  {:>9}  {:>12}  {:>7}\n", "bytes", "operations", "of roof") : "\n";
  for (const Figures& f : cases) {
    const std::string quartiles = time_text(f.lower_quartile) + " to " + time_text(f.upper_quartile);
    out += fmt::format("{:<{}}  {:>8}  {:<20}  {:<22}", f.name, width, time_text(f.median), quartiles, ratio_text(f));
    if (has_work) {
      out += fmt::format("  {:>9}  {:>12}  {:>7}", bytes_text(f.bytes_per_second),
                         operations_text(f.operations_per_second),
                         f.of_roof > 0 ? fmt::format("{:.0f} %", 100 * f.of_roof) : "-");
    }
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

}  // namespace weft::bench
