// Who is registered under which name. Not public.
//
// A registered op is a record whose function has a state. Records and names are permanent; their functions are
// counted (`Retirable`) by calls and graphs. So a call takes no lock, an override is one store, running calls finish
// with the function they started with, and a library is closed after its last user.
//
// Overrides apply to calls by name. A lookup would slow down every small C++ call.
#pragma once

#include <map>
#include <memory>
#include <thread>

#include "../detail/common.hpp"
#include "../library.hpp"

namespace weft::detail {

/// What may be taken away while it is used. Calls and graphs hold it; once it is retired nobody gets it anew, and the
/// last one to let go drops what it owns. The object itself stays for ever, so that who knows it may always ask.
class Retirable {
 public:
  /// False once it is retired.
  bool hold();
  /// For who holds it already.
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
  /// Takes over a hold.
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

/// What `at` points to, held; nothing where that is null. Whoever retires something sets the pointers to it anew at
/// once, so a failed hold is tried again.
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

/// A name. It stays for ever, and with it whoever was registered under it.
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
  /// Its own: OpRecord::signature() knows schemas by their address, and a draft that is refused is gone.
  std::unique_ptr<const Signature> signature;
  OpSlot* slot = nullptr;
  size_t results = 1;
  /// Argument and result that are one tensor.
  std::vector<std::pair<size_t, size_t>> written;
  /// What the backward reads, by the number of the argument and of the result.
  std::vector<bool> saves_arguments, saves_results;
  bool has_composite = false, has_infer_meta = false, has_backward = false, nondeterministic = false;

  // Dropped with the op.
  OpBody composite, infer_meta;
  OpBackward backward;
  Callback<std::vector<Values>(SampleMaker&)> samples;
  /// Whose backward is inherited.
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

/// Counts changes of what a name stands for; 0 while nothing was ever registered.
extern WEFT_API constinit Atomic<uint32_t> op_registry_version;

/// nullptr where there is no such op and never was.
OpSlot* find_slot(std::string_view name);
/// Puts a complete op in place and owns it from then on, if it is put; false for OpPolicy::keep and a name that is
/// taken. ValueError by the policy. `replaced` gets the place of what it stands in front of, or stays empty.
bool add_op(std::unique_ptr<RegisteredOp>& op, OpPolicy policy, bool allow_schema_change, std::string& replaced);
/// Puts it exactly where `old` stands, which is retired.
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
