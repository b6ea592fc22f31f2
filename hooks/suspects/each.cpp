// Findings about single parameters and activations over time.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

std::optional<Suspect> exploding(const Facts& facts, size_t index) {
  const Course& c = facts.courses[index];
  const double now = largest_of_last(c.gradient_rms), least = smallest_of_last(c.gradient_rms);
  const double before = median_before(c.gradient_rms);
  const std::string name = name_in_text(facts.watched(index));
  if (before > 0 && least > 100 * before) {
    return Suspect{Trouble::exploding, index,
                   fmt::format("the gradient of {} grew to an rms of {}, {} times its median", name, figure(now),
                               figure(now / before))};
  }
  // The loss may have a large scale: without large updates it is no explosion.
  const bool moves = c.update_ratios.empty() || largest_of_last(c.update_ratios) > 0.1;
  if (least > 1e4 && moves) {
    return Suspect{Trouble::exploding, index, fmt::format("the gradient of {} has an rms of {}", name, figure(now))};
  }
  return {};
}

/// Whether an op that sums over rows, such as a bias gradient, received a healthy gradient. Then its terms cancel, as
/// before a normalization, and nothing vanishes.
bool cancels(const Facts& facts, size_t index) {
  if (facts.traces.empty()) return false;
  const Trace& trace = *facts.traces.back();
  double count = 0;
  for (const HistoryStep& step : facts.history.steps) {
    if (index < step.observations.size() && step.observations[index].value)
      count = static_cast<double>(step.observations[index].value->count);
  }
  for (const Arrival& a : trace.arrivals) {
    if (a.index != index || a.from == Passage::loss) continue;
    const Passage& p = trace.passages[static_cast<size_t>(a.from)];
    return static_cast<double>(p.count) > count && a.norm < 1e-3 * p.arrived;
  }
  return false;
}

std::optional<Suspect> vanishing(const Facts& facts, size_t index) {
  const Course& c = facts.courses[index];
  const double now = largest_of_last(c.gradient_rms);
  const double typical = facts.typical_gradient[static_cast<int>(facts.watched(index).kind)];
  // Nets learn even if their first layers' gradients are 1000 times weaker. A gradient that used to be large means that
  // the net has learned.
  if (!(now > 0) || now > 1e-4 || now >= typical / 1000 || cancels(facts, index)) return {};
  const double once = *std::ranges::max_element(c.gradient_rms);
  if (once > 1e3 * now && once > typical / 100) return {};
  return Suspect{Trouble::vanishing, index,
                 fmt::format("the gradient of {} has an rms of {}, {} times less than the median layer's",
                             name_in_text(facts.watched(index)), figure(now), figure(typical / now))};
}

/// Whether the gradients of several uses of a parameter cancel, as for a bias that a difference cancels.
bool is_balanced(const Facts& facts, size_t index) {
  if (facts.traces.empty()) return false;
  const auto& arrivals = facts.traces.back()->arrivals;
  const auto found = std::ranges::find(arrivals, index, &Arrival::index);
  return found != arrivals.end() && found->norm > 0;
}

/// ": it is 0 behind softmax at net.cpp:12": the op on the path that received a gradient and passed on none.
std::string lost_in_text(const Facts& facts, size_t index) {
  if (facts.traces.empty()) return "";
  const Trace& trace = *facts.traces.back();
  const auto arrival = std::ranges::find(trace.arrivals, index, &Arrival::index);
  if (arrival == trace.arrivals.end()) return "";
  for (int32_t at = arrival->from; at != Passage::loss; at = trace.passages[static_cast<size_t>(at)].from) {
    const Passage& p = trace.passages[static_cast<size_t>(at)];
    if (p.arrived > 0 && p.left == 0) {
      return fmt::format(": {} passes nothing of the arriving gradient on", name_in_text(facts.history.sites[p.site]));
    }
  }
  return "";
}

// Merges the tensors that the same op cuts off into one finding.
void fold_dead(std::vector<Suspect>& found) {
  const auto behind = [](const Suspect& s) {
    const size_t colon = s.text.find(" is 0: ");
    return s.trouble != Trouble::dead || colon == std::string::npos ? std::string() : s.text.substr(colon);
  };
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string place = behind(found[i]);
    if (place.empty()) continue;
    for (size_t k = i + 1; k < found.size();) {
      if (behind(found[k]) != place) {
        ++k;
        continue;
      }
      found[i].followers.push_back(found[k].index);
      found.erase(found.begin() + static_cast<ptrdiff_t>(k));
    }
    found[i].text += more_in_text(found[i].followers.size(), "like it");
  }
}

std::optional<Suspect> still(const Facts& facts, size_t index) {
  const Watched& w = facts.watched(index);
  const Course& c = facts.courses[index];
  if (w.kind == WatchedKind::activation) {
    const double share = smallest_of_last(c.value_zeros);
    if (share <= 0.95 || !c.had_gradient()) return {};
    return Suspect{Trouble::dead, index, fmt::format("{:.3g} % of {} is 0", 100 * share, name_in_text(w))};
  }
  if (!w.trained) return {};
  if (!c.had_gradient() && !w.bad_gradient) {
    const size_t steps = facts.history.steps.size();
    return Suspect{Trouble::frozen, index,
                   fmt::format("no gradient came to {} in {} step{}: is it used, and does it require one?", w.name,
                               steps, steps == 1 ? "" : "s")};
  }
  if (smallest_of_last(c.gradient_zeros) == 1 && !is_balanced(facts, index)) {
    return Suspect{Trouble::dead, index,
                   fmt::format("the whole gradient of {} is 0{}", w.name, lost_in_text(facts, index))};
  }
  return {};
}

}  // namespace

std::vector<Suspect> find_each(const Facts& facts) {
  std::vector<std::pair<double, Suspect>> weak;
  std::vector<Suspect> out;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (auto found = exploding(facts, i)) out.push_back(std::move(*found));
    else if (auto tiny = vanishing(facts, i)) weak.emplace_back(largest_of_last(facts.courses[i].gradient_rms), *tiny);
    else if (auto none = still(facts, i)) out.push_back(std::move(*none));
  }
  fold_dead(out);
  std::ranges::stable_sort(weak, {}, &std::pair<double, Suspect>::first);
  for (auto& [rms, suspect] : weak) out.push_back(std::move(suspect));
  return out;
}

}  // namespace weft::detail
