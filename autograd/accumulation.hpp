// The accumulation node of a leaf: where its gradient is kept and added up.
#pragma once

#include <optional>

#include "../tensor/atomic.hpp"
#include "hooks.hpp"
#include "node.hpp"
#include "../tensor/word_lock.hpp"

namespace weft {

struct AccumulationNode : Node {
  explicit AccumulationNode(TensorImpl* leaf_);

  /// Guards `leaf` and `grad`; nothing runs under it.
  struct Lock : detail::WordLock {
    explicit Lock(AccumulationNode& node) : WordLock(node.locked) {}
  };
  /// One backward pass at a time adds to the gradient. Others, observers of the addition included, may read it
  /// meanwhile. AutogradError for a backward into the same leaf from inside the addition.
  class AddingScope {
   public:
    explicit AddingScope(AccumulationNode& node);
    ~AddingScope();

   private:
    static constinit thread_local const AddingScope* innermost;
    const AccumulationNode* node_;
    const AddingScope* outer_;
    std::optional<detail::WordLock> lock_;
  };

  Atomic<uint32_t> locked{0}, adding{0};
  /// Weak: null once the leaf has died.
  TensorImpl* leaf;
  Tensor grad;
};

/// The accumulation node of a leaf that requires a gradient.
AccumulationNode* accumulation_node(const TensorImpl* leaf);

/// Where the retained gradient of a node's output is kept, or null. Under the lock of `hooks`.
NodeHooks::RetainedGradient* retained_slot(NodeHooks& hooks, uint16_t output);

/// Adds `gradient` to the leaf's, or takes its buffer over where nothing else holds it. AutogradError where the leaf
/// was moved since its use was recorded.
void accumulate(AccumulationNode& node, Tensor&& gradient, bool create_graph);

}  // namespace weft
