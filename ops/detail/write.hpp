// Writing to a tensor that is there already, in the one order that is right. Not public.
#pragma once

#include <weft/ops/detail/common.hpp>

namespace weft {

/// Whether `target` may be written at all: defined, no leaf that requires a gradient, no element there twice.
inline const Tensor& check_target(const Tensor& target, const char* op, Location where) {
  checked(target, op, where);
  check_inplace(target, op, where);
  check_writable(target, op, where);
  return target;
}

/// Runs `write`, which changes the elements of `target`, and makes it known: the version, the writer and, where
/// gradients are recorded, a node as the producer of the new value from `inputs`. Name `target` among them where its
/// old value matters. `make_formula` runs before the write, so that it can keep old values; a formula that reads the
/// new one has a member `written(target)`.
template <class Write, class MakeFormula, class... Inputs>
void write_recorded(const Tensor& target, const char* op, Location where, Write&& write, MakeFormula&& make_formula,
                    const Inputs&... inputs) {
  if (WEFT_LIKELY(!should_record(target, inputs...))) {
    write();
    note_write(target, op, where);
    return;
  }
  using Formula = std::invoke_result_t<MakeFormula>;
  constexpr int edge_count = sizeof...(Inputs) == 0 ? 1 : sizeof...(Inputs);
  Formula formula = make_formula();
  write();
  Node* node = make_node<edge_count>(op, where, std::move(formula));
  // Before the version changes: the edges belong to the old values, and an old view would derive its node anew.
  int i = 0;
  (set_edge(node, i++, inputs.impl()), ...);
  (void)i;
  note_write(target, op, where);
  if constexpr (requires(Formula f) { f.written(target); }) {
    static_cast<detail::OpNode<Formula, edge_count>*>(node)->formula.written(target);
  }
  rebase_history(target, node);
}

/// The formula of a write that leaves nothing of the old value: the gradient ends there.
struct Overwritten {
  Tensor operator()(Node&, Tensor&&) { return {}; }
};

/// `operand`, or a copy where the write to `target` would change it. Not recorded.
inline Tensor apart(const Tensor& operand, const Tensor& target, Location where) {
  if (WEFT_LIKELY(!operand.shares_storage(target))) return operand;
  NoGradGuard unrecorded;
  return operand.clone(where);
}

}  // namespace weft
