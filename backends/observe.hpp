// Watching kernels: what ran, for which op and line of the program, on which views.
//
// While nobody watches, the kernel table holds the backends' own pointers, so watching costs an unwatched program
// nothing. The first observer of the process puts rows in front of them whose pointers are made from their signatures
// and tell the observers before and after; the last observer to go takes them away. A thread that no observer looks at
// then pays a test per kernel. Other threads may compute meanwhile: either row does the same work.
//
// Observers see kernels only, those of weft::map among them. What is queued on a device has not run when `after` is
// called: synchronise to time it or to read its results. Copies between devices and to the host pass by the table.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "dispatch.hpp"

namespace weft {

/// What stands for many ops: an optimizer's step, the forward of an autograd::Function, a part of a program. While it
/// lives, observers are told that this thread's kernels run within it; of nested ones the innermost. `op` must outlive
/// it.
class WEFT_API KernelScope {
 public:
  /// `recorded`: a node of the graph will stand for all of it.
  explicit KernelScope(const char* op, Location where = {}, bool recorded = false);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;

  const char* const op;
  const Location where;
  const bool recorded;
  /// Of this thread's scopes, counted from 1.
  const int64_t number;

 private:
  const KernelScope* outer_;
};

struct KernelCall {
  /// The slot of KernelTable: "binary", "matmul", …; "map" for a loop of weft::map.
  const char* kernel;
  /// The value of the slot's leading enumerator (BinaryOp::mul, Reduction::sum, …); -1 where it has none.
  int variant;
  /// The op of this thread that runs and the place that called it. Null outside of every op.
  const char* op;
  Location where;
  /// Views with data; absent ones (a bias, a mask) are left out.
  std::span<const View* const> outputs;
  std::span<const View* const> inputs;
  Device device;
  /// Null where the program called the op itself.
  const KernelScope* within = nullptr;
};

/// Told of every kernel of its thread, or of the process, from construction of its ObserverGuard to its destruction.
/// `after` may throw: the op that called the kernel then fails. Kernels that an observer calls itself are not observed.
class WEFT_API KernelObserver {
 public:
  virtual ~KernelObserver();
  virtual void before(const KernelCall&) {}
  virtual void after(const KernelCall&) {}
};

enum class ObserverScope : uint8_t {
  thread,   ///< kernels that the installing thread calls
  process,  ///< those of every thread: the observer is called from several threads at once
};

/// Installs an observer for the scope; the observer must outlive it. One of thread scope dies on its own thread, the
/// newest first; one of process scope dies when no other thread computes.
class WEFT_API ObserverGuard {
 public:
  explicit ObserverGuard(KernelObserver& observer, ObserverScope scope = ObserverScope::thread);
  ~ObserverGuard();
  ObserverGuard(const ObserverGuard&) = delete;

 private:
  friend struct ObserverLists;
  KernelObserver* observer_;
  ObserverScope scope_;
  ObserverGuard* outer_;
};

/// How many of a kernel's leading views it writes.
constexpr int output_count(std::string_view kernel) {
  constexpr int slots = std::numeric_limits<int>::max();
#define WEFT_WRITTEN(name, written, ...) \
  if (kernel == #name) return written;
  WEFT_KERNELS(WEFT_WRITTEN)
#undef WEFT_WRITTEN
  return 1;
}

namespace detail {
/// Called by a backend after it filled its row, which may happen while somebody watches.
void observe_new_kernels();
/// Whether somebody looks at this thread's kernels.
bool kernels_are_observed();
/// Runs a kernel that passes by the table, and tells who looks. `inputs` and `outputs` may hold views without data.
void run_observed(const char* kernel, std::span<const View* const> outputs, std::span<const View* const> inputs,
                  const std::function<void()>& run);
/// Whether this thread's last kernel did its work and an observer threw after it. Asking forgets it.
bool failed_after_kernel();
}  // namespace detail

}  // namespace weft
