// The graph's node of a call to a registered op. Not public.
#pragma once

#include <list>

#include "registry.hpp"

namespace weft::detail {

/// The tensors among the arguments, lists element by element, and the argument that each comes from.
struct CallTensors {
  std::vector<Tensor> tensors;
  std::vector<size_t> arguments;

  explicit CallTensors(std::span<const Value> values);
  bool need_gradients() const;
};

/// The recording of a call, prepared before its kernel runs: edges then refer to the old values of tensors written in
/// place, and nothing is allocated for them afterwards.
class RecordedCall {
 public:
  /// The node's saved values.
  struct Kept;
  RecordedCall(Held<RegisteredOp> op, std::span<const Value> values, const CallTensors& inputs);
  ~RecordedCall();
  /// Makes the results, those that are written in place included, results of the node.
  void finish(std::span<const Tensor> results);
  /// Called after the kernel failed: partially written tensors have no defined gradient.
  void fail() noexcept;

 private:
  Shared<Kept> kept_;
  NodeHandle node_;
  std::list<Rebase> rebases_;
};

}  // namespace weft::detail
