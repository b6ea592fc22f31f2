// Helpers that every op file uses: checked operands, fresh outputs, kernels that may be missing. Not public.
#pragma once

#include <span>

#include <fmt/format.h>

#include <weft/autograd/engine.hpp>
#include <weft/autograd/node.hpp>
#include <weft/backends/dispatch.hpp>
#include <weft/tensor/layout.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

/// "float32 [2, 3] on cpu"
std::string describe(const Tensor& t);

using detail::raise_undefined;
[[noreturn]] void raise_missing_kernel(const char* op, Device device, Location where);

inline const Tensor& checked(const Tensor& t, const char* op, Location where) {
  if (WEFT_UNLIKELY(!t.defined())) raise_undefined(op, where);
  return t;
}

/// A fresh contiguous tensor; its elements are not set.
inline Tensor make(std::span<const int64_t> sizes, DType dtype, Device device, const char* op, Location where) {
  detail::current_op = {op, where};
  Tensor t = Tensor::adopt(detail::new_tensor(sizes, dtype, device, op, where));
  t.impl()->inference = detail::current_mode.inference;
  return t;
}
/// As make_like, for who takes the kernel by WEFT_KERNEL_FOR, which names the op itself.
inline Tensor fresh_like(const Tensor& like, const char* op, Location where) {
  if (WEFT_UNLIKELY(!like.is_contiguous())) return make(like.sizes(), like.dtype(), like.device(), op, where);
  Tensor t = Tensor::adopt(detail::new_tensor(like.raw_view().layout, where));
  t.impl()->inference = detail::current_mode.inference;
  return t;
}
inline Tensor make_like(const Tensor& like, const char* op, Location where) {
  detail::current_op = {op, where};
  return fresh_like(like, op, where);
}

/// Kernel pointer of the device of `t`, or NotImplementedError.
#define WEFT_KERNEL_FOR(kernel, t, op_name, where)                                                  \
  ([&] {                                                                                            \
    ::weft::detail::current_op = {op_name, where};                                                  \
    const auto weft_pointer = kernels((t).raw_view()).kernel;                                       \
    if (WEFT_UNLIKELY(weft_pointer == nullptr)) raise_missing_kernel(op_name, (t).device(), where); \
    return weft_pointer;                                                                            \
  }())

/// All tensors on the device of the first; DeviceError otherwise. Undefined ones are passed over.
void check_same_device(const char* op, Location where, std::initializer_list<const Tensor*> tensors);
void check_floating(const char* op, const Tensor& t, Location where);

/// `g` summed over the dimensions that broadcasting added or repeated, so that it has `sizes`.
Tensor sum_to(Tensor&& g, std::span<const int64_t> sizes, Location where);

/// Integers as kernels read indices, in i32 or i64; what i64 does not hold becomes its largest, which no size allows.
Tensor index_numbers(const Tensor& index, Location where);

/// Each element of an expanded tensor once, in order, for checks of every element; not recorded.
Tensor without_repeats(const Tensor& t, Location where);

/// An in-place write to `target` by `op` that happened: raises the version and names the writer.
inline void note_write(const Tensor& target, const char* op, Location where) {
  target.impl()->storage->note_write(op, where);
}

/// DTypeError: a result of `dtype` does not go into `target`.
[[noreturn]] void raise_unfit_target(const char* op, DType dtype, const Tensor& target, Location where);

/// ValueError where writing to `target` would write one element twice (a size > 1 with stride 0).
void check_writable(const Tensor& target, const char* op, Location where);

/// An out= target must have the result's shape, dtype and device, and nothing here may be recorded.
void check_out(const char* op, const Tensor& out, std::span<const int64_t> sizes, DType dtype, Device device,
               std::initializer_list<const Tensor*> inputs, Location where);
void check_out_unrecorded(const char* op, std::initializer_list<const Tensor*> tensors, Location where);

/// A tensor over the same storage; joins autograd's view bookkeeping unless under InferenceGuard.
inline Tensor make_view(const Tensor& source, const Layout& layout, void* data) {
  return Tensor::adopt(detail::new_view(source.impl(), layout, data));
}
/// The same at the address of `source`, with sizes and strides that the caller sets.
inline Tensor make_view(const Tensor& source) { return Tensor::adopt(detail::new_view(source.impl())); }

}  // namespace weft
