// Observers of kernels: each call with its op, line of the program and views.
//
// Without observers the kernel table holds the backends' own pointers, so observing costs nothing when unused. The
// first observer of the process installs rows in front of them, generated from the signatures, that notify the
// observers before and after each call; the last one to go removes them. A thread without observers then pays a test
// per kernel. Other threads may compute meanwhile: either row does the same work.
//
// Observers see kernels only, those of weft::map included. Work queued on a device has not run when `after` is called:
// synchronise to time it or to read its results. Copies between devices and to the host do not use the table.
#pragma once

#include <limits>
#include <span>
#include <string_view>

#include "../../tensor/callback.hpp"
#include "../dispatch.hpp"
#include "../kernel_row.hpp"

namespace weft {

/// A unit of many ops: an optimizer's step, the forward of an autograd::Function, a part of a program. While it lives,
/// KernelCall::within of this thread's kernels points to it, or to the innermost of nested ones. `op` must outlive it.
class WEFT_API KernelScope {
 public:
  /// `recorded`: one node of the graph will represent all of it.
  explicit KernelScope(const char* op, Location where = {}, bool recorded = false);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;

  const char* const op;
  const Location where;
  const bool recorded;
  /// Counts this thread's scopes, from 1.
  const int64_t number;

 private:
  const KernelScope* outer_;
};

struct KernelCall {
  /// The slot of KernelTable: "binary", "matmul", …; "map" for a loop of weft::map.
  const char* kernel;
  /// The value of the slot's leading enumerator (BinaryOp::mul, Reduction::sum, …); -1 where it has none.
  int variant;
  /// The op that this thread runs and the place that called it. Null outside every op.
  const char* op;
  Location where;
  /// Views with data, and those on meta; absent ones (a bias, a mask) are left out.
  std::span<const View* const> outputs;
  std::span<const View* const> inputs;
  Device device;
  /// Null where the program called the op itself.
  const KernelScope* within = nullptr;
  /// The op that the program called, in which `op` runs; as `op` where that is no part of another.
  const char* entry = nullptr;
  /// Calls that kernel of another row with the same parameters, for tools that keep a call (plugin::list_call). Null
  /// for kernels that are not in the table.
  void (*call_in)(const KernelTable& row, const void* parameters) = nullptr;
  const void* parameters = nullptr;
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

/// Installs an observer for the scope; the observer must outlive it. Guards of thread scope are destroyed on their own
/// thread, in any order; those of process scope while no other thread computes.
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
#define WEFT_KERNEL_ROW(result, name, devices, examples, parameters)                         \
  if (kernel == #name) {                                                                     \
    constexpr int outputs = KernelRow(#parameters).outputs(std::numeric_limits<int>::max()); \
    return outputs;                                                                          \
  }
#include "../kernel_rows.hpp"
  return 1;
}

namespace detail {
/// Called by a backend after it has filled its row, possibly while there are observers.
void observe_new_kernels();
/// Whether this thread's kernels are observed.
bool kernels_are_observed();
/// Runs a kernel that is not in the table, and notifies the observers. `inputs` and `outputs` may hold views without
/// data.
void run_observed(const char* kernel, std::span<const View* const> outputs, std::span<const View* const> inputs,
                  const Callback<void()>& run);
/// The same for a user's kernel, which allocates its outputs: `before` receives none, and `run` returns them. Kernels
/// that it calls are not observed.
void run_observed(const char* kernel, Device device, std::span<const View* const> inputs,
                  const Callback<std::span<const View* const>()>& run);
/// Whether this thread's last kernel did its work and an observer threw afterwards. The call resets it.
bool failed_after_kernel();
}  // namespace detail

}  // namespace weft
