// The accumulation node of a leaf: where its gradient is kept and added up.
#pragma once

#include <atomic>
#include <optional>

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
  /// One backward pass at a time adds to the gradient. Others may ask for it meanwhile, whoever watches the sum too.
  class Adding {
   public:
    explicit Adding(AccumulationNode& node);
    ~Adding();

   private:
    static constinit thread_local const Adding* innermost;
    const AccumulationNode* node_;
    const Adding* outer_;
    std::optional<detail::WordLock> lock_;
  };

  std::atomic<uint32_t> locked{0}, adding{0};
  /// Weak: null once the leaf died.
  TensorImpl* leaf;
  Tensor grad;
};

/// The accumulation node of a leaf that requires a gradient.
AccumulationNode* accumulation_node(const TensorImpl* leaf);

/// Where the retained gradient of a node's output is kept, or null. Under the lock of `hooks`.
NodeHooks::Kept* kept_slot(NodeHooks& hooks, uint16_t output);

/// Adds `gradient` to the leaf's: takes the buffer over when nobody else holds it.
void accumulate(AccumulationNode& node, Tensor&& gradient, bool create_graph);

}  // namespace weft
