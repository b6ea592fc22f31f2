// Checkpointing: memory for time. What the ops of a function would keep for backward is dropped and computed again.
//
//   Tensor h = checkpoint([&](const Tensor& x) { return block(x); }, x);
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autograd/saved_hooks.hpp"

namespace weft {

namespace detail {

/// One checkpointed call: its inputs, its random state, and what the second run of its function computes.
class WEFT_API CheckpointCall {
 public:
  using Function = std::function<void(std::span<const Tensor> inputs)>;

  CheckpointCall(std::vector<Tensor> inputs, Function again, Location where);
  ~CheckpointCall();
  CheckpointCall(const CheckpointCall&) = delete;
  /// In whose scope the function runs the first time.
  SavedTensorHooks hooks();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace detail

/// `fn(inputs...)`, of which only the inputs are kept: when backward first needs a tensor that an op inside had saved,
/// `fn` runs a second time on them, with the random state that it began with, and gives all of them. So `fn` must
/// compute the same again: AutogradError where it saves other tensors than before, and where an input was written to
/// since. Gradients are bitwise those without it; captured parameters get theirs; `create_graph` works; calls nest. It
/// takes tensors, captures the rest, and returns anything. It and what it refers to must live until backward ran.
template <class F, class... Inputs>
auto checkpoint_at(Location where, F fn, const Inputs&... inputs) {
  static_assert((std::is_convertible_v<const Inputs&, const Tensor&> && ...), "capture what is no tensor");
  if (!recording()) return fn(inputs...);
  const auto again = [fn](std::span<const Tensor> kept) mutable {
    [&]<size_t... i>(std::index_sequence<i...>) { (void)fn(kept[i]...); }
    (std::index_sequence_for<Inputs...>());
  };
  detail::CheckpointCall call({inputs...}, again, where);
  const auto hooks = call.hooks();
  return fn(inputs...);
}
template <class F, class... Inputs>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Location>)
auto checkpoint(F fn, const Inputs&... inputs) { return checkpoint_at(Location::none(), std::move(fn), inputs...); }

}  // namespace weft
