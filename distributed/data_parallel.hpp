// The same model on every rank of a group, each on data of its own, with gradients that are averaged while backward
// goes on.
//
//   const DataParallel replicas(model.parameters(), {.buffers = model.buffers()});   // values of rank 0
//   for (…) {
//     optimizer.zero_grad();
//     loss(batch_of(rank)).backward();    // buckets of gradients are under way before it ends
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
  /// Gradients travel together up to this size; the last parameters' first, since backward comes to them first.
  int64_t bucket_bytes = int64_t{25} << 20;
  /// What becomes rank 0's besides the parameters.
  std::vector<Tensor> buffers = {};
  Group group = world();
};

/// A value; copies are the same replicas. While one lives, hooks on the parameters watch for their gradients.
class WEFT_API DataParallel {
 public:
  class NoSync;

  /// Called by all ranks of the group. Parameters that require no gradient are left out of what follows. ValueError
  /// for a parameter that is undefined or not a leaf, for one given twice, for bucket_bytes below 1, and where ranks
  /// have other shapes or dtypes.
  explicit DataParallel(std::vector<Tensor> parameters, DataParallelOptions options = {}, Location where = {});

  /// Waits for the means, which then are the parameters' gradients, where a rank's backward came to them. A rank whose
  /// own did not counts as zero. Called by all ranks behind each backward outside of no_sync. The gradients of a bucket
  /// share memory. A second backward before it raises AutogradError, where a gradient that has left already changes.
  void finish(Location where = {}) const;

  /// While it lives, gradients are added up on this rank alone; the next backward outside of it sends the sums. All
  /// ranks use it for the same steps.
  [[nodiscard]] NoSync no_sync() const;

  /// Numbers of the parameters that no rank's backward came to before the last finish().
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
