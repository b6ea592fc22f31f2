// Checkpointing trades time for memory: the tensors that the ops of a function keep for backward are dropped and
// computed again (Chen et al. 2016).
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

/// One checkpointed call: its inputs, its random state, and what the second run of its function computes.
class WEFT_API CheckpointCall {
 public:
  using Function = Callback<void(std::span<const Tensor> inputs)>;

  CheckpointCall(std::vector<Tensor> inputs, Function again, Location where);
  ~CheckpointCall();
  CheckpointCall(const CheckpointCall&) = delete;
  /// The scope in which the function runs the first time.
  SavedTensorHooks hooks();

  struct State;

 private:
  Shared<State> state_;
};

/// Checkpointed functions that draw from `stream` draw the same again: to be called before they do.
WEFT_API void note_stream(const Shared<Generator>& stream);

/// While it lives, `stream` is the thread's default generator of the CPU, and checkpoints replay it.
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

/// `fn(inputs...)`, keeping only the inputs for backward: when backward first needs a tensor that an op inside saved,
/// `fn` runs again on the inputs, from the same random state, and recomputes all of them. So `fn` must compute the same
/// again: AutogradError where it saves other tensors than before, and where an input was written to since. Gradients
/// are bitwise those without it; captured parameters get theirs; `create_graph` works; calls nest. `fn` takes tensors,
/// captures the rest, and returns anything. It and what it refers to must live until backward has run. Running
/// statistics of batch and instance normalisation move the first time alone (`recomputing()`, autograd/mode.hpp).
/// Modules are checkpointed by name: nn/checkpointing.hpp.
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
