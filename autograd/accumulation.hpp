// The accumulation node of a leaf: where its gradient is kept and added up.
#pragma once

#include <atomic>

#include <weft/autograd/node.hpp>
#include <weft/tensor/word_lock.hpp>

namespace weft {

struct AccumulationNode : Node {
  explicit AccumulationNode(TensorImpl* leaf_);

  /// Serialises backward passes of several threads into one leaf.
  struct Lock : detail::WordLock {
    explicit Lock(AccumulationNode& node) : WordLock(node.locked) {}
  };

  std::atomic<uint32_t> locked{0};
  /// Weak: null once the leaf died.
  TensorImpl* leaf;
  Tensor grad;
};

/// The accumulation node of a leaf that requires a gradient.
AccumulationNode* accumulation_node(const TensorImpl* leaf);

/// Adds `gradient` to the leaf's: takes the buffer over when nobody else holds it.
void accumulate(AccumulationNode& node, Tensor&& gradient, bool create_graph);

}  // namespace weft
