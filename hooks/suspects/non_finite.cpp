// Where NaN and infinities began: in the earliest step, the first value in order of the forward, else the last
// gradient, since gradients flow from the end.
#include "finding.hpp"

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
  if (!followers.empty())
    text += fmt::format(", before {} other{}", followers.size(), followers.size() == 1 ? "" : "s");
  return {{Trouble::non_finite, *origin, text, std::move(followers)}};
}

}  // namespace weft::detail
