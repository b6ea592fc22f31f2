#include "averaging.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/foreach.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/warning.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

namespace {

constexpr const char* op = "Averager";

DType average_type(const Tensor& t) { return is_floating(t.dtype()) ? compute_type(t.dtype()) : t.dtype(); }

std::vector<Tensor> widened(std::span<const Tensor> tensors, Location where) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.detach(where).to(average_type(t), where));
  return out;
}

/// Groups the indices of tensors by dtype and device.
std::vector<std::vector<size_t>> alike(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto same = std::ranges::find_if(groups, [&](const std::vector<size_t>& group) {
      const Tensor& first = tensors[group[0]];
      return first.dtype() == tensors[i].dtype() && first.device() == tensors[i].device();
    });
    if (same == groups.end()) groups.push_back({i});
    else same->push_back(i);
  }
  return groups;
}

std::vector<Tensor> chosen(const std::vector<Tensor>& tensors, const std::vector<size_t>& numbers) {
  std::vector<Tensor> out;
  for (const size_t i : numbers) out.push_back(tensors[i]);
  return out;
}

void check_shape(const Tensor& value, const Tensor& average, size_t number, Location where) {
  if (value.shape() == average.shape()) return;
  raise<ShapeError>({.op = op,
                     .problem = fmt::format("the average of parameter {} has another shape", number),
                     .details = average.shape().text() + " for " + value.shape().text()},
                    where);
}

}  // namespace

Averager::Averager(std::vector<Tensor> parameters, AverageOptions options, Location where)
    : tensors_(std::move(parameters)), options_(std::move(options)) {
  check_options(where);
  if (tensors_.empty()) raise<ValueError>({.op = op, .problem = "there are no parameters to average"}, where);
  const size_t count = tensors_.size();
  tensors_.insert(tensors_.end(), options_.buffers.begin(), options_.buffers.end());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = checked(tensors_[i], op, where);
    const char* problem = i < count && !is_floating(t.dtype()) ? "a parameter is not floating-point"
                          : is_storage_only(t.dtype())         ? "8 bits are too few to average"
                                                               : nullptr;
    if (problem != nullptr) raise<ValueError>({.op = op, .problem = problem, .details = describe(t)}, where);
    averages_.push_back(zeros(t.shape(), {average_type(t), t.device()}, where));
  }
}

void Averager::check_options(Location where) const {
  const int ways = static_cast<int>(options_.decay.has_value()) +
                   static_cast<int>(static_cast<bool>(options_.function)) +
                   static_cast<int>(static_cast<bool>(options_.functions));
  if (ways > 1) {
    raise<ValueError>({.op = op, .problem = "a decay, a function and functions exclude each other"}, where);
  }
  const double decay = options_.decay.value_or(0);
  if (!(decay >= 0 && decay <= 1)) {
    raise<ValueError>({.op = op, .problem = mismatch_text("decay", "a number in [0, 1]", decay)}, where);
  }
}

void Averager::update(Location where) {
  const CallScope call(op, where);
  NoGradGuard unrecorded;
  const std::vector<Tensor> now = widened(tensors_, where);
  std::vector<Tensor> averages;
  for (size_t i = 0; i < now.size(); ++i) {
    check_shape(now[i], averages_[i], i, where);
    averages.push_back(averages_[i].to(now[i].dtype(), where).to(now[i].device(), where));  // a module may have moved
  }
  if (count_ == 0) foreach_copy_(averages, now, where);
  else if (options_.function || options_.functions) averages = made_by_functions(averages, now, where);
  else mix(averages, now, where);
  averages_ = std::move(averages);
  ++count_;
}

void Averager::mix(const std::vector<Tensor>& averages, const std::vector<Tensor>& now, Location where) const {
  const auto mixed_whole = [&](const Tensor& a, const Tensor& x) {
    if (a.dtype() == DType::boolean) return x;
    const Tensor mean = options_.decay ? a * *options_.decay + x * (1 - *options_.decay)
                                       : a + (x - a) / static_cast<double>(count_ + 1);
    return mean.to(a.dtype(), where);
  };
  const double weight = options_.decay ? 1 - *options_.decay : 1 / static_cast<double>(count_ + 1);
  std::vector<Tensor> floating, latest, others, mixed;
  for (size_t i = 0; i < averages.size(); ++i) {
    const Tensor &a = averages[i], &x = now[i];
    if (is_floating(a.dtype())) {
      floating.push_back(a);
      latest.push_back(x);
    } else {
      others.push_back(a);
      mixed.push_back(mixed_whole(a, x));
    }
  }
  // Everything is computed: writing needs no memory.
  foreach_lerp_(floating, latest, weight, where);
  foreach_copy_(others, mixed, where);
}

std::vector<Tensor> Averager::made_by_functions(const std::vector<Tensor>& averages, const std::vector<Tensor>& now,
                                                Location where) const {
  const OutsideCalls users_code;
  std::vector<Tensor> made;
  for (size_t i = 0; i < averages.size(); ++i) {
    made.push_back(averages[i].clone(where));
    if (!options_.function) continue;
    const Tensor result = checked(options_.function(made.back(), now[i], count_), op, where);
    check_shape(averages[i], result, i, where);
    made.back() = result.detach(where).to(averages[i].dtype(), where).to(averages[i].device(), where);
    if (made.back().shares_storage(now[i])) made.back() = made.back().clone(where);
  }
  if (options_.functions) {
    for (const std::vector<size_t>& group : alike(made)) {
      options_.functions(chosen(made, group), chosen(now, group), count_);
    }
  }
  return made;
}

void Averager::copy_to_parameters(Location where) const {
  const CallScope call(op, where);
  if (count_ == 0) raise<ValueError>({.op = op, .problem = "there was no update yet"}, where);
  NoGradGuard unrecorded;
  for (size_t i = 0; i < tensors_.size(); ++i) check_shape(tensors_[i], averages_[i], i, where);
  foreach_copy_(tensors_, averages_, where);
}

Averager::Swap Averager::swap(Location where) const {
  const CallScope call(op, where);
  Swap swap;
  for (const Tensor& t : tensors_) swap.own_.push_back(t.detach(where).clone(where));
  std::vector<Tensor> tensors = tensors_;
  copy_to_parameters(where);
  swap.tensors_ = std::move(tensors);  // set only after success: the destructor restores these
  return swap;
}

Averager::Swap::~Swap() {
  NoGradGuard unrecorded;
  try {
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(own_[i], Location::none());
  } catch (const std::exception& error) {
    warn({.op = op, .problem = "parameters did not get their own values back", .details = error.what()});
  }
}

std::map<std::string, Tensor> Averager::state_dict() const {
  std::map<std::string, Tensor> out = {{"count", tensor(count_)}};
  for (size_t i = 0; i < averages_.size(); ++i) out.emplace(fmt::format("{}.average", i), averages_[i]);
  return out;
}

void Averager::load_state_dict(const std::map<std::string, Tensor>& values, Location where) {
  const CallScope call(op, where);
  NoGradGuard unrecorded;
  const auto find = [&](const std::string& name) -> const Tensor& {
    const auto found = values.find(name);
    if (found != values.end()) return found->second;
    raise<ValueError>({.op = op, .problem = fmt::format("the state lacks \"{}\"", name)}, where);
  };
  const int64_t count = find("count").item<int64_t>(where);
  std::vector<Tensor> loaded;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const Tensor& value = find(fmt::format("{}.average", i));
    check_shape(tensors_[i], value, i, where);
    loaded.push_back(zeros(value.shape(), {averages_[i].dtype(), averages_[i].device()}, where));
    loaded.back().copy_(value, where);
  }
  if (count < 0 || values.size() != averages_.size() + 1) {
    raise<ValueError>({.op = op, .problem = "the state is not of these parameters"}, where);
  }
  averages_ = std::move(loaded);
  count_ = count;
}

}  // namespace weft::optim
