// Ranks as threads of one process: for tests, for a debugger, for notebooks.
#pragma once

#include "../tensor/callback.hpp"
#include "group.hpp"

namespace weft::distributed {

struct LocalWorldOptions {
  /// As Group::timeout; 0 for its default.
  double timeout_seconds = 0;
};

/// n ranks, each a thread while `run` lasts.
class WEFT_API LocalWorld {
 public:
  /// ValueError unless ranks > 0.
  explicit LocalWorld(int ranks, LocalWorldOptions options = {}, Location where = {});

  int size() const { return size_; }
  /// Calls `body` once per rank, on a thread of its own, with the world as that rank sees it, which is world() there.
  /// Each rank has its own default generator of the CPU, which begins as the caller's stands, and kernels use one
  /// thread. Returns when all ranks have. Where ranks throw, the others are woken with a DistributedError that names
  /// the first one, and `run` throws what that one threw.
  void run(const Callback<void(const Group&)>& body, Location where = {}) const;

 private:
  int size_;
  LocalWorldOptions options_;
};

}  // namespace weft::distributed
