// Parameters without a gradient, with the line that cuts them off from the loss.
#include "finding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::detail {

namespace {

std::string reason(const Cut& cut, bool several) {
  const char* const them = several ? "them" : "it";
  switch (cut.kind) {
    case Cut::Kind::detached:
      return fmt::format("{} at {} cuts {} off from the loss", cut.op, cut.place, them);
    case Cut::Kind::read:
      return fmt::format("{} at {} takes a number out of the graph, and the loss is computed from it", cut.op,
                         cut.place);
    case Cut::Kind::unrecorded:
      return fmt::format("{} at {} runs while nothing is recorded, as in a NoGradGuard", cut.op, cut.place);
    case Cut::Kind::integers:
      return fmt::format("{} at {} gives integers, through which no gradient passes", cut.op, cut.place);
    case Cut::Kind::unused:
      break;
  }
  return fmt::format("no op reads {} before backward", them);
}

}  // namespace

std::string names_in_text(const Facts& facts, const std::vector<size_t>& indices) {
  constexpr size_t limit = 3;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(limit, indices.size()); ++i) names.push_back(facts.watched(indices[i]).name);
  if (indices.size() > limit) return fmt::format("{} and {} more", fmt::join(names, ", "), indices.size() - limit);
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::vector<Suspect> find_cuts(const Facts& facts) {
  std::vector<std::pair<const Cut*, std::vector<size_t>>> groups;
  for (const Cut& cut : facts.history.program.cuts) {
    if (cut.index >= facts.courses.size()) continue;
    if (facts.courses[cut.index].had_gradient() || facts.watched(cut.index).bad_gradient) continue;
    const auto same = [&](const auto& g) {
      return g.first->kind == cut.kind && g.first->op == cut.op && g.first->place == cut.place;
    };
    auto known = std::ranges::find_if(groups, same);
    if (known == groups.end()) known = groups.insert(known, {&cut, {}});
    known->second.push_back(cut.index);
  }
  std::vector<Suspect> out;
  const size_t steps = facts.history.steps.size();
  for (auto& [cut, indices] : groups) {
    std::ranges::sort(indices);
    Suspect s{Trouble::frozen, indices.front(), ""};
    s.followers.assign(indices.begin() + 1, indices.end());
    s.text = fmt::format("no gradient came to {} in {} step{}: {}", names_in_text(facts, indices), steps,
                         steps == 1 ? "" : "s", reason(*cut, indices.size() > 1));
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace weft::detail
