// Activation functions with zero slope, which block gradients, by calling line.
#include "finding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::detail {

namespace {

constexpr double dead_share = 0.99, flat_share = 0.95;
constexpr int64_t least_elements = 32;

struct Slopes {
  int64_t count = 0;
  double closed = 0, flat = 0;
  double low = 0, high = 0;
};

/// Sums by site over all calls in all traces. A site is omitted if it is healthy or missing in any trace.
std::vector<std::pair<size_t, Slopes>> slopes_of(const Facts& facts) {
  std::vector<Slopes> sums(facts.history.sites.size());
  std::vector<size_t> sick(sums.size(), 0);
  for (const Trace* trace : facts.traces) {
    std::vector<Slopes> here(sums.size());
    for (const Passage& p : trace->passages) {
      if (p.slopes == 0) continue;
      const auto n = static_cast<double>(p.slopes);
      for (Slopes* s : {&here[p.site], &sums[p.site]}) {
        if (s->count == 0) s->low = p.low, s->high = p.high;
        s->count += p.slopes, s->closed += p.closed * n, s->flat += p.flat * n;
        s->low = std::min(s->low, p.low), s->high = std::max(s->high, p.high);
      }
    }
    for (size_t i = 0; i < here.size(); ++i) {
      const auto n = static_cast<double>(here[i].count);
      if (n > 0 && (here[i].closed > dead_share * n || here[i].flat > flat_share * n)) ++sick[i];
    }
  }
  std::vector<std::pair<size_t, Slopes>> out;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sick[i] != facts.traces.size() || sums[i].count < least_elements) continue;
    sums[i].closed /= static_cast<double>(sums[i].count), sums[i].flat /= static_cast<double>(sums[i].count);
    out.emplace_back(i, sums[i]);
  }
  return out;
}

/// Whether this parameter's gradient passed a call of the site in the last trace.
bool comes_through(const Facts& facts, size_t index, size_t site) {
  const Trace& trace = *facts.traces.back();
  for (const Arrival& a : trace.arrivals) {
    if (a.index != index) continue;
    for (int32_t at = a.from; at != Passage::loss; at = trace.passages[static_cast<size_t>(at)].from) {
      if (trace.passages[static_cast<size_t>(at)].site == site) return true;
    }
  }
  return false;
}

bool is_all_zero(const Course& c) { return c.had_gradient() && smallest_of_last(c.gradient_zeros) == 1; }

Suspect told(const Facts& facts, size_t site, const Slopes& s) {
  const OpSite& where = facts.history.sites[site];
  std::vector<std::string> names;
  Suspect out{Trouble::dead, 0, ""};
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const bool feeds = std::ranges::find(where.parameters, i) != where.parameters.end();
    if (feeds) names.push_back(facts.watched(i).name);
    if (feeds || (facts.is_parameter(i) && is_all_zero(facts.courses[i]) && comes_through(facts, i, site))) {
      out.followers.push_back(i);
    }
  }
  if (!where.parameters.empty()) out.index = where.parameters.front();
  else if (!out.followers.empty()) out.index = out.followers.front();
  std::erase(out.followers, out.index);
  const bool dead = s.closed > dead_share;
  out.text = fmt::format("{} {}: the slope of {:.3g} % of its elements is {}; it keeps values from {:.3g} to {:.3g}",
                         name_in_text(where), dead ? "is dead" : "is saturated", 100 * (dead ? s.closed : s.flat),
                         dead ? "0" : "under 1/100", s.low, s.high);
  if (!names.empty())
    out.text += fmt::format("; {} feed{} it", fmt::join(names, " and "), names.size() == 1 ? "s" : "");
  return out;
}

}  // namespace

std::vector<Suspect> find_activations(const Facts& facts) {
  std::vector<Suspect> out;
  if (facts.traces.empty()) return out;
  for (const auto& [site, slopes] : slopes_of(facts)) out.push_back(told(facts, site, slopes));
  return out;
}

}  // namespace weft::detail
