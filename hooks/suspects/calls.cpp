// Modules that are called several times in a step, such as recurrent cells.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

constexpr double growth = 1e4;
constexpr size_t least_calls = 5;

/// Ratio of the last to the first value if the values grow steadily; else 1.
double steady_growth(const std::vector<double>& rms) {
  if (rms.size() < least_calls || !(rms.front() > 0)) return 1;
  for (size_t i = 1; i <= 4; ++i) {
    const double before = rms[(i - 1) * (rms.size() - 1) / 4], now = rms[i * (rms.size() - 1) / 4];
    if (!(now > 2 * before)) return 1;
  }
  return rms.back() / rms.front();
}

std::string each(double grown, size_t calls) { return figure(std::pow(grown, 1.0 / static_cast<double>(calls - 1))); }

}  // namespace

std::string bad_call_in_text(const Facts& facts, size_t index) {
  const auto& all = facts.history.program.calls;
  const auto course = std::ranges::find(all, index, &CallCourse::index);
  if (course == all.end()) return "";
  const auto& values = course->values;
  const auto bad = std::ranges::find_if(values, [](double v) { return std::isnan(v); });
  if (bad == values.end()) return "";
  const auto number = static_cast<size_t>(bad - values.begin());
  std::string text = fmt::format(", in call {} of {}", number + 1, values.size());
  if (number > 1 && values[number - 1] > 10 * values[0]) {
    text += fmt::format(": from call to call it grew {} times, from an rms of {} to {}",
                        each(values[number - 1] / values[0], number), figure(values[0]), figure(values[number - 1]));
  }
  return text;
}

std::vector<Suspect> find_calls(const Facts& facts) {
  std::vector<Suspect> out;
  for (const CallCourse& c : facts.history.program.calls) {
    if (c.index >= facts.courses.size() || facts.was_bad(c.index)) continue;
    const size_t calls = c.values.size();
    const std::string name = name_in_text(facts.watched(c.index));
    std::vector<double> back(c.gradients.rbegin(), c.gradients.rend());
    if (const double forward = steady_growth(c.values); forward >= growth) {
      out.push_back({Trouble::exploding, c.index,
                     fmt::format("{} grows {} times over {} calls in a step, {} times each: from an rms of {} to {}",
                                 name, figure(forward), calls, each(forward, calls), figure(c.values.front()),
                                 figure(c.values.back()))});
    } else if (const double backward = steady_growth(back); backward >= growth) {
      out.push_back(
          {Trouble::exploding, c.index,
           fmt::format("the gradient of {} grows {} times from call {} back to call 1, {} times each: from an "
                       "rms of {} to {}",
                       name, figure(backward), calls, each(backward, back.size()), figure(back.front()),
                       figure(back.back()))});
    }
  }
  return out;
}

}  // namespace weft::detail
