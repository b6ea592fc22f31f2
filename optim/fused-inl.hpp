// How an optimizer hands its parameters to a fused kernel: one cached slot of views per parameter, and the longest runs
// of them that one call can take. Internal to optim/.
//
// A rule is a struct with Slot, its kernel's slot; kernel(View), the kernel of the view's device or null;
// slot(parameter, state), a filled slot; settings(group, steps), the kernel's settings; alike(steps, steps), whether
// parameters with these numbers of steps can share a call; and composite(parameter, settings, state), the same
// arithmetic in tensor ops.
#pragma once

#include <span>
#include <vector>

#include "../autograd/accumulation.hpp"
#include "../backends/dispatch.hpp"
#include "../backends/observe.hpp"
#include "../tensor/step_recorder.hpp"
#include "optim.hpp"

namespace weft::optim {

enum class Readiness : uint8_t { absent, composite, fused };

/// The slot still shows the parameter, and the kernel can take this gradient.
template <class Slot>
bool slot_is_current(const Slot& slot, const View& parameter, const View& gradient) {
  const Layout& kept = slot.parameter.layout;
  return slot.parameter.data == parameter.data && kept.dtype == parameter.layout.dtype &&
         kept.device_type == parameter.layout.device_type && kept.device_index == parameter.layout.device_index &&
         gradient.layout.contiguous != 0;
}

/// How a step can update one parameter; `rebuild` renews a stale slot, or refuses by leaving its address null.
template <class Slot, class Rebuild>
Readiness readiness(const Tensor& parameter, Slot& slot, Rebuild&& rebuild) {
  const AccumulationNode* node = accumulation_node(parameter.impl());
  if (node == nullptr || !node->grad.defined() || parameter.raw_view().layout.numel == 0) return Readiness::absent;
  const View& gradient = node->grad.raw_view();
  if (WEFT_UNLIKELY(!slot_is_current(slot, parameter.raw_view(), gradient))) {
    slot.parameter.data = nullptr;
    rebuild();
    if (gradient.layout.contiguous == 0) slot.parameter.data = nullptr;
    if (slot.parameter.data == nullptr) return Readiness::composite;
    slot.gradient = gradient;
  }
  slot.gradient.data = gradient.data;
  return Readiness::fused;
}

/// Calls fused(first, end) on the longest runs of parameters that are ready for it and alike, and composite(i) on the
/// others that have a gradient.
template <class Ready, class Alike, class Fused, class Composite>
void for_each_run(size_t begin, size_t end, Ready&& ready, Alike&& alike, Fused&& fused, Composite&& composite) {
  size_t first = begin;
  for (size_t i = begin; i < end; ++i) {
    const Readiness r = ready(i);
    const bool joins = r == Readiness::fused && (first == i || alike(first, i));
    if (joins) continue;
    if (first < i) fused(first, i);
    first = r == Readiness::fused ? i : i + 1;
    if (r == Readiness::composite) composite(i);
  }
  if (first < end) fused(first, end);
}

inline bool same_device(const View& a, const View& b) {
  return a.layout.device_type == b.layout.device_type && a.layout.device_index == b.layout.device_index;
}

inline bool fusible(const Tensor& parameter) {
  return parameter.is_contiguous() && (parameter.dtype() == DType::f32 || parameter.dtype() == DType::f64);
}

template <class Rule>
void Optimizer::step_by(const Rule& rule, std::vector<typename Rule::Slot>& slots, Location where) {
  if (WEFT_UNLIKELY(detail::step_recorder != nullptr)) {
    return detail::step_recorder->repeat(name_, &repeat_owner_, [this, where] { step(where); });
  }
  const KernelScope scope(name_, where);
  const CallScope call(name_, where);
  size_t begin = 0;
  for (const Group& group : groups_) {
    const auto parameter = [&](size_t i) -> const Tensor& { return group.parameters[i - begin]; };
    const auto rebuild = [&](size_t i) {
      State& state = states_[i];
      const Tensor& p = parameter(i);
      if (state.tensors.empty()) start(state, p);
      for (Tensor& t : state.tensors) t = t.to(p.dtype() == f64 ? f64 : f32, where).to(p.device(), where);
      if (fusible(p) && Rule::kernel(p.raw_view()) != nullptr) slots[i] = Rule::slot(p.raw_view(), state.tensors);
    };
    const auto done = [&](size_t i) {
      states_[i].steps += state_names_.empty() ? 0 : 1;
      note_write(parameter(i));
    };
    for_each_run(
        begin, begin + group.parameters.size(),
        [&](size_t i) { return readiness(parameter(i), slots[i], [&] { rebuild(i); }); },
        [&](size_t a, size_t b) {
          return Rule::alike(states_[a].steps, states_[b].steps) && same_device(slots[a].parameter, slots[b].parameter);
        },
        [&](size_t first, size_t end) {
          const auto settings = rule.settings(group, states_[first].steps);
          Rule::kernel(slots[first].parameter)({&slots[first], end - first}, settings);
          for (size_t i = first; i < end; ++i) done(i);
        },
        [&](size_t i) {
          Rule::composite(parameter(i), rule.settings(group, states_[i].steps), states_[i].tensors);
          done(i);
        });
    begin += group.parameters.size();
  }
}

}  // namespace weft::optim
