#include "optim.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_set>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/create.hpp"

namespace weft::optim {

namespace {

void check_rate(const char* op, const char* what, double value, Location where) {
  if (std::isfinite(value) && value >= 0) return;
  raise<ValueError>({.op = op, .problem = fmt::format("{} is {}: it must be finite and not negative", what, value)},
                    where);
}

}  // namespace

Optimizer::~Optimizer() = default;

Optimizer::Optimizer(const char* name, std::vector<std::string> state_names, double lr, double weight_decay)
    : name_(name), state_names_(std::move(state_names)), defaults_{lr, weight_decay} {}

void Optimizer::add_group(std::vector<Tensor> parameters, GroupOptions options, Location where) {
  Group group{{}, options.lr.value_or(*defaults_.lr), options.weight_decay.value_or(*defaults_.weight_decay)};
  check_rate(name_, "lr", group.lr, where);
  check_rate(name_, "weight_decay", group.weight_decay, where);
  if (parameters.empty()) {
    raise<ValueError>({.op = name_,
                       .problem = "there are no parameters to optimize",
                       .remedy = "a module knows those that register_parameter and register_module told it of"},
                      where);
  }
  std::unordered_set<const TensorImpl*> present;
  for (const Tensor& p : this->parameters()) present.insert(p.impl());
  for (const Tensor& p : parameters) {
    const char* problem = nullptr;
    if (!checked(p, name_, where).is_leaf()) problem = "a parameter is the result of an op, not a leaf";
    else if (!weft::is_floating(p.dtype()) || is_storage_only(p.dtype())) problem = "a parameter is not floating-point";
    else if (!present.insert(p.impl()).second) problem = "a parameter is given twice";
    if (problem == nullptr) continue;
    raise<ValueError>({.op = name_, .problem = problem, .details = describe(p)}, where);
  }
  states_.resize(states_.size() + parameters.size());
  group.parameters = std::move(parameters);
  groups_.push_back(std::move(group));
  forget();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (const Group& group : groups_) out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

void Optimizer::zero_grad() {
  for (const Group& group : groups_) {
    for (const Tensor& p : group.parameters) p.set_grad({}, Location::none());
  }
}

void Optimizer::set_lr(double lr, Location where) {
  for (size_t i = 0; i < groups_.size(); ++i) set_lr(lr, i, where);
}

void Optimizer::set_lr(double lr, size_t group, Location where) {
  check_rate(name_, "lr", lr, where);
  detail::refuse_recording("set_lr sets a learning rate");
  if (group >= groups_.size()) {
    raise<IndexError>({.op = name_, .problem = fmt::format("there is no group {} of {}", group, groups_.size())},
                      where);
  }
  groups_[group].lr = lr;
}

void Optimizer::start(State& state, const Tensor& parameter) const {
  const DType dtype = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
  std::vector<Tensor> fresh;  // all of them or none: memory may be short
  for (size_t i = 0; i < state_names_.size(); ++i) {
    fresh.push_back(zeros(parameter.shape(), {dtype, parameter.device()}));
  }
  state.tensors = std::move(fresh);
}

Optimizer::StateDict Optimizer::state_dict() const {
  StateDict out;
  for (size_t i = 0; i < groups_.size(); ++i) out.emplace(fmt::format("group.{}.lr", i), tensor(groups_[i].lr, f64));
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].steps == 0) continue;
    out.emplace(fmt::format("{}.step", i), tensor(states_[i].steps));
    for (size_t k = 0; k < states_[i].tensors.size(); ++k) {
      out.emplace(fmt::format("{}.{}", i, state_names_[k]), states_[i].tensors[k]);
    }
  }
  return out;
}

void Optimizer::load_state_dict(const StateDict& values, Location where) {
  const std::vector<Tensor> all = parameters();
  std::vector<State> loaded(states_.size());
  size_t used = 0;
  const auto find = [&](const std::string& name) -> const Tensor* {
    const auto found = values.find(name);
    if (found == values.end()) return nullptr;
    ++used;
    return &found->second;
  };
  const auto require = [&](const std::string& name) -> const Tensor& {
    if (const Tensor* t = find(name)) return *t;
    raise<ValueError>({.op = name_, .problem = fmt::format("the state lacks \"{}\"", name)}, where);
  };
  std::vector<double> rates;
  for (size_t i = 0; i < groups_.size(); ++i)
    rates.push_back(require(fmt::format("group.{}.lr", i)).item<double>(where));
  NoGradGuard unrecorded;
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor* steps = find(fmt::format("{}.step", i));
    if (steps == nullptr) continue;
    loaded[i].steps = steps->item<int64_t>(where);
    start(loaded[i], all[i]);
    for (size_t k = 0; k < loaded[i].tensors.size(); ++k) {
      const Tensor& value = require(fmt::format("{}.{}", i, state_names_[k]));
      if (!(value.shape() == all[i].shape())) {
        raise<ShapeError>({.op = name_,
                           .problem = fmt::format("{}.{} has another shape than its parameter", i, state_names_[k]),
                           .details = value.shape().text() + " for " + all[i].shape().text()},
                          where);
      }
      loaded[i].tensors[k].copy_(value, where);
    }
  }
  if (used != values.size()) {
    raise<ValueError>({.op = name_, .problem = "the state holds names of other parameters than these"}, where);
  }
  states_ = std::move(loaded);
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].lr = rates[i];
  forget();
}

double warmup_inverse_sqrt(int64_t step, double lr, int64_t warmup, Location where) {
  if (warmup < 1) {
    raise<ValueError>({.op = "warmup_inverse_sqrt", .problem = fmt::format("warmup is {} steps", warmup)}, where);
  }
  const auto done = static_cast<double>(step + 1), full = static_cast<double>(warmup);
  return lr * std::min(done / full, std::sqrt(full / done));
}

double warmup_cosine(int64_t step, const WarmupCosine& s) {
  if (step < s.warmup) return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (step >= s.steps) return s.minimum;
  const double progress = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  return s.minimum + (s.lr - s.minimum) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace weft::optim
