// Gradients of several backward passes as one, summed in float32.
//
//   optim::GradientMerge merge(model.parameters(), {.k = 4});
//   for (…) {
//     loss.backward();
//     if (!merge.take(tokens)) continue;  // three times of four; batches count by their tokens
//     optim::clip_grad_norm_(model.parameters(), 1.0);
//     optimizer.step();
//     schedule.step();
//     optimizer.zero_grad();
//   }
//   if (merge.flush()) optimizer.step();  // what is left of an epoch; or merge.drop()
//
// Of replicas, each backward is one in `no_sync`, and what leaves is the merged gradient: `finish()` behind `take()`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::optim {

struct GradientMergeOptions {
  /// So many backward passes are one step.
  int64_t k = 1;
  /// Their mean by weight, for losses that are means, so that k batches are as one of their joint size; otherwise their
  /// sum, in which all have weight 1.
  bool average = true;
};

class WEFT_API GradientMerge {
 public:
  /// ValueError for k below 1 and for a parameter that is undefined, not a leaf, or given twice.
  explicit GradientMerge(std::vector<Tensor> parameters, GradientMergeOptions options = {}, Location where = {});

  /// Behind each backward: gradients are added to the sums, and dropped. `weight` is the number of samples or tokens of
  /// which the loss is the mean; 0 leaves the gradients out. ValueError for one that is negative or not finite, and for
  /// another than 1 without `average`. At the k-th it returns true: then the
  /// parameters have the merged gradients, rounded once to their dtype, and the sums begin anew. Parameters that no
  /// backward came to have none. NaN or infinity in one of them is in the merged one, so that a GradScaler leaves the
  /// whole step out. All or, where memory is short, nothing.
  bool take(double weight = 1, Location where = {});
  bool take(Location where) { return take(1, where); }
  /// The same with the backward passes that there are, divided by their weights; false where there is none.
  bool flush(Location where = {});
  /// Forgets them.
  void drop();
  /// How many backward passes the sums hold.
  int64_t pending() const { return pending_; }

  /// The sums by number of the parameter, "3", in float32 (float64 for float64), "pending", and where weights are not
  /// all 1 "weight": the first one above 0, and the sum of all divided by it. Sums share memory.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies the values in. ValueError for an unknown name or a missing "pending", ShapeError for another shape; nothing
  /// is changed then.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  void hand_out();

  std::vector<Tensor> parameters_, sums_;
  GradientMergeOptions options_;
  int64_t pending_ = 0;
  /// The first weight above 0, and the sum of all in this unit.
  double unit_ = 0, units_ = 0;
};

}  // namespace weft::optim
