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

/// What will be recorded of a call: made before its kernel runs, so that the edges belong to the old values of what is
/// written in place and nothing has to be allocated for those afterwards.
class RecordedCall {
 public:
  /// What the node keeps.
  struct Kept;
  RecordedCall(Held<RegisteredOp> op, std::span<const Value> values, const CallTensors& inputs);
  ~RecordedCall();
  /// Makes the results, those that are written in place included, results of the node.
  void finish(std::span<const Tensor> results);
  /// After the kernel failed: what it has written already has no gradient that could be told.
  void fail() noexcept;

 private:
  Shared<Kept> kept_;
  NodeHandle node_;
  std::list<Rebase> rebases_;
};

}  // namespace weft::detail
