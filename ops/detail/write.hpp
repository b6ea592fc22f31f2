// In-place writes, with their steps in the only correct order. Not public.
//
// The order is: save the old value with its history, allocate everything, write the elements, raise the version, set
// the new node. A write that fails before the elements change leaves value, version and history as they were.
#pragma once

#include "../../backends/watch/observe.hpp"
#include "common.hpp"

namespace weft {

/// `target`, if it may be written. Raises ValueError if it is undefined or several positions share an element,
/// AutogradError for a leaf that requires a gradient.
inline const Tensor& check_target(const Tensor& target) {
  checked(target);
  check_inplace(target);
  check_writable(target);
  return target;
}

/// DeviceError unless `operand` is on the target's device or a single value on the CPU.
void check_in_place_device(const Tensor& target, const Tensor& operand);

/// Runs `write`, which changes the elements of `target` or throws before, and raises the version. It is raised, too,
/// where an observer throws after the kernel, since the elements have changed then.
template <class Write>
void write_unrecorded(const Tensor& target, Write&& write) {
  try {
    write();
  } catch (...) {
    if (detail::failed_after_kernel()) note_write(target);
    throw;
  }
  note_write(target);
}

/// Runs `write`, which changes the elements of `target` or throws before, and notes it: the version, the writer and,
/// where gradients are recorded, a node as the producer of the new value from `inputs`, `target` among them where its
/// old value matters. `make_backward` runs before the write, so that it can keep old values; a backward that reads the
/// new one has a member `new_value()`, which points to where it is kept, or is null. All memory is allocated before the
/// write, so that a failure changes nothing.
template <class Write, class MakeBackward, class... Inputs>
void write_recorded(const Tensor& target, Write&& write, MakeBackward&& make_backward, const Inputs&... inputs) {
  const bool recorded = should_record(target, inputs...) && is_inexact(target.dtype());
  if (WEFT_LIKELY(!recorded)) return write_unrecorded(target, write);
  using Backward = std::invoke_result_t<MakeBackward>;
  constexpr int edge_count = sizeof...(Inputs) == 0 ? 1 : sizeof...(Inputs);
  NodeHandle handle(make_node_with<edge_count>(make_backward));
  Node* node = handle.get();
  // Before the version changes: the edges belong to the old values, and an old view would derive its node anew.
  int i = 0;
  (set_edge(node, i++, inputs.impl()), ...);
  (void)i;
  SavedOutput* kept = nullptr;
  if constexpr (requires(Backward f) { f.new_value(); }) {
    kept = static_cast<detail::OpNode<Backward, edge_count>*>(node)->backward.new_value();
  }
  const bool packed = detail::saved_hooks != nullptr;  // the user's hook must see the new value
  if (kept != nullptr && !packed) *kept = SavedOutput(target);
  Rebase rebase(target, handle.take());
  const uint32_t version = target.version();
  try {
    write_unrecorded(target, write);
    if (kept != nullptr && packed) *kept = SavedOutput(target);
    else if (kept != nullptr) kept->renew();
  } catch (...) {
    if (target.version() != version) {  // already written: backward will report that nothing was saved for it
      detail::close_saved(*node);
      rebase.commit();
    }
    throw;
  }
  rebase.commit();
}

/// target = compute(its value), for ops without an in-place kernel. The result is converted to the target's dtype, as
/// check_target_dtype allows. `operands` are the other inputs of compute. Raises ShapeError for a result of another
/// shape.
template <class Compute, class... Operands>
const Tensor& write_computed(const Tensor& target, Compute&& compute, const Operands&... operands) {
  check_target(target);
  (check_in_place_device(target, operands), ...);
  const Tensor old = should_record(target, operands...) ? target.clone() : target;  // backward reads the old value
  const Tensor result = compute(old);
  check_target_dtype(result.dtype(), target);
  if (WEFT_UNLIKELY(!(result.shape() == target.shape()))) {
    raise<ShapeError>({.problem = fmt::format("the target has shape {}, the result {}", target.shape().text(),
                                              result.shape().text())});
  }
  return target.copy_(result);
}

/// The backward of a write that overwrites all of the old value: no gradient flows on.
struct Overwritten {
  Tensor operator()(Tensor&&) { return {}; }
};

/// `operand`, or a copy where the write to `target` would change it. Not recorded.
inline Tensor unaliased(const Tensor& operand, const Tensor& target) {
  if (WEFT_LIKELY(!operand.shares_storage(target))) return operand;
  NoGradGuard unrecorded;
  return operand.clone();
}

}  // namespace weft
