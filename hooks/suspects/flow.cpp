// Gradients that collapse or explode in backward, compared between the ops that they pass.
#include "finding.hpp"

#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace weft::detail {

namespace {

// Healthy nets of 100 layers stay within a factor of 100; nets that do not learn are far beyond.
constexpr double collapse = 1e5, growth = 1e4;

/// Passages from the op that reads a parameter to the loss.
std::vector<int32_t> way_to_loss(const Trace& trace, const Arrival& arrival) {
  std::vector<int32_t> way;
  for (int32_t at = arrival.from; at != Passage::loss; at = trace.passages[static_cast<size_t>(at)].from) {
    way.push_back(at);
  }
  return way;
}

const Passage& passage(const Trace& trace, int32_t at) { return trace.passages[static_cast<size_t>(at)]; }

/// One parameter in one trace: its gradient where an op reads it, compared with those at parameter-reading ops on the
/// path to the loss.
struct Strength {
  const Arrival* arrival = nullptr;
  double here = 0;
  int32_t strongest = Passage::loss, weakest = Passage::loss;
  double strongest_norm = 0, least = 0;
  double fall() const { return here > 0 ? strongest_norm / here : 1; }
  double rise() const { return least > 0 ? here / least : 1; }
};

/// By parameter; empty if the parameter's gradient is missing or not finite.
std::vector<Strength> strengths_of(const Trace& trace, const std::vector<OpSite>& sites, size_t parameters) {
  std::vector<Strength> out(parameters);
  for (const Arrival& a : trace.arrivals) {
    if (a.from == Passage::loss || a.index >= parameters) continue;
    Strength s{.arrival = &a, .here = passage(trace, a.from).arrived};
    if (!(s.here > 0) || !std::isfinite(s.here)) continue;
    for (const int32_t at : way_to_loss(trace, a)) {
      const double arrived = passage(trace, at).arrived;
      if (sites[passage(trace, at).site].parameters.empty() || !(arrived > 0) || !std::isfinite(arrived)) continue;
      if (s.strongest == Passage::loss || arrived > s.strongest_norm) s.strongest = at, s.strongest_norm = arrived;
      if (s.weakest == Passage::loss || arrived < s.least) s.weakest = at, s.least = arrived;
    }
    out[a.index] = s;
  }
  return out;
}

/// The line with the largest change of the gradient between two points of a path, over all its calls.
struct LargestChange {
  size_t site = 0;
  double log_change = 0;
  int calls = 0;
};
LargestChange blame(const Trace& trace, const Arrival& from, int32_t until, bool falling) {
  std::map<size_t, LargestChange> by_site;
  const std::vector<int32_t> way = way_to_loss(trace, from);
  for (size_t i = 1; i < way.size(); ++i) {
    const Passage &before = passage(trace, way[i]), &after = passage(trace, way[i - 1]);
    if (before.arrived > 0 && after.arrived > 0) {
      LargestChange& b = by_site[before.site];
      b.site = before.site, b.log_change += std::log10(after.arrived / before.arrived), ++b.calls;
    }
    if (way[i] == until) break;
  }
  LargestChange worst;
  for (const auto& [site, b] : by_site) {
    if (falling ? b.log_change < worst.log_change : b.log_change > worst.log_change) worst = b;
  }
  return worst;
}

std::string blamed_text(const History& history, const LargestChange& b) {
  if (b.calls == 0) return "";
  const double each = std::pow(10, std::abs(b.log_change) / b.calls);
  const std::string name = name_in_text(history.sites[b.site]);
  if (b.calls == 1) return fmt::format(", most of it in {} ({} times)", name, figure(each));
  return fmt::format(", most of it in {} calls of {} ({} times each)", b.calls, name, figure(each));
}

double least_fall(const std::vector<std::vector<Strength>>& all, size_t index) {
  double out = INFINITY;
  for (const auto& strengths : all) out = std::min(out, strengths[index].fall());
  return out;
}
double least_rise(const std::vector<std::vector<Strength>>& all, size_t index) {
  double out = INFINITY;
  for (const auto& strengths : all) out = std::min(out, strengths[index].rise());
  return out;
}

// A weak residual branch is harmless, since gradients bypass it. Then report parameters only if they do not move.
bool is_harmed(const Facts& facts, const std::vector<size_t>& starved, const std::vector<Strength>& now) {
  int32_t first = now[starved.front()].arrival->from;
  for (const size_t p : starved) first = std::min(first, now[p].arrival->from);
  bool passed_round = false;
  for (const Strength& s : now) {
    passed_round |= s.arrival != nullptr && s.arrival->from > first && s.fall() < std::sqrt(collapse);
  }
  if (!passed_round) return true;
  return std::ranges::all_of(starved, [&](size_t p) {
    const auto& updates = facts.courses[p].update_ratios;
    return updates.size() >= judged_steps && largest_of_last(updates) < facts.typical_update / 1000;
  });
}

std::optional<Suspect> told(const Facts& facts, const std::vector<Strength>& now, const std::vector<size_t>& found,
                            bool falling) {
  const History& history = facts.history;
  const Trace& trace = *facts.traces.back();
  const auto nearer = [&](size_t a, size_t b) { return now[a].arrival->from < now[b].arrival->from; };
  const size_t first = *std::ranges::min_element(found, nearer);
  const auto weaker = [&](size_t a, size_t b) {
    return falling ? now[a].fall() < now[b].fall() : now[a].rise() < now[b].rise();
  };
  const size_t worst = *std::ranges::max_element(found, weaker);
  const Strength& s = now[worst];
  const int32_t reference = falling ? s.strongest : s.weakest;
  const size_t target = history.sites[passage(trace, reference).site].parameters.front();
  Suspect out{falling ? Trouble::vanishing : Trouble::exploding, first, ""};
  for (const size_t p : found) {
    if (p != first) out.followers.push_back(p);
  }
  out.text = fmt::format("the gradient of {} has an rms of {}: from {} back to {} it {} {} times{}",
                         history.watched[first].name, figure(largest_of_last(facts.courses[first].gradient_rms)),
                         history.watched[target].name, history.watched[worst].name, falling ? "falls" : "grows",
                         figure(falling ? s.fall() : s.rise()),
                         blamed_text(history, blame(trace, *s.arrival, reference, falling)));
  out.text += more_in_text(out.followers.size(), falling ? "before it starve" : "before it");
  return out;
}

// Only if gradients are tiny everywhere from the first step on, which excludes a converged net.
std::optional<Suspect> tiny_everywhere(const Facts& facts) {
  const History& history = facts.history;
  double strongest_norm = 0;
  std::vector<size_t> all;
  std::optional<size_t> largest;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const auto& rms = facts.courses[i].gradient_rms;
    if (!facts.is_parameter(i) || rms.size() < judged_steps) continue;
    const double here = *std::ranges::max_element(rms);
    if (here == 0) continue;
    all.push_back(i);
    if (!largest || here > strongest_norm) strongest_norm = here, largest = i;
  }
  if (!largest || strongest_norm > 1e-8 || facts.typical_update > 1e-6) return {};
  Suspect out{Trouble::vanishing, *largest,
              fmt::format("every gradient is tiny from the first step on: {} has the largest, with an rms of {}",
                          history.watched[*largest].name, figure(strongest_norm))};
  for (const size_t p : all) {
    if (p != *largest) out.followers.push_back(p);
  }
  if (facts.traces.empty()) return out;
  for (const Arrival& a : facts.traces.back()->arrivals) {
    if (a.index == *largest) {
      out.text += blamed_text(history, blame(*facts.traces.back(), a, Passage::loss, true));
    }
  }
  return out;
}

}  // namespace

std::vector<Suspect> find_flow(const Facts& facts) {
  std::vector<Suspect> out;
  if (auto tiny = tiny_everywhere(facts)) out.push_back(std::move(*tiny));
  if (facts.traces.empty()) return out;
  const size_t parameters = facts.courses.size();
  std::vector<std::vector<Strength>> all;
  for (const Trace* trace : facts.traces) all.push_back(strengths_of(*trace, facts.history.sites, parameters));
  std::vector<size_t> starved, flooded;
  for (size_t p = 0; p < parameters; ++p) {
    if (least_fall(all, p) >= collapse) starved.push_back(p);
    if (least_rise(all, p) >= growth) flooded.push_back(p);
  }
  if (!flooded.empty()) out.push_back(*told(facts, all.back(), flooded, false));
  else if (!starved.empty() && is_harmed(facts, starved, all.back())) {
    out.push_back(*told(facts, all.back(), starved, true));
  }
  return out;
}

}  // namespace weft::detail
