// Probably unintended broadcasts, such as [128, 1] with [128].
#include "finding.hpp"

#include <fmt/format.h>

namespace weft::detail {

std::vector<Suspect> find_broadcasts(const Facts& facts) {
  std::vector<Suspect> out;
  for (const MutualBroadcast& m : facts.history.broadcasts) {
    if (m.steps < 2) continue;
    out.push_back({Trouble::broadcast, 0,
                   fmt::format("{} at {} makes {} of {} and {}, and a gradient flows through it: bring one to the "
                               "other's shape, as by view or squeeze",
                               m.op, m.place, m.result, m.left, m.right)});
  }
  return out;
}

}  // namespace weft::detail
