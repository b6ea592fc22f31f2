// Where hooks sit in the graph. hooks/ builds its tools on these slots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <weft/tensor/tensor.hpp>

namespace weft {

/// A registered function, shared by its slot in the graph and by its handles. Removal frees the function at once, or,
/// when it is running, as soon as it returns.
struct HookState {
  std::mutex mutex;
  std::function<Tensor(const Tensor&)> call;
  bool alive = true;
  int running = 0;

  /// True the first time.
  bool retire();
  bool removed();
};

/// Gradient hooks and kept gradients of one node; most nodes have none. The mutex guards the lists, since several
/// backward passes may meet in a node; no hook is called under it.
struct NodeHooks {
  struct Entry {
    std::shared_ptr<HookState> state;
    uint16_t output;
  };
  struct Kept {
    uint16_t output;
    Tensor gradient;
  };
  mutable std::mutex mutex;
  std::vector<Entry> gradient_hooks;
  /// Leaves only: called with the leaf once `.grad` holds the sum; what they return is ignored.
  std::vector<Entry> accumulated_hooks;
  std::vector<Kept> kept;
};

/// Names one registered hook. Copies name the same hook; the handle does not own it.
class WEFT_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::shared_ptr<HookState> state) : state_(std::move(state)) {}
  /// True the first time, false when the hook is gone already. Safe inside the hook and after the tensor died.
  bool remove();

 private:
  std::shared_ptr<HookState> state_;
};

/// Calls `hook` with the gradient of `tensor` once all contributions are summed; what it returns replaces the gradient
/// (undefined keeps it). ValueError where no gradient flows; a replacement must match shape, dtype and device.
/// The hook of a result dies with its graph: a backward that does not retain the graph frees it.
WEFT_API HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook, Location where = {});

/// Calls `hook` with the leaf after this backward's sum was added to its `.grad`, once per backward.
/// ValueError unless `tensor` is a leaf that requires a gradient.
WEFT_API HookHandle register_post_accumulate_grad_hook(const Tensor& tensor, std::function<void(const Tensor&)> hook,
                                                       Location where = {});

/// Runs the living hooks of `output` in order on `gradient`. Used by the engine.
void run_gradient_hooks(const Node& node, int output, Tensor& gradient);
void run_accumulated_hooks(const Node& node, const Tensor& leaf);
/// Frees the gradient hooks of a node that can never run again: one that holds its own tensor would keep both for ever.
void drop_gradient_hooks(Node& node);

}  // namespace weft
