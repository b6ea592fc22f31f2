// Helpers that every op file uses: checked operands, fresh outputs, kernels that may be missing. Not public.
#pragma once

#include <span>

#include <fmt/format.h>

#include "../../autograd/engine.hpp"
#include "../../autograd/node.hpp"
#include "../../backends/dispatch.hpp"
#include "../../tensor/layout.hpp"
#include "../../tensor/index.hpp"
#include "../../tensor/capture_recorder.hpp"

namespace weft {

/// "float32 [2, 3] on cpu"
std::string describe(const Tensor& t);

using detail::raise_undefined;
[[noreturn]] void raise_missing_kernel(Device device);

inline const Tensor& checked(const Tensor& t) {
  if (WEFT_UNLIKELY(!t.defined())) raise_undefined();
  return t;
}

/// For functions that are not ops.
inline const Tensor& checked(const Tensor& t, const char* op, Location where) {
  if (WEFT_UNLIKELY(!t.defined())) raise_undefined(op, where);
  return t;
}

/// A fresh contiguous tensor; its elements are not set.
inline Tensor make(std::span<const int64_t> sizes, DType dtype, Device device) {
  Tensor t = Tensor::adopt(detail::new_tensor(sizes, dtype, device));
  t.impl()->inference = detail::current_mode.inference;
  return t;
}
inline Tensor make_like(const Tensor& like) {
  if (WEFT_UNLIKELY(!like.is_contiguous())) return make(like.sizes(), like.dtype(), like.device());
  Tensor t = Tensor::adopt(detail::new_tensor(like.raw_view().layout));
  t.impl()->inference = detail::current_mode.inference;
  return t;
}

/// Kernel pointer of the device of `t`, or NotImplementedError.
#define WEFT_KERNEL(kernel, t)                                                      \
  ([&] {                                                                            \
    const auto weft_pointer = kernels((t).raw_view()).kernel;                       \
    if (WEFT_UNLIKELY(weft_pointer == nullptr)) raise_missing_kernel((t).device()); \
    return weft_pointer;                                                            \
  }())

/// x; integers and bool become f32. DTypeError for complex numbers, as by `to`.
inline Tensor floating_point(const Tensor& x) { return is_floating(checked(x).dtype()) ? x : x.to(default_dtype()); }

/// On meta tensors have shapes and no elements.
inline bool is_meta(const Tensor& t) { return t.device().type == DeviceType::meta; }
/// x's sizes, strides and dtype on meta; undefined where x is.
Tensor on_meta(const Tensor& x);

/// The errors of making such a tensor, before work of its size is begun.
inline void check_room(std::span<const int64_t> sizes, DType dtype, Device device) { make(sizes, dtype, device); }

/// x's result where no element of it has to be computed: it has none, or is on meta. The gradient is 0.
Tensor without_elements(const Tensor& x, std::span<const int64_t> sizes);

/// DeviceError unless all tensors are on one device. Undefined ones are skipped.
void check_same_device(std::initializer_list<const Tensor*> tensors);
void check_floating(const Tensor& t);

/// `g` summed over the dimensions that broadcasting added or repeated, so that it has `sizes`.
Tensor sum_to(Tensor&& g, std::span<const int64_t> sizes);

/// Integers as kernels read indices, in i32 or i64; a u64 beyond i64 becomes INT64_MAX, which is out of any range.
Tensor index_numbers(const Tensor& index);

/// An expanded tensor without its repetitions, for checks of every element; not recorded.
Tensor without_repeats(const Tensor& t);

/// Called after an in-place write to `target`: raises the version and names the writer.
inline void note_write(const Tensor& target) {
  Storage& storage = *target.impl()->storage;
  storage.note_write(detail::current_call.entry, detail::current_call.where);
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) detail::capture_recorder->wrote(storage);
}

/// Runs `check`, which reads elements of the tensors that it holds and raises or does nothing; replays do it, too.
template <class Check>
void check_elements(Check check) {
  if (WEFT_LIKELY(detail::capture_recorder == nullptr)) return check();
  detail::capture_recorder->repeat(detail::check_of_elements, nullptr, [check, place = detail::current_call] {
    const CallScope scope(place);
    check();
  });
}

/// DTypeError: a result of `dtype` cannot be written into `target`.
[[noreturn]] void raise_target_dtype(DType dtype, const Tensor& target);
/// raise_target_dtype where writing would drop an imaginary part, a fraction, or from a bool all but one bit.
void check_target_dtype(DType dtype, const Tensor& target);

/// ValueError where writing to `target` would write one element twice: stride 0 with a size > 1, or other overlaps.
void check_writable(const Tensor& target);

/// Of a name_out function: ShapeError, DTypeError or DeviceError unless out has the result's shape, dtype and device,
/// ValueError as check_writable, AutogradError where an op on out or the inputs would be recorded.
void check_out(const Tensor& out, std::span<const int64_t> sizes, DType dtype, Device device,
               std::initializer_list<const Tensor*> inputs);
void check_out_unrecorded(std::initializer_list<const Tensor*> tensors);

/// A tensor over the same storage; joins autograd's view bookkeeping unless under InferenceGuard.
inline Tensor make_view(const Tensor& source, const Layout& layout, void* data) {
  return Tensor::adopt(detail::new_view(source.impl(), layout, data));
}
/// The same at the address of `source`; the caller sets sizes and strides.
inline Tensor make_view(const Tensor& source) { return Tensor::adopt(detail::new_view(source.impl())); }

}  // namespace weft
