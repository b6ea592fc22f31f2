// Ranks as threads of one process: for tests, debuggers and notebooks.
#pragma once

#include "../tensor/callback.hpp"
#include "group.hpp"

namespace weft::distributed {

struct LocalWorldOptions {
  /// See Group::timeout; 0 means the default.
  double timeout_seconds = 0;
};

/// n ranks, each a thread during `run`.
class WEFT_API LocalWorld {
 public:
  /// Raises ValueError unless ranks > 0.
  explicit LocalWorld(int ranks, LocalWorldOptions options = {}, Location where = {});

  int size() const { return size_; }
  /// Calls `body` once per rank, each on its own thread, with that rank's world, which world() returns there. Each rank
  /// has its own default CPU generator, which starts from the state of the caller's, and kernels use one thread.
  /// Returns when all ranks have returned. If ranks throw, the others are woken with a DistributedError that names the
  /// first one, and `run` rethrows the error of that rank.
  void run(const Callback<void(const Group&)>& body, Location where = {}) const;

 private:
  int size_;
  LocalWorldOptions options_;
};

}  // namespace weft::distributed
