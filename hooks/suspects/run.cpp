// Findings about the run instead of single layers.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

/// Whether each step adds about the same number of ops.
bool grows_steadily(const std::vector<Trace>& traces) {
  if (traces.size() < 5 || traces.front().passages.empty()) return false;
  double slope[2] = {INFINITY, 0};
  for (size_t i = 1; i < traces.size(); ++i) {
    const double more =
        static_cast<double>(traces[i].passages.size()) - static_cast<double>(traces[i - 1].passages.size());
    const double each = more / static_cast<double>(std::max<int64_t>(1, traces[i].step - traces[i - 1].step));
    slope[0] = std::min(slope[0], each), slope[1] = std::max(slope[1], each);
  }
  return slope[0] >= 1 && slope[1] <= 1.5 * slope[0];
}

std::vector<size_t> calls_of(const Trace& trace, size_t sites) {
  std::vector<size_t> out(sites, 0);
  for (const Passage& p : trace.passages) ++out[p.site];
  return out;
}

std::optional<Suspect> growing_graph(const History& history) {
  if (!grows_steadily(history.traces)) return {};
  const Trace &first = history.traces.front(), &last = history.traces.back();
  const auto before = calls_of(first, history.sites.size()), now = calls_of(last, history.sites.size());
  size_t site = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] - std::min(now[i], before[i]) > now[site] - std::min(now[site], before[site])) site = i;
  }
  return Suspect{Trouble::run, 0,
                 fmt::format("the graph grows from step to step: {} ops in step {}, {} in step {}, most of them {}, "
                             "called {} times; detach tensors that are carried from one step to the next",
                             first.passages.size(), first.step, last.passages.size(), last.step,
                             name_in_text(history.sites[site]), now[site])};
}

/// Growth reported by a MemoryHistory that existed together with the recorder.
std::optional<Suspect> growing_memory(const History& history) {
  for (const DeviceMemory& record : history.memory) {
    if (record.growth.empty()) continue;
    return Suspect{
        Trouble::run, 0,
        fmt::format("memory grows: {}; something holds them past the step, such as a list of losses with their "
                    "graphs: keep item() or detach()",
                    record.growth.front())};
  }
  return {};
}

/// Autocorrelation of the changes between steps at lag `period`.
double repeated_share(const std::vector<double>& changes, size_t period) {
  double product = 0, a = 0, b = 0;
  for (size_t i = period; i < changes.size(); ++i) {
    product += changes[i] * changes[i - period];
    a += changes[i] * changes[i], b += changes[i - period] * changes[i - period];
  }
  return a > 0 && b > 0 ? product / std::sqrt(a * b) : 0;
}

std::optional<Suspect> periodic_loss(const History& history) {
  std::vector<double> losses;
  for (const HistoryStep& step : history.steps) {
    if (!step.loss || !std::isfinite(*step.loss)) return {};
    losses.push_back(*step.loss);
  }
  std::vector<double> changes;
  double sum = 0, mean = 0, sizes = 0;
  for (size_t i = 1; i < losses.size(); ++i) changes.push_back(losses[i] - losses[i - 1]), sum += changes.back();
  for (double& change : changes) {
    change -= sum / static_cast<double>(changes.size());
    sizes += std::abs(change);
  }
  for (size_t i = 1; i < losses.size(); ++i) mean += std::abs(losses[i]);
  // A smoothly falling loss is correlated at every lag, and a converged one only fluctuates.
  if (sizes < 0.01 * mean || repeated_share(changes, 1) > 0.5) return {};
  for (size_t period = 3; period * 4 <= changes.size(); ++period) {
    if (repeated_share(changes, period) < 0.9) continue;
    const int64_t steps = history.steps[period].step - history.steps[0].step;
    return Suspect{
        Trouble::run, 0,
        fmt::format("the loss goes up and down in the same way every {} steps: are the data shuffled anew in "
                    "every epoch?",
                    steps)};
  }
  return {};
}

}  // namespace

std::vector<Suspect> find_run(const Facts& facts) {
  std::vector<Suspect> out;
  if (auto found = growing_graph(facts.history)) out.push_back(std::move(*found));
  if (auto found = growing_memory(facts.history)) out.push_back(std::move(*found));
  if (auto found = periodic_loss(facts.history)) out.push_back(std::move(*found));
  return out;
}

}  // namespace weft::detail
