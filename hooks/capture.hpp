// A training step that is captured runs again as the list of kernels that it was, without ops, graph and allocations.
//
//   auto step = capture([&](const Tensor& x, const Tensor& y) {
//     optimizer.zero_grad();
//     const Tensor loss = cross_entropy(net(x), y);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (const auto& [x, y] : batches) losses.push_back(step(x, y).item<double>());
//
// The step's first call runs as it is, and so do the next two, which are recorded: where both did the same work on the
// same memory, later calls replay it, with the same bits. Inputs of other shapes, dtypes or devices are recorded anew,
// and so is a step whose parameters, states or gradients got other memory since. Each setting has its own recording:
// modes and hooks of modules, replaced members, leaves that require a gradient or hold one, autocast and gradient
// modes. Numbers and flags of the program's own that the step refers to are not seen in C++: call forget() after a
// change.
//
// What is replayed: kernels and copies on every device, random draws (each replay draws anew from its generators),
// gradients of leaves, optimizers with their present learning rates, versions of what is written in place. What the
// step does besides that on the host is not: values that are read (`item`), learning rates that are set, shapes that
// follow from values and streams that are changed inside the step make it one that cannot be captured, and say so with
// their line; counters of the program's own stay as they are.
#pragma once

#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/pimpl.hpp"
#include "../tensor/index.hpp"

namespace weft {

struct CaptureOptions {
  /// So many recordings are kept, of kinds of inputs (their shapes, dtypes and devices) and of settings; the oldest
  /// goes first. A warning tells where that goes on.
  int most_recordings = 8;
};

struct CaptureStats {
  int64_t eager = 0;     ///< calls that ran the step, recorded ones among them
  int64_t recorded = 0;  ///< of those
  int64_t replayed = 0;
  int64_t recordings = 0;  ///< that are kept now
  int64_t kernels = 0;     ///< of the recording that was used last
  int64_t batched = 0;     ///< of them, those whose commands the device repeats by itself, without host code
  size_t bytes = 0;        ///< memory that recordings hold for what is computed inside the step
};

namespace detail {

/// Recordings of one step.
class WEFT_API StepReplayer {
 public:
  using Run = std::vector<Tensor> (*)(void* step, std::span<const Tensor> inputs);

  explicit StepReplayer(CaptureOptions options);
  StepReplayer(StepReplayer&&) noexcept;
  StepReplayer& operator=(StepReplayer&&) noexcept;
  ~StepReplayer();
  /// `settings` is what else a recording depends on.
  std::vector<Tensor> run(Run run, void* step, std::span<const Tensor> inputs, Location where,
                          std::string_view settings = {});
  CaptureStats stats() const;
  void forget();

 private:
  struct State;
  Pimpl<State> state_;
};

template <class F, size_t... i>
std::vector<Tensor> run_step(F& step, std::span<const Tensor> inputs, std::index_sequence<i...>) {
  using Result = decltype(step(inputs[i]...));
  if constexpr (std::is_void_v<Result>) {
    step(inputs[i]...);
    return {};
  } else if constexpr (std::is_convertible_v<Result, Tensor>) {
    return {Tensor(step(inputs[i]...))};
  } else {
    return step(inputs[i]...);
  }
}

}  // namespace detail

/// A step of `capture`. It may be moved to another one when that is made; used by one thread at a time. It keeps the
/// leaves whose gradients it replays.
template <class F>
class CapturedStep {
 public:
  CapturedStep(F step, CaptureOptions options) : step_(std::move(step)), replayer_(options) {}

  /// What the step returns, detached: nothing, a tensor or a vector of tensors. Those of a replay lie in the
  /// recording's own memory, which the next call writes over: clone() what is to be kept. The inputs are copied.
  /// NotImplementedError, after the step has run, where it cannot be captured; errors of the step as they are.
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, const Tensor&> && ...), "capture what is no tensor");
    return at(Location::none(), inputs...);
  }
  /// The same, with the place for errors.
  template <class... Inputs>
  auto at(Location where, const Inputs&... inputs) {
    using Result = std::invoke_result_t<F&, const Inputs&...>;
    const Tensor list[] = {inputs..., Tensor()};
    const auto run = [](void* step, std::span<const Tensor> given) {
      return detail::run_step(*static_cast<F*>(step), given, std::index_sequence_for<Inputs...>());
    };
    std::vector<Tensor> results = replayer_.run(run, &step_, {list, sizeof...(Inputs)}, where);
    if constexpr (std::is_convertible_v<Result, Tensor>) return Tensor(std::move(results.front()));
    else if constexpr (!std::is_void_v<Result>) return results;
  }

  CaptureStats stats() const { return replayer_.stats(); }
  /// Drops all recordings and their memory; the next calls record anew.
  void forget() { replayer_.forget(); }

 private:
  F step_;
  detail::StepReplayer replayer_;
};

/// `step` takes any number of tensors by const reference, captures the rest, and returns nothing, a tensor or a vector
/// of them. It and what it refers to must live as long as what this returns.
template <class F>
CapturedStep<F> capture(F step, CaptureOptions options = {}) {
  return CapturedStep<F>(std::move(step), options);
}

}  // namespace weft
