// Update sizes of parameters, relative to the parameters.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

constexpr double usual = 1e-3, too_small = 1e-6, too_large = 0.1;

std::string gradient_text(const Facts& facts, size_t index) {
  return fmt::format("its gradient has an rms of {}, the median layer's {}",
                     figure(largest_of_last(facts.courses[index].gradient_rms)),
                     figure(facts.typical_gradient[static_cast<int>(WatchedKind::parameter)]));
}

/// The update ratio expected for this parameter from the other parameters' steps: proportional to gradients, as in
/// gradient descent, or of equal size.
double expected_ratio(const Facts& facts, size_t index) {
  std::vector<double> changes, rates;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const Course& c = facts.courses[i];
    const double ratio = largest_of_last(c.update_ratios), gradient = largest_of_last(c.gradient_rms);
    if (i == index || !(ratio > 0) || !std::isfinite(ratio) || !(gradient > 0)) continue;
    changes.push_back(ratio * largest_of_last(c.value_rms));
    rates.push_back(changes.back() / gradient);
  }
  if (changes.empty()) return NAN;
  const double mine = largest_of_last(facts.courses[index].gradient_rms);
  return std::max(median(changes), median(rates) * mine) / largest_of_last(facts.courses[index].value_rms);
}

bool gets_gradients(const Facts& facts, size_t i) {
  const Course& c = facts.courses[i];
  return facts.is_parameter(i) && !facts.was_bad(i) && largest_of_last(c.gradient_rms) > 0 && !c.update_ratios.empty();
}

std::string rate_in_text(const std::vector<OptimizerSteps>& steps) {
  const auto is_zero = [](const ParameterStep& p) { return p.rate == 0; };
  if (steps.empty() || !std::ranges::all_of(steps.back().parameters, is_zero)) return "is the learning rate 0?";
  const OptimizerSteps& last = steps.back();
  if (last.zero_place.empty()) return fmt::format("the learning rate of {} at {} is 0", last.optimizer, last.place);
  return fmt::format("the learning rate of {} is 0, set at {}", last.optimizer, last.zero_place);
}

// A single frozen parameter is missing in the optimizer, or its steps are lost to rounding. If all are frozen, no steps
// were taken, or they have ended.
std::vector<Suspect> frozen(const Facts& facts) {
  std::vector<size_t> still;
  size_t moving = 0, stopped = 0;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (!gets_gradients(facts, i)) continue;
    const auto& ratios = facts.courses[i].update_ratios;
    if (largest_of_last(ratios) > 0) {
      ++moving;
      continue;
    }
    still.push_back(i);
    stopped += *std::ranges::max_element(ratios) > 0;
  }
  if (still.empty()) return {};
  if (moving == 0 && stopped > 0 && still.size() > 1) {
    const auto& ratios = facts.courses[still.front()].update_ratios;
    const auto last = std::ranges::find_if(ratios.rbegin(), ratios.rend(), [](double r) { return r > 0; });
    const auto ended = static_cast<size_t>(last - ratios.rbegin());
    if (ended < ratios.size() / 5) return {};  // a schedule that ends at 0
    const int64_t since = facts.history.steps[facts.history.steps.size() - ended].step;
    Suspect all{Trouble::frozen, still.front(),
                fmt::format("no parameter changes since step {}, though gradients come: {}", since,
                            rate_in_text(facts.history.program.optimizer_steps))};
    all.followers.assign(still.begin() + 1, still.end());
    return {std::move(all)};
  }
  std::vector<Suspect> out;
  for (const size_t i : still) {
    const std::string& name = facts.watched(i).name;
    const double expected = expected_ratio(facts, i);
    if (expected < facts.watched(i).epsilon) {
      out.push_back({Trouble::frozen, i,
                     fmt::format("{} did not change: steps of about {} of its weights are lost in rounding, which "
                                 "keeps {} of them; {}",
                                 name, figure(expected), figure(facts.watched(i).epsilon), gradient_text(facts, i))});
    } else {
      out.push_back({Trouble::frozen, i,
                     fmt::format("{} did not change, though a gradient came: does the optimizer have it?", name)});
    }
  }
  return out;
}

bool is_too_small(const Course& c) {
  const auto& r = c.update_ratios;
  if (r.size() < 2 * judged_steps || !(largest_of_last(r) > 0)) return false;
  const bool rises = r.back() > 2 * r[r.size() - judged_steps];  // as in a warm-up
  return !rises && *std::ranges::max_element(r) < too_small;
}

// Weights initialised to 0 have large ratios that shrink; small biases have large ratios forever.
bool is_too_large(const Facts& facts, const Course& c, double typical_value) {
  const auto& r = c.update_ratios;
  if (r.size() < 2 * judged_steps || smallest_of_last(r) < too_large) return false;
  const std::vector<double> last(r.end() - judged_steps, r.end());
  const bool falls = median(last) < median({r.end() - 2 * judged_steps, r.end() - judged_steps}) / 2;
  return !falls && largest_of_last(c.value_rms) > typical_value / 10 && facts.typical_update > too_large / 10;
}

/// Fraction of a parameter's step that is weight decay; nothing if unknown.
std::optional<double> decay_share(const Facts& facts, int64_t step, const ParameterStep& p) {
  const auto& steps = facts.history.steps;
  const auto recorded = std::ranges::find(steps, step, &HistoryStep::step);
  if (recorded == steps.end() || p.index >= recorded->observations.size() || facts.history.every > 1) return {};
  const Observation& o = recorded->observations[p.index];
  if (!o.value || !o.gradient || !o.update_ratio || !(*o.update_ratio > 0) || !(o.gradient->norm > 0)) return {};
  if (p.decoupled) return p.rate * p.decay / *o.update_ratio;
  const double pull = p.decay * o.value->norm;
  return pull / std::hypot(pull, o.gradient->norm);
}

// If decay and gradients are in equilibrium, weights keep their size. Reported if they shrink, and not only after
// convergence.
std::optional<Suspect> decaying(const Facts& facts) {
  constexpr size_t judged = 4;
  constexpr double most_of_it = 0.75, shrunk = 0.9;
  const auto& all = facts.history.program.optimizer_steps;
  std::vector<std::vector<double>> shares(facts.courses.size());
  for (const OptimizerSteps& s : all) {
    for (const ParameterStep& p : s.parameters) {
      if (p.index >= shares.size()) continue;
      if (const auto share = decay_share(facts, s.step, p)) shares[p.index].push_back(*share);
    }
  }
  std::vector<size_t> found;
  size_t decayed = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto& sizes = facts.courses[i].value_rms;
    if (shares[i].size() < judged || sizes.size() < 2 * judged_steps) continue;
    ++decayed;
    const auto decays = [](double s) { return s > most_of_it; };
    const bool at_first = std::ranges::count_if(shares[i], decays) * 4 >= 3 * std::ssize(shares[i]);
    const bool mostly = at_first && std::all_of(shares[i].end() - judged, shares[i].end(), decays);
    const bool falls = sizes.back() < sizes[sizes.size() - judged_steps] && sizes.back() < shrunk * sizes.front();
    if (mostly && falls) found.push_back(i);
  }
  if (found.size() * 2 < decayed || found.empty()) return {};
  const auto& sizes = facts.courses[found.front()].value_rms;
  const OptimizerSteps& last = all.back();
  double decay = 0;
  for (const ParameterStep& p : last.parameters) decay = std::max(decay, p.decay);
  Suspect out{
      Trouble::updates, found.front(),
      fmt::format("weight decay outweighs the gradient: it is {:.0f} % of each step of {}, whose rms fell from {} "
                  "to {}; the decay is {} in {} at {}",
                  100 * std::min(1.0, median(shares[found.front()])), facts.watched(found.front()).name,
                  figure(sizes.front()), figure(sizes.back()), figure(decay), last.optimizer, last.place)};
  out.followers.assign(found.begin() + 1, found.end());
  out.text += more_in_text(out.followers.size(), "like it");
  return out;
}

std::optional<Suspect> sized(const Facts& facts, const std::vector<size_t>& found, size_t all, bool large) {
  if (found.empty()) return {};
  std::vector<double> ratios;
  for (const size_t i : found) ratios.push_back(largest_of_last(facts.courses[i].update_ratios));
  const auto extreme = large ? std::ranges::max_element(ratios) : std::ranges::min_element(ratios);
  const size_t index = found[static_cast<size_t>(extreme - ratios.begin())];
  const double factor = large ? *extreme / usual : usual / *extreme;
  Suspect out{Trouble::updates, index, ""};
  for (const size_t i : found) {
    if (i != index) out.followers.push_back(i);
  }
  out.text = fmt::format(
      "steps are too {} for {}: each moves it by {} of its norm, and has for {} steps; {}; a rate {} "
      "times {} moves it by {}",
      large ? "large" : "small", facts.watched(index).name, figure(*extreme), judged_steps, gradient_text(facts, index),
      figure(factor), large ? "smaller" : "larger", figure(usual));
  if (found.size() == all) out.text += "; it is so for every parameter";
  else out.text += more_in_text(found.size() - 1, "beside it");
  return out;
}

}  // namespace

std::vector<Suspect> find_updates(const Facts& facts) {
  std::vector<Suspect> out = frozen(facts);
  if (auto found = decaying(facts)) out.push_back(std::move(*found));
  std::vector<double> sizes;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (gets_gradients(facts, i)) sizes.push_back(largest_of_last(facts.courses[i].value_rms));
  }
  const double typical_value = median(sizes);
  std::vector<size_t> small, large;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (!gets_gradients(facts, i)) continue;
    if (is_too_small(facts.courses[i])) small.push_back(i);
    if (is_too_large(facts, facts.courses[i], typical_value)) large.push_back(i);
  }
  if (auto found = sized(facts, small, sizes.size(), false)) out.push_back(std::move(*found));
  if (auto found = sized(facts, large, sizes.size(), true)) out.push_back(std::move(*found));
  return out;
}

}  // namespace weft::detail
