#include <fmt/format.h>

#include "../../ops/detail/common.hpp"
#include "../../ops/join.hpp"
#include "../../ops/rearrange.hpp"
#include "../metrics.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train::detail {

namespace {
constexpr size_t faults = 2;
}

void Counts::add(const Tensor& counts, const Tensor& nan_scores, const Tensor& bad_targets) {
  const Tensor batch =
      cat({nan_scores.to(i64).reshape({1}), bad_targets.to(i64).reshape({1}), counts.to(i64).reshape({-1})});
  if (on_device_.defined() && on_device_.device() != batch.device()) fold();
  if (on_device_.defined()) on_device_.add_(batch);
  else on_device_ = batch;
}

void Counts::fold() const {
  if (!on_device_.defined()) return;
  const std::vector<int64_t> seen = on_device_.to_vector<int64_t>();
  if (on_host_.empty()) on_host_.assign(seen.size(), 0);
  for (size_t i = 0; i < seen.size(); ++i) on_host_[i] += seen[i];
  on_device_ = {};
}

void Counts::merge(const Counts& other) {
  fold();
  other.fold();
  if (other.on_host_.empty()) return;
  if (on_host_.empty()) on_host_.assign(other.on_host_.size(), 0);
  if (on_host_.size() != other.on_host_.size()) {
    raise<ValueError>({.op = "merge", .problem = "the metrics count different classes"}, Location::none());
  }
  for (size_t i = 0; i < on_host_.size(); ++i) on_host_[i] += other.on_host_[i];
}

std::vector<int64_t> Counts::read(size_t size, const char* metric, Location where) const {
  fold();
  if (on_host_.empty()) return std::vector<int64_t>(size, 0);
  if (on_host_[0] > 0) {
    raise<NonFiniteError>({.op = metric, .problem = fmt::format("{} predictions were NaN", on_host_[0])}, where);
  }
  if (on_host_[1] > 0) {
    raise<IndexError>(
        {.op = metric, .problem = fmt::format("{} targets or predictions were no class or label", on_host_[1])}, where);
  }
  return {on_host_.begin() + faults, on_host_.end()};
}

std::vector<double> Counts::state() const {
  fold();
  return {on_host_.begin(), on_host_.end()};
}

void Counts::restore(const std::vector<double>& state, size_t size, const char* metric, Location where) {
  if (!state.empty() && state.size() != size + faults) {
    raise<ValueError>(
        {.op = metric, .problem = mismatch_text("state", fmt::format("{} numbers", size + faults), state.size())},
        where);
  }
  for (const double n : state) {
    if (n >= 0 && n <= 0x1p53 && n == static_cast<double>(static_cast<int64_t>(n))) continue;
    raise<ValueError>({.op = metric, .problem = fmt::format("{} is no count", n)}, where);
  }
  on_device_ = {};
  on_host_.clear();
  for (const double n : state) on_host_.push_back(static_cast<int64_t>(n));
}

}  // namespace weft::train::detail
