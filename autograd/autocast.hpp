// Mixed precision: in an autocast's scope each op computes in the floating-point type that suits it.
//
//   optimizer.zero_grad();
//   {
//     const AutocastGuard mixed(bf16);
//     loss = cross_entropy(model(x), y);
//   }
//   loss.backward();
//   optimizer.step();
//
// Parameters stay f32. Products of matrices, convolutions and attention run
// in the 16-bit type, losses, norms, softmax, powers and sums in f32, and every other op in the type of its operands.
// f64 and integers are never converted, and neither are targets of in-place ops and of `_out` functions.
#pragma once

#include <optional>

#include "../tensor/device.hpp"
#include "../tensor/dtype.hpp"
#include "../tensor/location.hpp"

namespace weft {

class Tensor;

struct AutocastOptions {
  /// f16 or bf16.
  DType dtype = DType::bf16;
  /// False switches an outer scope off.
  bool enabled = true;
  /// Only tensors on devices of this kind; all where not given.
  std::optional<DeviceType> device_type = {};
  /// Keeps the 16-bit copies of parameters until the outermost scope ends, so that one that is used often is converted
  /// once. A parameter that was written since is converted anew.
  bool cache = true;
};

namespace detail {

struct AutocastMode {
  /// The type for each kind of device; f32 where there is none.
  DType dtypes[device_type_count];
  /// Some kind has one.
  bool on = false;
  bool caches = false;

  constexpr AutocastMode() {
    for (DType& dtype : dtypes) dtype = DType::f32;
  }
};
extern WEFT_API constinit thread_local AutocastMode autocast_mode;

/// Sets the thread's mode until the end of the scope.
class AutocastModeGuard {
 public:
  explicit AutocastModeGuard(const AutocastMode& mode) : outer_(autocast_mode) { autocast_mode = mode; }
  ~AutocastModeGuard() { autocast_mode = outer_; }
  AutocastModeGuard(const AutocastModeGuard&) = delete;

 private:
  AutocastMode outer_;
};

/// Sets the thread's mode and returns the one before, which `leave_autocast` restores.
WEFT_API AutocastMode enter_autocast(const AutocastOptions& options, Location where);
WEFT_API void leave_autocast(const AutocastMode& before);

/// x in the 16-bit type of its device's autocast, recorded; x itself where there is none or x is no f32, f16 or bf16.
WEFT_API Tensor lowered(const Tensor& x);
/// f16 and bf16 in f32, recorded, where the device has an autocast; else x itself.
WEFT_API Tensor raised(const Tensor& x);

}  // namespace detail

/// Mixed precision on this thread until the end of the scope; scopes nest. A backward that runs inside computes as one
/// outside does. DTypeError for a dtype other than f16 and bf16.
class AutocastGuard {
 public:
  explicit AutocastGuard(DType dtype, Location where = {}) : AutocastGuard(AutocastOptions{.dtype = dtype}, where) {}
  explicit AutocastGuard(AutocastOptions options = {}, Location where = {})
      : before_(detail::enter_autocast(options, where)) {}
  ~AutocastGuard() { detail::leave_autocast(before_); }
  AutocastGuard(const AutocastGuard&) = delete;

 private:
  detail::AutocastMode before_;
};

/// The type in which products run now on devices of this kind; nothing outside every autocast's scope.
WEFT_API std::optional<DType> autocast_dtype(DeviceType type = DeviceType::cpu);

}  // namespace weft
