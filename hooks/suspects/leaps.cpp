// Steps that moved the parameters very far, after which the net no longer learned.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

// In a run that learns, no step moves most weights by half their norm.
constexpr double far = 0.5, usual = 1e-3;

struct Moved {
  size_t index;
  double ratio;
};

/// Parameters of a minimum size that the step moved far.
std::vector<Moved> moved_far(const Facts& facts, size_t at, double typical) {
  const auto& steps = facts.history.steps;
  std::vector<Moved> out;
  for (size_t i = 0; i < steps[at].observations.size() && i < steps[at - 1].observations.size(); ++i) {
    const auto& before = steps[at - 1].observations[i].value;
    const auto& ratio = steps[at].observations[i].update_ratio;
    const bool sized = facts.is_parameter(i) && before && before->rms() > typical / 10;
    const double each = ratio ? *ratio / static_cast<double>(facts.history.every) : 0;
    if (sized && each >= far) out.push_back({i, each});
  }
  return out;
}

}  // namespace

std::optional<Leap> first_leap(const Facts& facts) {
  const auto& steps = facts.history.steps;
  std::vector<double> sizes;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const auto& values = facts.courses[i].value_rms;
    if (facts.is_parameter(i) && !values.empty()) sizes.push_back(values.front());
  }
  const double typical = median(sizes);
  for (size_t at = 1; at < steps.size(); ++at) {
    std::vector<Moved> moved = moved_far(facts, at, typical);
    if (moved.size() < 2 || moved.size() * 2 < sizes.size()) continue;
    const auto farthest = std::ranges::max_element(moved, {}, &Moved::ratio);
    return Leap{at, farthest->index, farthest->ratio, moved.size()};
  }
  return {};
}

std::string leap_in_text(const Facts& facts, const Leap& leap) {
  const double factor = leap.ratio / usual;
  return fmt::format("step {} moved {} by {} of its norm{}{}", facts.history.steps[leap.at].step,
                     facts.watched(leap.index).name, figure(leap.ratio), more_in_text(leap.parameters - 1, "as far"),
                     std::isfinite(factor)
                         ? fmt::format("; a rate {} times smaller moves it by {}", figure(factor), figure(usual))
                         : "");
}

std::vector<Suspect> find_leaps(const Facts& facts) {
  const std::optional<Leap> leap = first_leap(facts);
  if (!leap) return {};
  size_t died = 0, alive = 0;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const auto& gradients = facts.courses[i].gradient_rms;
    if (!facts.is_parameter(i) || gradients.size() < judged_steps || gradients.front() == 0) continue;
    ++(largest_of_last(gradients) == 0 ? died : alive);
  }
  const auto& steps = facts.history.steps;
  std::vector<double> after;
  for (size_t at = steps.size() - (steps.size() - leap->at) / 2; at < steps.size(); ++at) {
    if (steps[at].loss) after.push_back(*steps[at].loss);
  }
  const double before = steps.front().loss.value_or(0), now = median(after);
  const bool lost = after.size() >= 2 * judged_steps && before > 0 && now > 0.8 * before;
  if (died < alive && !lost) return {};
  Suspect out{Trouble::updates, leap->index, "steps are too large: " + leap_in_text(facts, *leap)};
  if (died >= alive && died > 0) {
    out.text += fmt::format("; since then the gradients of {} of {} parameters are 0", died, died + alive);
  } else {
    out.text += fmt::format("; the loss was {} at first and has stayed about {} since", figure(before), figure(now));
  }
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (i != leap->index) out.followers.push_back(i);
  }
  return {std::move(out)};
}

}  // namespace weft::detail
