// Captures a training step and replays it as a list of kernels, without ops, graph and allocations.
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
// The first call runs the step eagerly. The next two calls are recorded; if both did the same work on the same memory,
// later calls replay it, with the same bits. The step is recorded again for inputs of other shapes, dtypes or devices,
// and if parameters, states or gradients have moved to other memory. Each combination of settings has a separate
// recording: modes and hooks of modules, replaced members, leaves that require a gradient or hold one, autocast and
// gradient modes. Changes of C++ variables that the step reads are not detected: call forget() after them.
//
// Replayed: kernels and copies on every device, random draws (each replay draws new numbers from its generators),
// gradients of leaves, optimizers with their current learning rates, versions of tensors written in place. Other host
// code of the step is not replayed: a counter, for example, stays unchanged. A step cannot be captured if it reads
// values (`item`), sets learning rates, has shapes that depend on values or switches streams. Then it raises an error
// with the line.
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
  /// Number of recordings to keep, for different inputs (shapes, dtypes and devices) and settings; the oldest is
  /// dropped first. Warns if recordings are dropped repeatedly.
  int most_recordings = 8;
};

struct CaptureStats {
  int64_t eager = 0;     ///< calls that ran the step, including recorded ones
  int64_t recorded = 0;  ///< of the eager calls
  int64_t replayed = 0;
  int64_t recordings = 0;  ///< currently kept
  int64_t kernels = 0;     ///< of the most recently used recording
  int64_t batched = 0;     ///< of these, kernels that the device repeats in a batch, without host code
  size_t bytes = 0;        ///< memory that recordings hold for tensors inside the step
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
  /// `settings` identifies further state on which a recording depends.
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

/// A step returned by `capture`. Movable. For use by one thread at a time. Keeps the leaves with replayed gradients
/// alive.
template <class F>
class CapturedStep {
 public:
  CapturedStep(F step, CaptureOptions options) : step_(std::move(step)), replayer_(options) {}

  /// Returns the results of the step, detached: nothing, a tensor or a vector of tensors. Results of a replay are in
  /// the recording's memory, which the next call overwrites: clone() them to keep them. The inputs are copied. Raises
  /// NotImplementedError, after the step has run, if it cannot be captured. Errors of the step are passed on.
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, const Tensor&> && ...),
                  "let the function capture other objects");
    return at(Location::none(), inputs...);
  }
  /// Same, with a location for errors.
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
  /// Drops all recordings and their memory; the next calls record again.
  void forget() { replayer_.forget(); }

 private:
  F step_;
  detail::StepReplayer replayer_;
};

/// `step` takes tensors by const reference, captures other values, and returns nothing, a tensor or a vector of them.
/// `step`'s references must outlive the result.
template <class F>
CapturedStep<F> capture(F step, CaptureOptions options = {}) {
  return CapturedStep<F>(std::move(step), options);
}

}  // namespace weft
