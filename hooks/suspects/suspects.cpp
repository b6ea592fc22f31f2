#include "../suspects.hpp"

#include <cmath>

#include "finding.hpp"

namespace weft {

namespace {

/// Suspects are added causes first. A suspect is dropped if an earlier one already covers its tensor.
class Ranking {
 public:
  explicit Ranking(const detail::Facts& facts) : facts_(facts), told_(facts.courses.size(), false) {}

  void add(std::vector<Suspect> found) {
    std::erase_if(found, [&](const Suspect& s) { return names_one(s) && told_[s.index]; });
    for (const Suspect& s : found) {
      if (names_one(s)) told_[s.index] = true;
      for (const size_t f : s.followers) told_[f] = true;
    }
    suspects_.insert(suspects_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }

  std::vector<Suspect> take() {
    std::ranges::stable_sort(suspects_, [&](const Suspect& a, const Suspect& b) { return weight(a) > weight(b); });
    return std::move(suspects_);
  }

 private:
  static bool names_one(const Suspect& s) { return s.trouble != Trouble::broadcast && s.trouble != Trouble::run; }
  /// The number of affected parameters; infinite for non-finite values, half of all tensors for findings about the run.
  double weight(const Suspect& s) const {
    if (s.trouble == Trouble::non_finite) return INFINITY;
    if (!names_one(s)) return static_cast<double>(facts_.courses.size()) / 2;
    return static_cast<double>(1 + s.followers.size());
  }

  const detail::Facts& facts_;
  std::vector<bool> told_;
  std::vector<Suspect> suspects_;
};

}  // namespace

const char* name_of(Trouble trouble) {
  constexpr const char* names[] = {"non-finite", "exploding", "vanishing", "dead",
                                   "frozen",     "updates",   "broadcast", "run"};
  return names[static_cast<int>(trouble)];
}

std::vector<Suspect> find_suspects(const History& history) {
  if (history.steps.empty()) return {};
  const detail::Facts facts = detail::gather_facts(history);
  Ranking ranking(facts);
  ranking.add(detail::find_non_finite(facts));
  ranking.add(detail::find_leaps(facts));
  ranking.add(detail::find_broadcasts(facts));
  ranking.add(detail::find_cuts(facts));
  ranking.add(detail::find_data(facts));
  ranking.add(detail::find_modes(facts));
  ranking.add(detail::find_program(facts));
  ranking.add(detail::find_calls(facts));
  ranking.add(detail::find_activations(facts));
  ranking.add(detail::find_flow(facts));
  ranking.add(detail::find_each(facts));
  ranking.add(detail::find_updates(facts));
  ranking.add(detail::find_run(facts));
  return ranking.take();
}

}  // namespace weft
