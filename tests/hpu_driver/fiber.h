// Work-items of one group that meet at barriers: one fiber each, on pooled stacks.
#pragma once

#include <memory>
#include <vector>

#include "kernel_abi.h"

namespace weft::testing::ze {

class FiberStacks;

class FiberGroup {
 public:
  // Borrows stacks for up to `count` work-items from the pool.
  explicit FiberGroup(size_t count);
  ~FiberGroup();

  // Runs one work-group; `state` holds all but the local ids. Null, or the error.
  const char* run(WeftKernelFunction function, const WeftWorkState& state, void* const* arguments);

 private:
  struct Fiber {
    WeftWorkState state;  // first: the barrier callback finds its fiber by it
    FiberGroup* group;
    void* stack_pointer;
  };

  void prepare(Fiber& fiber, size_t index);
  static void enter(Fiber* fiber);
  static void wait_at_barrier(WeftWorkState* state);
  static void switch_to_next(Fiber* fiber);

  std::unique_ptr<FiberStacks> stacks_;
  std::vector<Fiber> fibers_;
  size_t finished_ = 0;
  void* caller_stack_pointer_ = nullptr;
  WeftKernelFunction function_ = nullptr;
  void* const* arguments_ = nullptr;
};

}  // namespace weft::testing::ze
