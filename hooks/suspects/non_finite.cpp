// The origin of NaN and infinities: in the earliest step, the first value in forward order, else the last gradient in
// forward order, since gradients flow backward.
#include "finding.hpp"

#include <cmath>

#include <fmt/format.h>

namespace weft::detail {

namespace {

std::optional<int64_t> first_bad_step(const std::vector<Watched>& all) {
  std::optional<int64_t> first;
  for (const Watched& w : all) {
    for (const auto& step : {w.bad_value, w.bad_gradient}) {
      if (step && (!first || *step < *first)) first = step;
    }
  }
  return first;
}

/// The op nearest to the loss that received a finite gradient in this step and sent on one that is not finite.
const OpSite* op_that_broke(const Facts& facts, int64_t step) {
  const History& history = facts.history;
  const auto trace = std::ranges::find(history.traces, step, &Trace::step);
  if (trace == history.traces.end()) return nullptr;
  for (const Passage& p : trace->passages) {
    if (!std::isfinite(p.arrived)) return nullptr;
    if (!std::isfinite(p.left)) return &history.sites[p.site];
  }
  return nullptr;
}

// Appends the op or line, the range of float16, and the step that led there.
std::string origin_in_text(const Facts& facts, size_t origin, bool value, int64_t first) {
  constexpr double of_half = 0x1p-10;
  const Watched& w = facts.watched(origin);
  std::string text;
  if (const OpSite* const site = value ? nullptr : op_that_broke(facts, first)) {
    text += fmt::format(": {} makes it of a finite gradient", name_in_text(*site));
  } else if (!w.place.empty()) {
    text += fmt::format(", made by {} at {}", w.op, w.place);
  }
  const bool is_half = std::ranges::any_of(
      facts.history.watched, [](const Watched& p) { return p.kind == WatchedKind::parameter && p.epsilon == of_half; });
  if (is_half) text += "; float16 ends at 65504: scale the loss and its input down, or take bfloat16";
  const std::optional<Leap> leap = first_leap(facts);
  if (leap && facts.history.steps[leap->at].step <= first) text += "; " + leap_in_text(facts, *leap);
  return text;
}

}  // namespace

std::vector<Suspect> find_non_finite(const Facts& facts) {
  const auto& all = facts.history.watched;
  const std::optional<int64_t> first = first_bad_step(all);
  if (!first) return {};
  std::optional<size_t> origin;
  bool value = true;
  for (size_t i = 0; i < all.size() && !origin; ++i) {
    if (all[i].kind == WatchedKind::activation && all[i].bad_value == first) origin = i;
  }
  if (!origin) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].bad_gradient == first) origin = i, value = false;
    }
  }
  for (size_t i = 0; i < all.size() && !origin; ++i) {
    if (all[i].bad_value == first) origin = i;
  }
  std::vector<size_t> followers;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != *origin && facts.was_bad(i)) followers.push_back(i);
  }
  const std::string name = name_in_text(all[*origin]);
  std::string text =
      fmt::format("{} held NaN or infinity in step {}", value ? name : "the gradient of " + name, *first);
  if (value) text += bad_call_in_text(facts, *origin);
  text += origin_in_text(facts, *origin, value, *first);
  if (!followers.empty())
    text += fmt::format(", before {} other{}", followers.size(), followers.size() == 1 ? "" : "s");
  return {{Trouble::non_finite, *origin, text, std::move(followers)}};
}

}  // namespace weft::detail
