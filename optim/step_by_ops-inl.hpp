// The step of optimizers that compute with ops. Internal to optim/.
#pragma once

#include "../autograd/program_watch.hpp"
#include "../backends/watch/observe.hpp"
#include "../tensor/call.hpp"
#include "../tensor/memory_use.hpp"
#include "optimizer.hpp"
#include "rule-inl.hpp"

namespace weft::optim {

template <class UpdateOf>
void Optimizer::step_by_ops(const UpdateOf& update_of, Location where) {
  if (is_repeated(where)) return;
  if (WEFT_UNLIKELY(detail::program_watch != nullptr)) tell_watch_of_step(*this, *rule_, where);
  const KernelScope scope(name_, where);
  const CallScope call(name_, where);
  const detail::MemoryUseScope use(detail::MemoryUse::optimizer);
  NoGradGuard unrecorded;
  const auto is_stepped = [](const Tensor& p) { return p.grad().defined() && p.numel() != 0; };
  std::vector<State> present = states_;  // a copy: all state is created, or none if memory runs out
  size_t i = 0;
  for (const Group& group : groups_) {
    for (const Tensor& p : group.parameters) {
      State& state = present[i++];
      if (is_stepped(p)) present_state(group, p, state, where);
    }
  }
  states_ = std::move(present);
  // Every new value is computed before the first write, so that a step that runs out of memory changes nothing.
  struct Stepped {
    const Tensor& parameter;
    State& state;
    Update update;
  };
  std::vector<Stepped> stepped;
  i = 0;
  for (const Group& group : groups_) {
    for (const Tensor& p : group.parameters) {
      State& state = states_[i++];
      if (is_stepped(p)) stepped.push_back({p, state, update_of(group, p, state.tensors, state.steps + 1)});
    }
  }
  for (const auto& [p, state, update] : stepped) {
    for (size_t k = 0; k < state.tensors.size(); ++k) {
      if (state.tensors[k].defined()) state.tensors[k].copy_(update.states[k]);
    }
    p.copy_(update.parameter);
    ++state.steps;
  }
}

}  // namespace weft::optim
