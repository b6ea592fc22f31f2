// Gradients of ops that a kernel computed and that keep their inputs alone. Not public.
#pragma once

#include <span>
#include <vector>

#include "../../autograd/node.hpp"
#include "../../tensor/callback.hpp"

namespace weft {

/// The backward of an op that is a composition of public ops: it runs that on the inputs and hands its gradients on.
struct Recomputed {
  std::vector<Saved> inputs;
  Callback<Tensor(std::span<const Tensor>)> compose;

  /// Undefined inputs stay so.
  static Recomputed of(std::span<const Tensor> inputs, Callback<Tensor(std::span<const Tensor>)> compose);
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing);
};

}  // namespace weft
