#include "averaging.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/foreach.hpp"
#include "../tensor/warning.hpp"

namespace weft::optim {

namespace {

constexpr const char* op = "Averager";

/// The parameters in the dtype of their averages.
std::vector<Tensor> widened(std::span<const Tensor> parameters, Location where) {
  std::vector<Tensor> out;
  for (const Tensor& p : parameters) out.push_back(p.detach(where).to(compute_type(p.dtype()), where));
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
    : parameters_(std::move(parameters)), options_(std::move(options)) {
  const AverageOptions& given = options_;
  if (static_cast<int>(given.decay.has_value()) + static_cast<int>(static_cast<bool>(given.function)) +
          static_cast<int>(static_cast<bool>(given.functions)) >
      1) {
    raise<ValueError>({.op = op, .problem = "a decay, a function and functions exclude each other"}, where);
  }
  if (given.decay && !(*given.decay >= 0 && *given.decay <= 1)) {
    raise<ValueError>({.op = op, .problem = fmt::format("decay is {}: it must lie in [0, 1]", *given.decay)}, where);
  }
  if (parameters_.empty()) raise<ValueError>({.op = op, .problem = "there are no parameters to average"}, where);
  for (const Tensor& p : parameters_) {
    if (!is_floating(checked(p, op, where).dtype()) || is_storage_only(p.dtype())) {
      raise<ValueError>({.op = op, .problem = "a parameter is not floating-point", .details = describe(p)}, where);
    }
    averages_.push_back(zeros(p.shape(), {compute_type(p.dtype()), p.device()}, where));
  }
}

void Averager::update(Location where) {
  const CallScope call(op, where);
  NoGradGuard unrecorded;
  const std::vector<Tensor> now = widened(parameters_, where);
  std::vector<Tensor> averages;
  for (size_t i = 0; i < now.size(); ++i) {
    check_shape(now[i], averages_[i], i, where);
    averages.push_back(averages_[i].to(now[i].dtype(), where).to(now[i].device(), where));  // a module may have moved
  }
  if (count_ == 0) foreach_copy_(averages, now, where);
  else if (options_.function || options_.functions) averages = made_by_functions(averages, now, where);
  else foreach_lerp_(averages, now, options_.decay ? 1 - *options_.decay : 1 / static_cast<double>(count_ + 1), where);
  averages_ = std::move(averages);
  ++count_;
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
  if (options_.functions) options_.functions(made, now, count_);
  return made;
}

void Averager::copy_to_parameters(Location where) const {
  const CallScope call(op, where);
  if (count_ == 0) raise<ValueError>({.op = op, .problem = "there was no update yet"}, where);
  NoGradGuard unrecorded;
  for (size_t i = 0; i < parameters_.size(); ++i) check_shape(parameters_[i], averages_[i], i, where);
  foreach_copy_(parameters_, averages_, where);
}

Averager::Swap Averager::swap(Location where) const {
  const CallScope call(op, where);
  Swap swap;
  for (const Tensor& p : parameters_) swap.own_.push_back(p.detach(where).clone(where));
  std::vector<Tensor> parameters = parameters_;
  copy_to_parameters(where);
  swap.parameters_ = std::move(parameters);  // from here on there is something to bring back
  return swap;
}

Averager::Swap::~Swap() {
  NoGradGuard unrecorded;
  try {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(own_[i], Location::none());
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
    check_shape(parameters_[i], value, i, where);
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
