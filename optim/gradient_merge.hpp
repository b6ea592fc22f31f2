// Merges the gradients of several backward passes, with sums in float32.
//
//   optim::GradientMerge merge(model.parameters(), {.k = 4});
//   for (…) {
//     loss.backward();
//     if (!merge.take(tokens)) continue;  // true at every fourth call; batches are weighted by their tokens
//     optim::clip_grad_norm_(model.parameters(), 1.0);
//     optimizer.step();
//     schedule.step();
//     optimizer.zero_grad();
//   }
//   if (merge.flush()) optimizer.step();  // the rest of an epoch; or merge.drop()
//
// With replicas, run each backward in `no_sync`; the merged gradient is reduced by calling `finish()` after `take()`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::optim {

struct GradientMergeOptions {
  /// Number of backward passes per step.
  int64_t k = 1;
  /// Merge to the weighted mean, for losses that are means, so that k batches equal one of their joint size. Otherwise
  /// merge to the sum, with all weights 1.
  bool average = true;
};

class WEFT_API GradientMerge {
 public:
  /// Raises ValueError for k below 1 and for a parameter that is undefined, not a leaf, or given twice.
  explicit GradientMerge(std::vector<Tensor> parameters, GradientMergeOptions options = {}, Location where = {});

  /// Called after each backward: adds the gradients to the sums and clears them. The k-th call returns true: the
  /// parameters then have the merged gradients, rounded once to their dtype, and the sums are reset. `weight` is the
  /// number of samples or tokens in the mean loss; 0 ignores the gradients. Parameters without any gradient get none.
  /// NaN and infinity propagate to the merged gradient, so that a GradScaler skips the step. Raises ValueError for a
  /// negative or not finite weight, and for one other than 1 without `average`. If memory runs out, nothing changes.
  bool take(double weight = 1, Location where = {});
  bool take(Location where) { return take(1, where); }
  /// Merges the pending backward passes, divided by their weights. Returns false if there are none.
  bool flush(Location where = {});
  /// Discards the pending backward passes.
  void drop();
  /// Number of pending backward passes.
  int64_t pending() const { return pending_; }

  /// The sums by index of the parameter, "3", in float32 (float64 for float64), and "pending". If weights are not all
  /// 1, also "weight": the first positive weight, and the sum of all divided by it. Sums share memory.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies the values into the sums. Raises ValueError for an unknown name or a missing "pending", ShapeError for
  /// another shape; then nothing is changed.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  void hand_out();

  std::vector<Tensor> parameters_, sums_;
  GradientMergeOptions options_;
  int64_t pending_ = 0;
  /// The first positive weight, and the sum of all weights in this unit.
  double unit_ = 0, units_ = 0;
};

}  // namespace weft::optim
