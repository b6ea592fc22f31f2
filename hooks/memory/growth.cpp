#include "growth.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::detail {

namespace {

constexpr size_t window = 64;
/// Consecutive rises that are not random: batch sizes rise seven times in a row once in 40,000. The number of tensors
/// rarely varies, so three rises suffice if nothing fell.
constexpr int64_t rises_in_number = 3, rises_in_bytes = 7;
/// Minimum number of steps for a trend with decreases, and minimum significance in standard deviations.
constexpr size_t least_of_trend = 15;
constexpr double deviations = 4;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void KeptByLine::add(size_t bytes, size_t tensors) {
  size_t largest = 0;
  for (const Kept& k : kept_) largest = std::max(largest, k.bytes);
  if (bytes < largest / 2) {
    before_fall_ = std::max(before_fall_, largest);
    kept_.clear();
  }
  kept_.push_back({bytes, tensors});
  if (kept_.size() > window) kept_.pop_front();
}

std::optional<KeptByLine::Growth> KeptByLine::growth() const {
  if (kept_.empty() || bytes() <= before_fall_) return {};
  const auto found = in_a_row();
  return found ? found : by_trend();
}

std::optional<KeptByLine::Growth> KeptByLine::in_a_row() const {
  int64_t rises = 0, in_number = 0;
  size_t i = kept_.size() - 1;
  for (; i > 0 && kept_[i].bytes > kept_[i - 1].bytes; --i) {
    if (in_number == rises && kept_[i].tensors > kept_[i - 1].tensors) ++in_number;
    ++rises;
  }
  const auto falls = [](const Kept& a, const Kept& b) { return a.bytes > b.bytes; };
  const bool varies = std::adjacent_find(kept_.begin(), kept_.end(), falls) != kept_.end();
  if (rises < rises_in_bytes && (varies || in_number < rises_in_number)) return {};
  const int64_t steps = rises < rises_in_bytes ? in_number : rises;
  const Kept& from = kept_[kept_.size() - 1 - static_cast<size_t>(steps)];
  return Growth{steps, static_cast<double>(bytes() - from.bytes) / static_cast<double>(steps)};
}

// Mann-Kendall test: compares the numbers of rising and falling pairs of steps. The last third must still rise, which
// excludes buffers that fill up.
std::optional<KeptByLine::Growth> KeptByLine::by_trend() const {
  const size_t n = kept_.size(), third = n / 3;
  if (n < least_of_trend) return {};
  double rising = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      rising += kept_[j].bytes > kept_[i].bytes ? 1 : kept_[j].bytes < kept_[i].bytes ? -1 : 0;
    }
  }
  const auto count = static_cast<double>(n);
  if (rising < deviations * std::sqrt(count * (count - 1) * (2 * count + 5) / 18)) return {};
  const auto level = [&](size_t from, size_t to) {
    std::vector<double> bytes;
    for (size_t i = from; i < to; ++i) bytes.push_back(static_cast<double>(kept_[i].bytes));
    return median(std::move(bytes));
  };
  const double first = level(0, third), middle = level(third, n - third), last = level(n - third, n);
  if (last - middle < (middle - first) / 2 || middle <= first) return {};
  return Growth{static_cast<int64_t>(n), (last - first) / static_cast<double>(n - third)};
}

}  // namespace weft::detail
