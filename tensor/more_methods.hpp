// Methods of Tensor and x[…] that are defined here by others, or by hand for both classes: PyTorch's second names,
// forms relative to another tensor, fills and copies. methods.hpp includes this file. WEFT_WRITES_AS declares and
// defines a method that calls another.
#if !defined(WEFT_WRITES)
#include "tensor.hpp"
#else

// ---- properties ----
DType scalar_type(Location where = {}) const { return dtype(where); }
int64_t element_size(Location where = {}) const { return itemsize(where); }
/// The dtype, the device and whether it requires a gradient: `zeros({2}, x.options())`.
TensorOptions options(Location where = {}) const {
  return {.dtype = dtype(where), .device = device(where), .requires_grad = requires_grad(where)};
}
bool is_cpu(Location where = {}) const { return device(where).type == DeviceType::cpu; }
bool is_cuda(Location where = {}) const { return device(where).type == DeviceType::cuda; }
bool is_meta(Location where = {}) const { return device(where).type == DeviceType::meta; }
/// The index of the device; -1 for the CPU.
int get_device(Location where = {}) const { return is_cpu(where) ? -1 : device(where).index; }
bool is_floating_point(Location where = {}) const { return weft::is_floating(dtype(where)); }
bool is_complex(Location where = {}) const { return weft::is_complex(dtype(where)); }
bool is_same_size(const Tensor& other, Location where = {}) const { return shape(where) == other.shape(where); }
/// Whether the only element is not 0. Raises ValueError for another number of elements.
bool is_nonzero(Location where = {}) const { return item_scalar(where).template to<bool>(); }
/// The value of a one-element tensor: `double(x.item())`. Raises as item<T>().
Scalar item(Location where = {}) const { return item_scalar(where); }
/// As data<T>().
template <class T>
T* data_ptr(Location where = {}) const {
  return data<T>(where);
}

// ---- relative to another tensor ----
[[nodiscard]] Tensor expand_as(const Tensor& other, Location where = {}) const {
  return expand(other.shape(where), where);
}
[[nodiscard]] Tensor view_as(const Tensor& other, Location where = {}) const { return view(other.shape(where), where); }
[[nodiscard]] Tensor reshape_as(const Tensor& other, Location where = {}) const {
  return reshape(other.shape(where), where);
}
/// On other's device, in its dtype.
[[nodiscard]] Tensor type_as(const Tensor& other, Location where = {}) const {
  return to(other.device(where), other.dtype(where), where);
}
[[nodiscard]] Tensor to(const Tensor& other, Location where = {}) const {
  return to(other.device(where), other.dtype(where), where);
}
[[nodiscard]] Tensor cpu(Location where = {}) const { return to(Device(), where); }
[[nodiscard]] Tensor cuda(int index = 0, Location where = {}) const {
  return to(Device(DeviceType::cuda, index), where);
}

// ---- other names ----
#define WEFT_UNARY_NAME(name, op)                                            \
  [[nodiscard]] Tensor name(Location where = {}) const { return op(where); } \
  WEFT_WRITES_AS(name##_(Location where = {}), op##_(where))
WEFT_UNARY_NAME(absolute, abs)
WEFT_UNARY_NAME(negative, neg)
WEFT_UNARY_NAME(fix, trunc)
WEFT_UNARY_NAME(arccos, acos)
WEFT_UNARY_NAME(arccosh, acosh)
WEFT_UNARY_NAME(arcsin, asin)
WEFT_UNARY_NAME(arcsinh, asinh)
WEFT_UNARY_NAME(arctan, atan)
WEFT_UNARY_NAME(arctanh, atanh)
#undef WEFT_UNARY_NAME
#define WEFT_BINARY_NAME(name, op)                                            \
  [[nodiscard]] Tensor name(const Operand& other) const { return op(other); } \
  WEFT_WRITES_AS(name##_(const Operand& other), op##_(other))
WEFT_BINARY_NAME(subtract, sub)
WEFT_BINARY_NAME(multiply, mul)
WEFT_BINARY_NAME(divide, div)
WEFT_BINARY_NAME(true_divide, div)
WEFT_BINARY_NAME(arctan2, atan2)
#undef WEFT_BINARY_NAME
[[nodiscard]] Tensor greater(const Operand& other) const { return gt(other); }
[[nodiscard]] Tensor greater_equal(const Operand& other) const { return ge(other); }
[[nodiscard]] Tensor less(const Operand& other) const { return lt(other); }
[[nodiscard]] Tensor less_equal(const Operand& other) const { return le(other); }
[[nodiscard]] Tensor not_equal(const Operand& other) const { return ne(other); }
[[nodiscard]] Tensor clamp_min(Scalar low, Location where = {}) const { return clamp(std::optional(low), {}, where); }
[[nodiscard]] Tensor clamp_max(Scalar high, Location where = {}) const { return clamp(std::nullopt, high, where); }
[[nodiscard]] Tensor clamp_min(const Tensor& low, Location where = {}) const { return clamp(low, {}, where); }
[[nodiscard]] Tensor clamp_max(const Tensor& high, Location where = {}) const { return clamp(Tensor(), high, where); }
WEFT_WRITES_AS(clamp_min_(Scalar low, Location where = {}), clamp_(std::optional(low), {}, where))
WEFT_WRITES_AS(clamp_max_(Scalar high, Location where = {}), clamp_(std::nullopt, high, where))
[[nodiscard]] Tensor ger(const Tensor& other, Location where = {}) const { return outer(other, where); }
/// Swaps the last two dimensions, and conjugates complex elements.
[[nodiscard]] Tensor adjoint(Location where = {}) const {
  const Tensor swapped = transpose(-2, -1, where);
  return weft::is_complex(dtype(where)) ? swapped.conj(where) : swapped;
}
/// A matrix with x's elements, in row-major order, on a diagonal.
[[nodiscard]] Tensor diagflat(int64_t offset = 0, Location where = {}) const {
  return flatten(0, -1, where).diag(offset, where);
}
/// As narrow, but a copy.
[[nodiscard]] Tensor narrow_copy(int dim, int64_t start, int64_t length, Location where = {}) const {
  return narrow(dim, start, length, where).clone(where);
}

// ---- new values in place. While recording, these raise AutogradError for a leaf that requires a gradient and for a
// view of one. ValueError if several positions share one element of memory (an expanded tensor). So do all in-place
// writes ----
/// x = source, from any device, broadcast to x's shape and converted to its dtype. Raises ShapeError if it cannot be
/// broadcast.
WEFT_WRITES(copy_(const Tensor& source, Location where = {}));
/// With .non_blocking the copy is queued, as in `to`, if the CPU tensor is pinned and both tensors are contiguous with
/// the same dtype and shape. Otherwise the copy is complete on return.
WEFT_WRITES(copy_(const Tensor& source, CopyOptions options, Location where = {}));
/// Raises ValueError if an integer dtype cannot represent the value.
WEFT_WRITES(fill_(Scalar value, Location where = {}));
WEFT_WRITES(zero_(Location where = {}));
/// Fills the diagonal of a tensor of two or more dimensions: elements (i, i, …).
WEFT_WRITES(fill_diagonal_(Scalar value, Location where = {}));

// ---- norms ----
template <std::same_as<bool> B>
[[nodiscard]] Tensor norm(const Dims& dims, B keepdim, Location where = {}) const {
  return vector_norm(2, dims, keepdim, {}, where);
}
/// A number is the order: x.norm(1) is the sum of magnitudes, x.norm({1}) reduces dimension 1.
template <Arithmetic P>
[[nodiscard]] Tensor norm(P p, const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {},
                          Location where = {}) const {
  return vector_norm(static_cast<double>(p), dims, keepdim, dtype, where);
}
template <Arithmetic P, std::same_as<bool> B>
[[nodiscard]] Tensor norm(P dim, B keepdim, Location where = {}) const = delete;  // x.norm({dim}, keepdim)

// ---- x.view(4, 1) ----
#define WEFT_SIZES_IN_BRACES(name)                                                                         \
  template <std::integral A, std::integral B, std::integral... More>                                       \
  Tensor name(A, B, More...) const {                                                                       \
    static_assert(!std::same_as<A, A>, "sizes and dimensions are one argument in braces: x.view({4, 1})"); \
    return {};                                                                                             \
  }
WEFT_SIZES_IN_BRACES(view)
WEFT_SIZES_IN_BRACES(reshape)
WEFT_SIZES_IN_BRACES(permute)
WEFT_SIZES_IN_BRACES(expand)
WEFT_SIZES_IN_BRACES(repeat)
WEFT_SIZES_IN_BRACES(flip)
#undef WEFT_SIZES_IN_BRACES

#endif
