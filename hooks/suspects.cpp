// What looks wrong in a run, in words.
#include "recorder.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace weft {

namespace {

/// The last steps are judged together, so that a single odd one raises no alarm.
constexpr size_t window = 5;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What the history says of one parameter or activation.
struct Course {
  std::vector<double> gradient_rms;
  std::vector<double> value_zeros, gradient_zeros, update_ratios;

  /// The larger of the window's last values decides: one healthy step clears the name.
  static double last(const std::vector<double>& values) {
    const size_t n = std::min(values.size(), window);
    return n == 0 ? 0 : *std::max_element(values.end() - static_cast<ptrdiff_t>(n), values.end());
  }
  static double least(const std::vector<double>& values) {
    const size_t n = std::min(values.size(), window);
    return n == 0 ? 0 : *std::min_element(values.end() - static_cast<ptrdiff_t>(n), values.end());
  }
  double earlier_median() const {
    if (gradient_rms.size() < 2 * window) return 0;
    return median({gradient_rms.begin(), gradient_rms.end() - window});
  }
};

Course course_of(const History& history, size_t which) {
  Course c;
  for (const RecordedStep& step : history.steps) {
    if (which >= step.of.size()) continue;
    const Observation& o = step.of[which];
    if (o.gradient && o.gradient->non_finite < o.gradient->count) {
      c.gradient_rms.push_back(o.gradient->rms());
      c.gradient_zeros.push_back(o.gradient->zero_share());
    }
    if (o.value && o.value->non_finite < o.value->count) c.value_zeros.push_back(o.value->zero_share());
    if (o.update_ratio) c.update_ratios.push_back(*o.update_ratio);
  }
  return c;
}

// Two digits, without an exponent where it reads as well.
std::string figure(double v) {
  if (v < 0.001 || v >= 1e6) return fmt::format("{:.1e}", v);
  return v >= 10 ? fmt::format("{:.0f}", v) : fmt::format("{:.2g}", v);
}

std::string owner(const Watched& w) {
  return w.kind == WatchedKind::parameter ? w.name : fmt::format("the activation {}", w.name);
}

// Where it began: in the earliest step, the first value in order of the forward, else the last gradient, since
// gradients flow from the end.
void add_non_finite(const History& history, std::vector<Suspect>& out) {
  const auto& all = history.watched;
  std::optional<int64_t> first;
  int64_t count = 0;
  for (const Watched& w : all) {
    count += w.bad_value || w.bad_gradient;
    for (const auto& step : {w.bad_value, w.bad_gradient}) {
      if (step && (!first || *step < *first)) first = step;
    }
  }
  if (!first) return;
  const auto is_first = [&](const std::optional<int64_t>& step) { return step == first; };
  std::optional<size_t> origin;
  bool value = true;
  for (size_t i = 0; i < all.size() && !origin; ++i) {
    if (all[i].kind == WatchedKind::activation && is_first(all[i].bad_value)) origin = i;
  }
  if (!origin) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_first(all[i].bad_gradient)) origin = i, value = false;
    }
  }
  for (size_t i = 0; i < all.size() && !origin; ++i) {
    if (is_first(all[i].bad_value)) origin = i;
  }
  std::string text = fmt::format("{} held NaN or infinity in step {}",
                                 value ? owner(all[*origin]) : "the gradient of " + owner(all[*origin]), *first);
  if (count > 1) text += fmt::format(", before {} other{}", count - 1, count == 2 ? "" : "s");
  out.push_back({Trouble::non_finite, *origin, text});
}

/// `severity` compares suspects of one trouble.
struct Judged {
  Suspect suspect;
  double severity = 0;
};

std::optional<Judged> gradient_suspect(const Watched& w, size_t which, const Course& c, double typical) {
  const double now = Course::last(c.gradient_rms), before = c.earlier_median();
  const std::string name = owner(w);
  if (before > 0 && Course::least(c.gradient_rms) > 100 * before) {
    return Judged{{Trouble::exploding, which,
                   fmt::format("the gradient of {} grew to an rms of {}, {} times its median", name, figure(now),
                               figure(now / before))},
                  now};
  }
  if (Course::least(c.gradient_rms) > 1e4) {
    return Judged{{Trouble::exploding, which, fmt::format("the gradient of {} has an rms of {}", name, figure(now))},
                  now};
  }
  if (now > 0 && now < typical / 1000) {
    return Judged{{Trouble::vanishing, which,
                   fmt::format("the gradient of {} has an rms of {}, {} times less than the median layer's", name,
                               figure(now), figure(typical / now))},
                  typical / now};
  }
  if (now > 0 && now < 1e-9) {
    return Judged{{Trouble::vanishing, which, fmt::format("the gradient of {} has an rms of {}", name, figure(now))},
                  1};
  }
  return {};
}

std::optional<Judged> still_suspect(const Watched& w, size_t which, const Course& c, size_t steps) {
  const std::string name = owner(w);
  if (w.kind == WatchedKind::activation) {
    if (c.value_zeros.empty() || Course::least(c.value_zeros) <= 0.95) return {};
    const double share = Course::least(c.value_zeros);
    return Judged{{Trouble::dead, which, fmt::format("{:.3g} % of {} is 0", 100 * share, name)}, share};
  }
  if (c.gradient_rms.empty() && !w.bad_gradient) {
    return Judged{
        {Trouble::frozen, which,
         fmt::format("no gradient came to {} in {} steps: is it used, and does it require one?", name, steps)}};
  }
  if (!c.gradient_zeros.empty() && Course::least(c.gradient_zeros) == 1) {
    return Judged{{Trouble::dead, which, fmt::format("the whole gradient of {} is 0", name)}, 1};
  }
  if (!w.bad_value && !w.bad_gradient && !c.update_ratios.empty() && Course::last(c.update_ratios) == 0) {
    return Judged{{Trouble::frozen, which,
                   fmt::format("{} did not change, though a gradient came: does the optimizer have it?", name)}};
  }
  return {};
}

}  // namespace

const char* name_of(Trouble trouble) {
  constexpr const char* names[] = {"non-finite", "exploding", "vanishing", "dead", "frozen"};
  return names[static_cast<int>(trouble)];
}

std::vector<Suspect> find_suspects(const History& history) {
  std::vector<Suspect> out;
  add_non_finite(history, out);
  std::vector<Course> courses;
  std::vector<double> typical[2];
  for (size_t i = 0; i < history.watched.size(); ++i) {
    courses.push_back(course_of(history, i));
    const double now = Course::last(courses.back().gradient_rms);
    if (now > 0) typical[static_cast<int>(history.watched[i].kind)].push_back(now);
  }
  const double medians[2] = {median(typical[0]), median(typical[1])};
  std::vector<Judged> rest;
  for (size_t i = 0; i < history.watched.size() && !history.steps.empty(); ++i) {
    const Watched& w = history.watched[i];
    auto found = gradient_suspect(w, i, courses[i], medians[static_cast<int>(w.kind)]);
    if (!found) found = still_suspect(w, i, courses[i], history.steps.size());
    if (found) rest.push_back(std::move(*found));
  }
  std::stable_sort(rest.begin(), rest.end(), [](const Judged& a, const Judged& b) {
    return a.suspect.trouble != b.suspect.trouble ? a.suspect.trouble < b.suspect.trouble : a.severity > b.severity;
  });
  for (Judged& j : rest) out.push_back(std::move(j.suspect));
  return out;
}

}  // namespace weft
