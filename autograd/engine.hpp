// Running the graph backwards.
#pragma once

#include <span>
#include <vector>

#include "../tensor/atomic.hpp"
#include "../tensor/index.hpp"

namespace weft {

class Edge;
struct Node;

/// As BackwardOptions.
struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Inputs that the outputs do not depend on give an undefined tensor instead of AutogradError.
  bool allow_unused = false;
};

/// Adds to the `.grad` of every leaf that the outputs depend on. `seeds` is empty or has one gradient per output (else
/// ValueError), of the output's shape, dtype and device (else ShapeError); an undefined seed means 1. Raises
/// AutogradError if an output requires no gradient or has several elements and no seed, and if the graph was freed or a
/// saved tensor overwritten.
WEFT_API void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds = {},
                       BackwardOptions options = {}, Location where = {});

/// Gradients of the outputs (weighted by `seeds`) with respect to `inputs`, leaves or not, in their order; no `.grad`
/// is touched. Errors as backward; AutogradError also for an input that requires no gradient, and for one that is
/// unused unless `allow_unused`.
WEFT_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                  std::span<const Tensor> seeds = {}, GradOptions options = {}, Location where = {});
WEFT_API std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                                  std::initializer_list<Tensor> seeds = {}, GradOptions options = {},
                                  Location where = {});

/// True where the tensor's memory may be written or taken over: no handles but the caller's, not a view, no other user
/// of the storage, no outside owner.
inline bool exclusively_owned(const TensorImpl* impl, uint32_t handles = 1) {
  return impl->refs.value() == handles && impl->base == nullptr && impl->storage->refs.value() == 1 &&
         !impl->storage->external;
}

/// Counts of the gradient buffers of the calling thread's backward passes since the last reset.
struct GradStats {
  int64_t allocated = 0;             ///< copied or summed into new memory
  int64_t shared = 0;                ///< a leaf took over the buffer that backward made
  int64_t accumulated_in_place = 0;  ///< added into an existing buffer
  int64_t bytes_saved = 0;           ///< by sharing and in-place addition
};
WEFT_API GradStats grad_stats();
WEFT_API void reset_grad_stats();

/// One pass as a watch sees it.
struct BackwardPass {
  std::span<const Edge> roots;
  BackwardOptions options;
};

/// Sees every node that this thread's backward passes run while a BackwardWatchGuard lives; tools are built on it.
/// Passes that run already are not seen. Gradients are undefined where none flows; they may be kept, but not written.
class WEFT_API BackwardWatch {
 public:
  virtual ~BackwardWatch();
  /// `incoming`: gradients of the node's outputs, after their hooks.
  virtual void before(const BackwardPass&, Node&, std::span<const Tensor> /*incoming*/) {}
  /// `outgoing`: gradients of its inputs, after the node's hooks. Both are empty for a leaf. The node's saved tensors
  /// still exist.
  virtual void after(const BackwardPass&, Node&, std::span<const Tensor> /*incoming*/,
                     std::span<const Tensor> /*outgoing*/) {}
};

/// Installs a watch on this thread for the scope. Guards may go in any order, on their own thread and outside of its
/// backward passes.
class WEFT_API BackwardWatchGuard {
 public:
  explicit BackwardWatchGuard(BackwardWatch& watch);
  ~BackwardWatchGuard();
  BackwardWatchGuard(const BackwardWatchGuard&) = delete;

 private:
  friend class GraphRun;
  BackwardWatch& watch_;
  BackwardWatchGuard* outer_;
};

/// Buffer sharing between gradients, on by default; when off (or with WEFT_GRAD_SHARE=0 in the environment) every
/// gradient gets its own memory.
WEFT_API bool gradient_sharing();
WEFT_API void set_gradient_sharing(bool on);
/// Sets it, for all threads, until the end of the scope.
class GradientSharingGuard {
 public:
  explicit GradientSharingGuard(bool on) : outer_(gradient_sharing()) { set_gradient_sharing(on); }
  ~GradientSharingGuard() { set_gradient_sharing(outer_); }
  GradientSharingGuard(const GradientSharingGuard&) = delete;

 private:
  const bool outer_;
};

namespace detail {
extern WEFT_API Atomic<bool> share_gradients;
extern constinit thread_local GradStats grad_counts;
}  // namespace detail

}  // namespace weft
