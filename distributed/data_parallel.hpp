// Data parallelism: the same model on every rank of a group, each with its own data. Gradients are averaged while
// backward runs.
//
//   const DataParallel replicas(model.parameters(), {.buffers = model.buffers()});   // values of rank 0
//   for (…) {
//     optimizer.zero_grad();
//     loss(batch_of(rank)).backward();    // buckets of gradients are sent before it ends
//     replicas.finish();                  // every rank has the mean of all ranks' gradients
//     optimizer.step();
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../tensor/shared.hpp"
#include "../tensor/tensor.hpp"
#include "group.hpp"

namespace weft::distributed {

struct DataParallelOptions {
  /// Bucket size: gradients are sent together up to this many bytes; the last parameters first, since backward computes
  /// their gradients first.
  int64_t bucket_bytes = int64_t{25} << 20;
  /// Tensors that are broadcast from rank 0 in addition to the parameters.
  std::vector<Tensor> buffers = {};
  Group group = world();
};

/// A value; copies are the same replicas. While one exists, hooks on the parameters collect their gradients.
class WEFT_API DataParallel {
 public:
  class NoSync;

  /// Called by all ranks of the group. Parameters that require no gradient are not averaged. Raises ValueError for a
  /// parameter that is undefined, not a leaf, or given twice, for bucket_bytes below 1, and if shapes or dtypes differ
  /// between ranks.
  explicit DataParallel(std::vector<Tensor> parameters, DataParallelOptions options = {}, Location where = {});

  /// Waits for the means, and makes them the gradients of all parameters that some rank's backward reached. Ranks whose
  /// backward did not reach a parameter count as zero. Called by all ranks after each backward outside of no_sync. The
  /// gradients of a bucket share storage. A second backward before finish() raises AutogradError if it changes a
  /// gradient that has already been sent.
  void finish(Location where = {}) const;

  /// While the guard exists, gradients accumulate on this rank only; the next backward outside of it sends the sums.
  /// All ranks use it for the same steps.
  [[nodiscard]] NoSync no_sync() const;

  /// Indices of the parameters that no rank's backward reached before the last finish().
  std::vector<size_t> unused() const;

 private:
  struct State;
  Shared<State> state_;
};

class WEFT_API DataParallel::NoSync {
 public:
  ~NoSync();
  NoSync(NoSync&&) noexcept = default;

 private:
  friend class DataParallel;
  explicit NoSync(Shared<State> state);
  Shared<State> state_;
  bool outer_;
};

}  // namespace weft::distributed
