#include "../update_bn.hpp"

#include <exception>

#include "../batch_norm.hpp"
#include "../module_state-inl.hpp"

namespace weft::nn::detail {

thread_local const RenewedStatistics* RenewedStatistics::running = nullptr;

namespace {

bool is_batch_norm(const StateAccess::State& state) {
  const TypeId type = state.type;
  return type == TypeId::of<BatchNorm1d>() || type == TypeId::of<BatchNorm2d>() || type == TypeId::of<BatchNorm3d>();
}

}  // namespace

RenewedStatistics::RenewedStatistics(const Module& model) : exceptions_(std::uncaught_exceptions()) {
  const NoGradGuard unrecorded;
  for (const Module& module : model.modules()) {
    StateAccess::State& state = StateAccess::state(module);
    training_.emplace_back(module, state.training);
    if (!is_batch_norm(state) || state.buffers.empty()) continue;
    for (const auto& entry : state.buffers) before_.emplace_back(entry.tensor.detach(), entry.tensor.detach().clone());
    norms_.push_back(module);
  }
  if (norms_.empty()) return;
  for (const Module& norm : norms_) {
    for (const auto& entry : StateAccess::state(norm).buffers) {
      entry.tensor.detach().fill_(entry.name == "running_var" ? 1 : 0);
    }
  }
  for (const auto& [module, was] : training_) StateAccess::state(module).training = true;
  outer_ = std::exchange(running, this);
}

RenewedStatistics::~RenewedStatistics() {
  if (norms_.empty()) return;
  running = outer_;
  for (const auto& [module, was] : training_) StateAccess::state(module).training = was;
  if (std::uncaught_exceptions() <= exceptions_) return;
  const NoGradGuard unrecorded;
  try {
    for (const auto& [buffer, value] : before_) buffer.copy_(value);
  } catch (...) {  // the first error is already propagating
  }
}

bool RenewedStatistics::covers(const Module& module) {
  for (const auto* scope = running; scope != nullptr; scope = scope->outer_) {
    if (std::ranges::any_of(scope->norms_, [&](const Module& norm) { return norm.same_as(module); })) return true;
  }
  return false;
}

Tensor first_input(std::vector<Tensor*> tensors, std::optional<Device> device, Location where) {
  if (tensors.empty()) raise<ValueError>({.op = "optim::update_bn", .problem = "a batch holds no tensor"}, where);
  return device ? tensors[0]->to(*device, where) : *tensors[0];
}

}  // namespace weft::nn::detail
