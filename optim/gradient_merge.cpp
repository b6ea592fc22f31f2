#include "gradient_merge.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/create.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/call.hpp"
#include "../tensor/error.hpp"
#include "distinct_leaves-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

GradientMerge::GradientMerge(std::vector<Tensor> parameters, GradientMergeOptions options, Location where)
    : parameters_(std::move(parameters)), sums_(parameters_.size()), options_(options) {
  const CallScope call("GradientMerge", where);
  expect_at_least("k", options_.k, 1);
  detail::check_distinct_leaves(parameters_);
}

bool GradientMerge::take(double weight, Location where) {
  const CallScope call("GradientMerge::take", where);
  if (!(weight >= 0 && std::isfinite(weight)) || (!options_.average && weight != 1)) {
    raise_value("weight", options_.average ? "a finite number of at least 0" : "1, because a sum has no weights",
                weight);
  }
  const NoGradGuard unrecorded;
  const double unit = unit_ > 0 ? unit_ : weight, share = weight > 0 ? weight / unit : 0;
  // A sum starts with its own memory, because gradients may share theirs.
  std::vector<Tensor> fresh(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor grad = parameters_[i].grad();
    if (grad.defined() && !sums_[i].defined() && share > 0) {
      fresh[i] = zeros(grad.shape(), {compute_type(grad.dtype()), grad.device()});
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor grad = parameters_[i].grad();
    if (!grad.defined()) continue;
    if (fresh[i].defined()) sums_[i] = std::move(fresh[i]);
    if (share > 0) sums_[i].add_(grad.detach(), share);
    parameters_[i].set_grad({});
  }
  unit_ = unit;
  units_ += share;
  if (++pending_ < options_.k) return false;
  hand_out();
  return true;
}

bool GradientMerge::flush(Location where) {
  const CallScope call("GradientMerge::flush", where);
  if (pending_ == 0) return false;
  hand_out();
  return true;
}

void GradientMerge::hand_out() {
  const NoGradGuard unrecorded;
  std::vector<Tensor> merged(sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i].defined()) continue;
    const bool divides = options_.average && units_ != 1;
    merged[i] = (divides ? sums_[i] / units_ : sums_[i]).to(parameters_[i].dtype());
  }
  for (size_t i = 0; i < merged.size(); ++i) {
    if (merged[i].defined()) parameters_[i].set_grad(merged[i]);
  }
  drop();
}

void GradientMerge::drop() {
  sums_.assign(parameters_.size(), {});
  pending_ = 0;
  unit_ = units_ = 0;
}

std::map<std::string, Tensor> GradientMerge::state_dict() const {
  std::map<std::string, Tensor> out{{"pending", tensor(pending_)}};
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (sums_[i].defined()) out.emplace(std::to_string(i), sums_[i]);
  }
  const bool is_plain = pending_ == 0 || (unit_ == 1 && units_ == static_cast<double>(pending_));
  if (!is_plain) out.emplace("weight", tensor({unit_, units_}, f64));
  return out;
}

void GradientMerge::load_state_dict(const std::map<std::string, Tensor>& values, Location where) {
  const CallScope call("GradientMerge::load_state_dict", where);
  const NoGradGuard unrecorded;
  const auto pending = values.find("pending");
  if (pending == values.end()) raise<ValueError>({.problem = "the state has no \"pending\""});
  std::vector<Tensor> sums(parameters_.size());
  size_t known = 1;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto found = values.find(std::to_string(i));
    if (found == values.end()) continue;
    ++known;
    const Tensor& p = parameters_[i];
    if (!(found->second.shape() == p.shape())) {
      raise<ShapeError>({.problem = fmt::format("the sum of parameter {} is of another shape", i),
                         .details = found->second.shape().text()});
    }
    sums[i] = zeros(p.shape(), {compute_type(p.dtype()), p.device()});
    sums[i].copy_(found->second);
  }
  const auto pending_now = pending->second.item<int64_t>();
  double unit = pending_now > 0 ? 1 : 0, units = static_cast<double>(pending_now);
  if (const auto weight = values.find("weight"); weight != values.end()) {
    ++known;
    if (weight->second.numel() != 2) raise_rank("weight", "two numbers", weight->second);
    const std::vector<double> both = weight->second.to(f64).to_vector<double>();
    unit = both[0];
    units = both[1];
  }
  if (known != values.size()) raise<ValueError>({.problem = "the state has names that are no parameters'"});
  pending_ = pending_now;
  unit_ = unit;
  units_ = units;
  sums_ = std::move(sums);
}

}  // namespace weft::optim
