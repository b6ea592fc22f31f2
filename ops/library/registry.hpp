// Registered ops by name. Not public.
//
// A registered op is a record with a stateful function. Records and names are permanent; their functions are counted
// (`Retirable`) by calls and graphs. So a call takes no lock, an override is one store, running calls finish with the
// function they started with, and a library is closed after its last user.
//
// Overrides apply to calls by name. A lookup would slow down every small C++ call.
#pragma once

#include <map>
#include <memory>
#include <thread>

#include "../detail/common.hpp"
#include "../library.hpp"

namespace weft::detail {

/// An object that may be retired while it is in use. Calls and graphs hold it. After retirement no new holds are given,
/// and the last release drops its contents. The object itself is permanent, so pointers to it stay valid.
class Retirable {
 public:
  /// False once it is retired.
  bool hold();
  /// For callers that hold it already.
  void hold_again() { state_.fetch_add(one, MemoryOrder::relaxed); }
  void release() noexcept;
  void retire() noexcept;
  /// Retires it where nobody holds it, without dropping anything yet: then finish() or reopen() follows.
  bool close();
  /// Retired, and nobody holds it.
  bool gone() const { return state_.load(MemoryOrder::acquire) == retired; }
  void reopen() { state_.store(0, MemoryOrder::release); }
  void finish() noexcept { drop(); }

 protected:
  ~Retirable() = default;
  virtual void drop() noexcept = 0;

 private:
  enum : uint32_t { retired = 1, one = 2 };
  Atomic<uint32_t> state_{0};
};

/// Holds something retirable, or nothing.
template <class T>
class Held {
 public:
  Held() = default;
  /// Adopts a hold.
  explicit Held(T* held) : held_(held) {}
  Held(Held&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Held() {
    if (held_ != nullptr) held_->release();
  }
  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }
  Held again() const {
    if (held_ != nullptr) held_->hold_again();
    return Held(held_);
  }

 private:
  T* held_ = nullptr;
};

/// Holds the object that `at` points to; empty if it is null. Retirement replaces the pointers immediately, so a failed
/// hold is retried.
template <class T>
Held<T> hold(const Atomic<T*>& at) {
  for (;;) {
    T* const now = at.load(MemoryOrder::acquire);
    if (now == nullptr || now->hold()) return Held<T>(now);
    std::this_thread::yield();
  }
}

struct RegisteredKernel final : Retirable {
  RegisteredOp* op = nullptr;
  DeviceType device{};
  DTypes dtypes = {};
  OpBody body;
  std::string origin;

 private:
  void drop() noexcept override { body = {}; }
};

/// A name. It is permanent, as are the objects registered under it.
struct OpSlot {
  std::string name;
  /// The library's own op, or null.
  const OpRecord* own = nullptr;
  Atomic<RegisteredOp*> current{nullptr};
};

struct RegisteredOp final : Retirable {
  std::string name, schema, document, origin;
  std::vector<ArgumentType> types;
  OpRecord record{};
  /// A copy: OpRecord::signature() identifies schemas by address, and rejected drafts are destroyed.
  std::unique_ptr<const Signature> signature;
  OpSlot* slot = nullptr;
  size_t results = 1;
  /// Argument and result that are one tensor.
  std::vector<std::pair<size_t, size_t>> written;
  /// Arguments and results that the backward reads, by index.
  std::vector<bool> saves_arguments, saves_results;
  bool has_composite = false, has_infer_meta = false, has_backward = false, nondeterministic = false;

  // Dropped with the op.
  OpBody composite, infer_meta;
  OpBackward backward;
  Callback<std::vector<Values>(SampleMaker&)> samples;
  /// The op with the inherited backward.
  Held<RegisteredOp> inherited;

  Atomic<RegisteredKernel*> kernels[device_type_count][dtype_count] = {};
  Atomic<bool> told_of_fallback{false};

  // Under the registry's lock.
  RegisteredOp* below = nullptr;
  /// Oldest first.
  std::vector<RegisteredKernel*> kernel_list;
  /// Those that were ever there.
  std::vector<std::unique_ptr<RegisteredKernel>> all_kernels;

 private:
  void drop() noexcept override;
};

/// Counts changes of definitions; 0 until the first registration.
extern WEFT_API constinit Atomic<uint32_t> op_registry_version;

/// nullptr where there is no such op and never was.
OpSlot* find_slot(std::string_view name);
/// Registers a complete op and takes ownership; returns false for OpPolicy::keep and an existing name. Raises
/// ValueError by the policy. `replaced` receives the location of the overridden op, if any.
bool add_op(std::unique_ptr<RegisteredOp>& op, OpPolicy policy, bool allow_schema_change, std::string& replaced);
/// Replaces `old`, which is retired.
void swap_op(RegisteredOp& old, std::unique_ptr<RegisteredOp>& op);
void remove_op(RegisteredOp& op) noexcept;
/// Its op owns it from then on. nullptr for OpPolicy::keep and a place that is taken; ValueError by the policy.
RegisteredKernel* add_kernel(std::unique_ptr<RegisteredKernel> kernel, OpPolicy policy);
void remove_kernel(RegisteredKernel& kernel) noexcept;
/// Takes all of them out, or none and returns false where one is in use.
bool remove_idle(std::span<RegisteredOp* const> ops, std::span<RegisteredKernel* const> kernels);

/// "float32, float64 on cpu; float32 on hpu", or "none".
std::string kernels_of(const RegisteredOp& op);

/// Behind OpRecord::function of a registered op.
Value run_registered(std::span<const Value> arguments, const void* op);
std::vector<Values> registered_samples(SampleMaker& make, const void* op);

/// The kind of argument in words: "int", "a tensor".
std::string kind_text(ArgumentType type);

}  // namespace weft::detail
