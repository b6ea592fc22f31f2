// Running the graph backwards.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

class Edge;
struct Node;

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Inputs that the outputs do not depend on give an undefined tensor instead of an error.
  bool allow_unused = false;
};

/// Fills the `.grad` of every leaf the outputs depend on. `seeds` is empty or has one gradient per output; an undefined
/// seed stands for one and is legal for 1-element outputs only.
WEFT_API void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds = {},
                       BackwardOptions options = {}, Location where = {});

/// Gradients of the outputs (weighted by `seeds`) with respect to `inputs`, leaves or not; no `.grad` is touched.
/// AutogradError for an input that is unused or needs no gradient, unless allowed.
WEFT_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                  std::span<const Tensor> seeds = {}, GradOptions options = {}, Location where = {});
WEFT_API std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                                  std::initializer_list<Tensor> seeds = {}, GradOptions options = {},
                                  Location where = {});

/// True where the tensor's memory may be written or taken over: no handles but the caller's, no view, nobody else who
/// uses the storage, no outside owner.
inline bool exclusively_owned(const TensorImpl* impl, uint32_t handles = 1) {
  return impl->refs.value() == handles && impl->base == nullptr && impl->storage->refs.value() == 1 &&
         !impl->storage->external;
}

/// What became of the gradient buffers of the calling thread's backward passes since the last reset.
struct GradStats {
  int64_t allocated = 0;             ///< copied or summed into memory of their own
  int64_t shared = 0;                ///< a leaf took over the buffer that backward made
  int64_t accumulated_in_place = 0;  ///< added into a buffer that was there
  int64_t bytes_saved = 0;           ///< not allocated because of the two
};
WEFT_API GradStats grad_stats();
WEFT_API void reset_grad_stats();

/// One pass as a watch sees it.
struct BackwardPass {
  std::span<const Edge> roots;
  BackwardOptions options;
};

/// Sees every node that this thread's backward passes run while a guard is there: the slot on which tools stand. Passes
/// that run already are not seen. Gradients are undefined where none flows; they may be kept, not written.
class WEFT_API BackwardWatch {
 public:
  virtual ~BackwardWatch();
  /// `incoming`: of the node's outputs, after their hooks.
  virtual void before(const BackwardPass&, Node&, std::span<const Tensor> /*incoming*/) {}
  /// `outgoing`: of its inputs, after the node's hooks. Both are empty for a leaf. What the node saved is still there.
  virtual void after(const BackwardPass&, Node&, std::span<const Tensor> /*incoming*/,
                     std::span<const Tensor> /*outgoing*/) {}
};

/// Installs a watch on this thread for the scope. Guards of a thread die newest first.
class WEFT_API BackwardWatchGuard {
 public:
  explicit BackwardWatchGuard(BackwardWatch& watch);
  ~BackwardWatchGuard();
  BackwardWatchGuard(const BackwardWatchGuard&) = delete;

 private:
  friend class GraphRun;
  BackwardWatch& watch_;
  const BackwardWatchGuard* outer_;
};

/// Buffer sharing between gradients, on by default; off (or WEFT_GRAD_SHARE=0) every gradient gets its own memory.
WEFT_API bool gradient_sharing();
WEFT_API void set_gradient_sharing(bool on);

namespace detail {
extern WEFT_API std::atomic<bool> share_gradients;
extern constinit thread_local GradStats grad_counts;
}  // namespace detail

}  // namespace weft
