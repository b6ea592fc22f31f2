// Activation checkpointing trades time for memory: tensors that the ops of a function save for backward are dropped and
// recomputed (Chen et al. 2016).
//
//   Tensor h = checkpoint([&](const Tensor& x) { return block(x); }, x);
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autograd/saved_hooks.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/shared.hpp"

namespace weft {

namespace detail {

/// One checkpointed call: its inputs, its random state, and the recomputed tensors.
class WEFT_API CheckpointCall {
 public:
  using Function = Callback<void(std::span<const Tensor> inputs)>;

  CheckpointCall(std::vector<Tensor> inputs, Function again, Location where);
  ~CheckpointCall();
  CheckpointCall(const CheckpointCall&) = delete;
  /// Returns the scope in which the function runs the first time.
  SavedTensorHooks hooks();

  struct State;

 private:
  Shared<State> state_;
};

/// Registers a generator before a checkpointed function draws from it, so that the recomputation draws the same
/// numbers.
WEFT_API void note_stream(const Shared<Generator>& stream);

/// While it exists, `stream` is the thread's default CPU generator, and checkpoints replay it.
class WEFT_API StreamGuard {
 public:
  explicit StreamGuard(const Shared<Generator>& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;

 private:
  const Shared<Generator> stream_;
  const Shared<Generator>* outer_;
  GeneratorGuard guard_;
};

}  // namespace detail

/// Returns `fn(inputs...)` and keeps only the inputs for backward. When backward first needs a saved tensor, `fn` runs
/// again on the inputs, from the same random state, and recomputes all saved tensors. Gradients are bitwise equal to
/// those without checkpointing, also those of captured parameters; `create_graph` and nested calls work.
///
/// `fn` takes tensors, captures other values, and returns anything. It and its references must live until backward has
/// run. It must be deterministic: raises AutogradError if it saves different tensors in the second run, or if an input
/// was modified since. Running statistics of batch and instance normalisation are updated only the first time
/// (`recomputing()`, autograd/mode.hpp). Modules are checkpointed by name: nn/checkpointing.hpp.
template <class F, class... Inputs>
auto checkpoint_at(Location where, F fn, const Inputs&... inputs) {
  static_assert((std::is_convertible_v<const Inputs&, const Tensor&> && ...), "let the function capture other objects");
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
