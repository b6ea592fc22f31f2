#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

constexpr size_t judged_traces = 3;

Course course_of(const History& history, size_t index) {
  Course c;
  for (const HistoryStep& step : history.steps) {
    if (index >= step.observations.size()) continue;
    const Observation& o = step.observations[index];
    if (o.gradient && o.gradient->non_finite < o.gradient->count) {
      c.gradient_rms.push_back(o.gradient->rms());
      c.gradient_zeros.push_back(o.gradient->zero_share());
    }
    if (o.value && o.value->non_finite < o.value->count) {
      c.value_rms.push_back(o.value->rms());
      c.value_zeros.push_back(o.value->zero_share());
    }
    if (o.update_ratio) c.update_ratios.push_back(*o.update_ratio / static_cast<double>(history.every));
  }
  return c;
}

auto last_of(const std::vector<double>& values) {
  return values.end() - static_cast<ptrdiff_t>(std::min(values.size(), judged_steps));
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double largest_of_last(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(last_of(values), values.end());
}
double smallest_of_last(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(last_of(values), values.end());
}
double median_before(const std::vector<double>& values) {
  return values.size() < 2 * judged_steps ? 0 : median({values.begin(), last_of(values)});
}

Facts gather_facts(const History& history) {
  Facts facts{history, {}};
  std::vector<double> gradients[2], updates;
  for (size_t i = 0; i < history.watched.size(); ++i) {
    facts.courses.push_back(course_of(history, i));
    const Course& c = facts.courses.back();
    const double gradient = largest_of_last(c.gradient_rms), update = largest_of_last(c.update_ratios);
    if (gradient > 0) gradients[static_cast<int>(history.watched[i].kind)].push_back(gradient);
    if (update > 0 && std::isfinite(update)) updates.push_back(update);
  }
  for (int kind = 0; kind < 2; ++kind) facts.typical_gradient[kind] = median(gradients[kind]);
  facts.typical_update = median(updates);
  if (history.traces.size() < 2) return facts;
  for (size_t n = std::min(history.traces.size(), judged_traces); n > 0; --n) {
    facts.traces.push_back(&history.traces[history.traces.size() - n]);
  }
  return facts;
}

std::string figure(double v) {
  if (v != 0 && (v < 0.001 || v >= 1e6)) return fmt::format("{:.1e}", v);
  return v >= 10 ? fmt::format("{:.0f}", v) : fmt::format("{:.2g}", v);
}

std::string name_in_text(const Watched& w) {
  return w.kind == WatchedKind::parameter ? w.name : fmt::format("the activation {}", w.name);
}
std::string name_in_text(const OpSite& site) { return fmt::format("{} at {}", site.op, site.place); }

std::string more_in_text(size_t followers, const char* what) {
  if (followers == 0) return "";
  return fmt::format(", and {} {}{} {}", followers, "parameter", followers == 1 ? "" : "s", what);
}

}  // namespace weft::detail
