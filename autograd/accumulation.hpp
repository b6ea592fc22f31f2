// The accumulation node of a leaf: where its gradient is kept and added up.
//
// The gradient of a leaf is stored in its accumulation node, which points back weakly. So every tensor describes the
// destination of its gradient as a pair of node and output.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "../tensor/atomic.hpp"
#include "hooks.hpp"
#include "node.hpp"
#include "../tensor/word_lock.hpp"

namespace weft {

/// Rows of a gradient that is zero elsewhere: values [n, …] at ids [n], i64, which add up where they repeat.
struct GradientRows {
  Tensor ids, values;
  /// They ascend, and none repeats.
  bool are_distinct = false;
};

struct AccumulationNode : Node {
  explicit AccumulationNode(TensorImpl* leaf_);

  /// Guards `leaf`, `grad` and `rows`; nothing runs under it.
  struct Lock : detail::WordLock {
    explicit Lock(AccumulationNode& node) : WordLock(node.locked) {}
  };
  /// One backward pass at a time adds to the gradient. Others, observers of the addition included, may read it
  /// meanwhile. AutogradError for a backward into the same leaf from inside the addition.
  class AddingScope {
   public:
    explicit AddingScope(AccumulationNode& node);
    ~AddingScope();
    /// Whether this thread is adding to the node's gradient.
    static bool is_open(const AccumulationNode& node);

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
  /// Row-sparse terms of the gradient besides `grad`, oldest first; null without rows (gradient_rows.hpp).
  struct Rows {
    std::list<GradientRows> pieces;
    int64_t count = 0, merged = 0;  ///< how many there are, and were when they were last added up
  };
  std::unique_ptr<Rows> rows;
};

/// While it lives, errors in this thread's sums of gradients name the place where their backward was called.
class PassScope {
 public:
  explicit PassScope(Location where) : outer_(std::exchange(where_, where)) {}
  ~PassScope() { where_ = outer_; }
  PassScope(const PassScope&) = delete;
  static CallPlace sums(const char* op) { return {op, where_}; }

 private:
  static constinit thread_local Location where_;
  Location outer_;
};

/// The accumulation node of a leaf that requires a gradient.
AccumulationNode* accumulation_node(const TensorImpl* leaf);

/// The leaf of an accumulation node; undefined once it has died.
Tensor living_leaf(Node& node);

/// Where the retained gradient of a node's output is kept, or null. Under the lock of `hooks`.
NodeHooks::RetainedGradient* retained_slot(NodeHooks& hooks, uint16_t output);

/// AutogradError where a gradient of the leaf is of another dtype or device than the leaf is now. Under the lock.
void check_not_moved(const Layout& leaf, const Tensor& gradient);

/// Adds `gradient` to the leaf's, or takes its buffer over where nothing else holds it. AutogradError where the leaf
/// was moved since its use was recorded.
void accumulate(AccumulationNode& node, Tensor&& gradient, bool create_graph);

}  // namespace weft
