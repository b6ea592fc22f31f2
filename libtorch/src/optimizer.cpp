#include <torch/optim/optimizer.h>

#include <torch/optim/schedulers.h>

#include <algorithm>
#include <limits>

namespace torch::optim {

// ---- base classes ----
namespace {
[[noreturn]] void refuse(const char* method, const char* type) {
  TORCH_CHECK(false, method, " has not been implemented for torch::optim::", type, ". Subclass torch::optim::", type,
              "Cloneable<", type, "> instead of torch::optim::", type, " to inherit the ability to clone.");
}
}  // namespace

std::unique_ptr<OptimizerParamState> OptimizerParamState::clone() const { refuse("clone()", "OptimizerParamState"); }
void OptimizerParamState::serialize(serialize::InputArchive&) { refuse("serialize()", "OptimizerParamState"); }
void OptimizerParamState::serialize(serialize::OutputArchive&) const { refuse("serialize()", "OptimizerParamState"); }
std::unique_ptr<OptimizerOptions> OptimizerOptions::clone() const { refuse("clone()", "OptimizerOptions"); }
void OptimizerOptions::serialize(serialize::InputArchive&) { refuse("serialize()", "OptimizerOptions"); }
void OptimizerOptions::serialize(serialize::OutputArchive&) const { refuse("serialize()", "OptimizerOptions"); }
double OptimizerOptions::get_lr() const { refuse("get_lr()", "OptimizerOptions"); }
void OptimizerOptions::set_lr(double) { refuse("set_lr()", "OptimizerOptions"); }

OptimizerOptions& OptimizerParamGroup::options() {
  TORCH_CHECK(options_ != nullptr, "the parameter group has no options");
  return *options_;
}
const OptimizerOptions& OptimizerParamGroup::options() const {
  TORCH_CHECK(options_ != nullptr, "the parameter group has no options");
  return *options_;
}

// ---- Optimizer ----
Optimizer::Optimizer(std::vector<OptimizerParamGroup> param_groups, std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& group : param_groups) add_param_group(group);
}

void Optimizer::add_param_group(const OptimizerParamGroup& param_group) {
  for (const Tensor& parameter : param_group.params()) {
    TORCH_CHECK(parameter.is_leaf(), "can't optimize a non-leaf Tensor");
  }
  OptimizerParamGroup group(param_group.params());
  group.set_options(param_group.has_options() ? param_group.options().clone() : defaults_->clone());
  for (const Tensor& parameter : group.params()) {
    for (const OptimizerParamGroup& other : param_groups_) {
      for (const Tensor& taken : other.params()) {
        TORCH_CHECK(!taken.is_same(parameter), "some parameters appear in more than one parameter group");
      }
    }
  }
  param_groups_.push_back(std::move(group));
}

void Optimizer::zero_grad(bool set_to_none) {
  for (OptimizerParamGroup& group : param_groups_) {
    for (Tensor& parameter : group.params()) {
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (set_to_none) parameter.set_grad(Tensor());
      else gradient.detach().zero_();
    }
  }
}

void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  TORCH_WARN("Optimizer::add_parameters() will be removed in PyTorch 1.6");
  std::vector<Tensor>& own = param_groups_[0].params();
  own.insert(own.end(), parameters.begin(), parameters.end());
}
const std::vector<Tensor>& Optimizer::parameters() const noexcept {
  TORCH_WARN("Optimizer::parameters() will be removed in PyTorch 1.6");
  return param_groups_[0].params();
}
std::vector<Tensor>& Optimizer::parameters() noexcept {
  TORCH_WARN("Optimizer::parameters() will be removed in PyTorch 1.6");
  return param_groups_[0].params();
}
size_t Optimizer::size() const noexcept {
  TORCH_WARN("Optimizer::size() will be removed in PyTorch 1.6");
  size_t count = 0;
  for (const OptimizerParamGroup& group : param_groups_) count += group.params().size();
  return count;
}

// ---- schedulers ----
void LRScheduler::step() {
  const std::vector<double> rates = get_lrs();
  auto& groups = optimizer_.param_groups();
  TORCH_CHECK(rates.size() == groups.size(), "Number of learning rates not equal to the number of param groups\n",
              "Number of learning rates given: ", rates.size(), "\nNumber of param groups: ", groups.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
  ++step_count_;
}
std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}
std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ != 0 && step_count_ % step_size_ == 0) {
    for (double& rate : rates) rate *= gamma_;
  }
  return rates;
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode, float factor,
                                                       int patience, double threshold, ThresholdMode threshold_mode,
                                                       int cooldown, const std::vector<float>& min_lr, double eps,
                                                       bool verbose)
    : optimizer_(optimizer),
      mode_(mode),
      factor_(factor),
      patience_(patience),
      cooldown_(cooldown),
      threshold_(threshold),
      threshold_mode_(threshold_mode),
      min_lrs_(min_lr),
      eps_(eps),
      verbose_(verbose),
      best_(mode == min ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest()) {
  TORCH_CHECK(factor < 1, "Factor should be < 1.0.");
  const size_t groups = optimizer.param_groups().size();
  if (min_lrs_.empty()) min_lrs_.assign(groups, 0);
  TORCH_CHECK(min_lrs_.size() == groups, "Number of learning rates not equal to the number of param groups\n",
              "Number of learning rates given: ", min_lrs_.size(), "\nNumber of param groups: ", groups);
}
void ReduceLROnPlateauScheduler::step(float metric) {
  ++steps_;
  if (is_better(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_steps_ = 0;
  }
  if (bad_steps_ > patience_) {
    reduce_lr();
    cooldown_left_ = cooldown_;
    bad_steps_ = 0;
  }
}
bool ReduceLROnPlateauScheduler::is_better(float metric) const {
  const double sign = mode_ == min ? -1 : 1;
  const double margin = threshold_mode_ == rel ? std::abs(static_cast<double>(best_)) * threshold_ : threshold_;
  return sign * metric > sign * best_ + (std::isinf(margin) ? 0 : margin);
}
void ReduceLROnPlateauScheduler::reduce_lr() {
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const double before = groups[i].options().get_lr();
    const double after = std::max(before * factor_, static_cast<double>(min_lrs_[i]));
    if (before - after <= eps_) continue;
    groups[i].options().set_lr(after);
    if (verbose_) std::printf("step %d: reducing learning rate of group %zu to %.4e\n", steps_, i, after);
  }
}

}  // namespace torch::optim
