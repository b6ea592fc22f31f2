// Tensor: a reference-counted handle to a strided array with autograd.
//
// Copying a Tensor copies the handle. Views share storage and version counter. `const` protects the handle, not the
// elements. Thread safety: different tensors may be used from different threads at any time, and one tensor may be read
// from several threads. Writing elements, changing `requires_grad` and assigning the handle need the caller's own lock.
// Several backward passes may run concurrently, even into the same leaves.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../backends/functors/rows.hpp"
#include "dims.hpp"
#include "dtype.hpp"
#include "error.hpp"
#include "impl.hpp"
#include "scalar.hpp"

namespace weft {

class Generator;
class HookHandle;
class Indexed;
class IndexList;
class Operand;
template <class T, int rank>
class Accessor;
struct AttentionOptions;
struct SearchOptions;
struct LossOptions;
struct CrossEntropyOptions;
struct NllOptions;
struct HuberOptions;
struct SmoothL1Options;
struct BinaryCrossEntropyOptions;
struct PlainBinaryOptions;
struct KlOptions;
struct GaussianNllOptions;
struct PoissonNllOptions;
struct MarginOptions;
struct HingeOptions;
struct MultiMarginOptions;
struct TripletOptions;
struct CtcOptions;
struct NormalizeOptions;
struct Unique;
struct UniqueOptions;
struct ValuesAndIndices;
struct MinMax;
struct MantissaAndExponent;
struct DispersionAndMean;
struct HistogramResult;
struct HistogramOptions;
enum class Approximate : uint8_t;
enum class DistanceMode : uint8_t;
enum class Padding : uint8_t;
enum class QuantileInterpolation : uint8_t;
enum class ScatterReduction : uint8_t;

/// Properties of a new tensor: `zeros({2, 3}, {.dtype = f64, .requires_grad = true})`. A dtype or a device converts to
/// it: `zeros({2, 3}, f64)`.
struct TensorOptions {
  /// If omitted, each function has its own default: f32, or the type of the given values.
  std::optional<DType> dtype = {};
  Device device = {};
  bool requires_grad = false;
};
/// Properties in which a new tensor differs from its prototype: `zeros_like(x, {.dtype = f64})`.
struct LikeOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  bool requires_grad = false;
};
/// Options of copies between the CPU and a device: `x.to("cuda", {.non_blocking = true})`.
struct CopyOptions {
  bool non_blocking = false;
};
/// A dtype or a device, accepted in place of TensorOptions.
template <class T>
concept TensorOption = std::same_as<T, DType> || std::same_as<T, Device>;
namespace detail {
constexpr TensorOptions options_from(DType dtype) { return {.dtype = dtype}; }
constexpr TensorOptions options_from(Device device) { return {.device = device}; }
constexpr TensorOptions options_from(const TensorOptions& options) { return options; }
}  // namespace detail

struct BackwardOptions {
  /// Keep the saved tensors of the graph, so that backward can run again.
  bool retain_graph = false;
  /// Record the gradient computation itself, for higher derivatives.
  bool create_graph = false;
};

namespace detail {
[[noreturn, gnu::cold]] WEFT_API void raise_undefined(const char* op, Location where);
/// Uses the name of the running op.
[[noreturn, gnu::cold]] WEFT_API void raise_undefined();
/// Raises OutOfMemoryError: the host has no memory for n elements of this size.
[[noreturn, gnu::cold]] WEFT_API void raise_no_room(int64_t n, size_t element_size, Location where = {});
/// Makes `if (a == b)` a compile-time error, because it would be the truth value of many elements.
template <class T>
T condition_from_tensor() {
  static_assert(!std::same_as<T, bool>,
                "a tensor is not a condition: write equal(a, b), all(a).item<bool>() or any(a).item<bool>(), "
                "a.item<bool>() for one element, or a.defined()");
  return {};
}
}  // namespace detail

class WEFT_API Tensor {
 public:
  /// The undefined tensor: no shape, no data; `defined()` is false.
  Tensor() noexcept : impl_(nullptr) {}
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_ != nullptr) detail::retain(impl_);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  template <Arithmetic T, class... More>
  explicit Tensor(T, const More&...) = delete;  // a tensor of elements: tensor({1, 2}); of a shape: zeros({1, 2})
  Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor moved(std::move(other));
    std::swap(impl_, moved.impl_);
    return *this;
  }
  template <Arithmetic T>
  Tensor& operator=(T) = delete;  // all elements: x.fill_(value); another tensor: x = tensor(value)
  ~Tensor() {
    if (impl_ != nullptr) detail::release(impl_);
  }

  bool defined() const { return impl_ != nullptr; }
  template <std::same_as<bool> T>
  explicit operator T() const {
    return detail::condition_from_tensor<T>();
  }

  // ---- metadata; like all methods, these raise ValueError on the undefined tensor ----
  int dim(Location where = {}) const { return layout("dim", where).rank; }
  int64_t numel(Location where = {}) const { return layout("numel", where).numel; }
  std::span<const int64_t> sizes(Location where = {}) const& {
    const Layout& l = layout("sizes", where);
    return {l.sizes, l.rank};
  }
  /// Returns a copy, so that the sizes outlive a temporary tensor: `for (int64_t n : x.t().sizes())`.
  Dims sizes(Location where = {}) && { return shape(where); }
  Dims shape(Location where = {}) const { return Dims(sizes(where)); }
  /// Size of one dimension; a negative one counts from the end. Raises IndexError if it does not exist, so always for
  /// rank 0.
  int64_t size(int dim, Location where = {}) const;
  /// Stride in elements; negative for reversed views. Raises IndexError as size.
  int64_t stride(int dim, Location where = {}) const;
  /// Strides in elements.
  Dims strides(Location where = {}) const;
  /// Offset of the first element from the start of the storage, in elements.
  int64_t storage_offset(Location where = {}) const;
  DType dtype(Location where = {}) const { return layout("dtype", where).dtype; }
  Device device(Location where = {}) const {
    const Layout& l = layout("device", where);
    return {l.device_type, l.device_index};
  }
  /// Bytes of one element, and of all elements without gaps.
  int64_t itemsize(Location where = {}) const { return weft::itemsize(dtype(where)); }
  int64_t nbytes(Location where = {}) const { return numel(where) * itemsize(where); }
  /// Row-major without gaps.
  bool is_contiguous(Location where = {}) const { return layout("is_contiguous", where).contiguous != 0; }
  /// True if both have the same storage or its memory, even if they share no element.
  bool shares_storage(const Tensor& other, Location where = {}) const {
    const Storage* const a = held("shares_storage", where)->storage;
    const Storage* const b = other.held("shares_storage", where)->storage;
    return a == b || (a->data == b->data && a->data != nullptr);
  }
  /// Number of in-place writes to the storage.
  uint32_t version(Location where = {}) const {
    return held("version", where)->storage->version.load(MemoryOrder::relaxed);
  }

  // ---- elements ----
  /// Address of the first element, in the memory of the tensor's device. Raises DTypeError unless T is the element
  /// type.
  template <class T>
  T* data(Location where = {}) const {
    check_element_type(dtype_of<T>(), where);
    return static_cast<T*>(impl_->view.data);
  }
  void* data_ptr(Location where = {}) const { return held("data_ptr", where)->view.data; }
  /// The value of a one-element tensor, converted to T; waits for a device. Raises ValueError for any other number of
  /// elements, NotImplementedError on the meta device.
  template <Arithmetic T>
  T item(Location where = {}) const {
    return item_scalar(where).to<T>();
  }
  /// As above for complex T: `z.item<std::complex<double>>()`. item<double>() of a complex tensor raises DTypeError.
  template <Element T>
    requires(!Arithmetic<T>)
  T item(Location where = {})
  const {
    T z;
    copy_single(&z, dtype_of<T>(), where);
    return z;
  }
  Scalar item_scalar(Location where = {}) const;
  /// All elements in row-major order, converted to T; waits for a device. Raises DeviceError on the meta device,
  /// OutOfMemoryError if the host has no memory for them, DTypeError for complex elements unless T is complex or bool.
  template <Element T>
  std::vector<T> to_vector(Location where = {}) const {
    constexpr bool holds_bits = std::is_same_v<T, bool>;
    std::vector<T> out;
    [[maybe_unused]] std::vector<unsigned char> bytes;
    const int64_t n = numel(where);
    try {
      out.resize(static_cast<size_t>(n));
      if constexpr (holds_bits) bytes.resize(static_cast<size_t>(n));
    } catch (const std::exception&) {
      detail::raise_no_room(n, sizeof(T), where);
    }
    if constexpr (holds_bits) {
      copy_elements(bytes.data(), DType::boolean, where);
      out.assign(bytes.begin(), bytes.end());
    } else {
      copy_elements(out.data(), dtype_of<T>(), where);
    }
    return out;
  }
  /// Typed access to single elements in host memory: a(i, j) or a[i][j], bounds checked in debug builds. It does not
  /// own the memory. Raises DTypeError unless T is the element type, ShapeError for another rank, DeviceError off the
  /// CPU. Include <weft/tensor/accessor.hpp>.
  template <class T, int rank>
  Accessor<T, rank> accessor(Location where = {}) const;
  /// The text that PyTorch prints: 4 digits, and a summary of tensors with more than 1000 elements.
  std::string text() const;

  /// `auto y = x[{0, Slice(1, none, 2)}]` reads, `x[mask] = 0` writes. Indices are documented in
  /// <weft/tensor/index.hpp>, errors in <weft/ops/subscript.hpp>.
  [[nodiscard]] Indexed operator[](const IndexList& index) const;

  // ---- autograd ----
  bool requires_grad(Location where = {}) const;
  /// Sets whether the leaf x accumulates a gradient; returns x. Raises ValueError unless its dtype is f16, bf16, f32,
  /// f64, c64 or c128. Raises AutogradError for a tensor created under InferenceGuard, and for false on the result of a
  /// recorded op.
  const Tensor& requires_grad_(bool on = true, Location where = {}) const;
  /// True unless it is the result of a recorded op.
  bool is_leaf(Location where = {}) const;
  /// The accumulated gradient of a leaf (or of a tensor after `retain_grad`); undefined before the first backward.
  Tensor grad(Location where = {}) const;
  /// Replaces the gradient; an undefined tensor clears it. Raises ShapeError unless shape, dtype and device match,
  /// AutogradError if the tensor has no gradient accumulation.
  void set_grad(const Tensor& grad, Location where = {}) const;
  /// Adds to the `.grad` of every leaf that this tensor depends on. `seed` is the gradient of this tensor, 1 by
  /// default. Raises AutogradError if the tensor requires no gradient, if it has several elements and no seed is given,
  /// or if the graph was freed or a saved tensor overwritten. Raises ShapeError unless the seed has the tensor's shape,
  /// dtype and device.
  void backward(Location where = {}) const;
  void backward(BackwardOptions options, Location where = {}) const;
  void backward(const Tensor& seed, BackwardOptions options = {}, Location where = {}) const;
  /// Stores the gradient of a non-leaf in `grad()`. Raises ValueError if the tensor gets no gradient.
  void retain_grad(Location where = {}) const;

  // ---- changes of the tensor itself, which all its handles see ----
  /// Another shape for the same elements, as the method without the underscore; returns x. Gradients flow back through
  /// the change, also under NoGradGuard. Views keep their shapes. The version increases, so saved tensors of the old
  /// shape are detected. Raises AutogradError for a leaf that requires a gradient, and views of one, unless under
  /// NoGradGuard; then a gradient of the old shape is dropped. A step with such a change is not captured
  /// (NotImplementedError).
  const Tensor& squeeze_(Location where = {}) const;
  const Tensor& squeeze_(int dim, Location where = {}) const;
  const Tensor& squeeze_(const Dims& dims, Location where = {}) const;
  const Tensor& unsqueeze_(int dim, Location where = {}) const;
  const Tensor& transpose_(int dim0, int dim1, Location where = {}) const;
  const Tensor& t_(Location where = {}) const;
  const Tensor& swapaxes_(int dim0, int dim1, Location where = {}) const;
  const Tensor& swapdims_(int dim0, int dim1, Location where = {}) const;
  const Tensor& as_strided_(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset = {},
                            Location where = {}) const;
  /// Drops the history: x becomes a leaf without gradient. Raises AutogradError for a view.
  const Tensor& detach_(Location where = {}) const;
  /// A contiguous tensor of this shape from x's first element on. Elements that the storage already has keep their
  /// values, others are not set. A larger storage is new memory, so earlier views keep the old one. Raises
  /// AutogradError if x requires a gradient, ValueError for memory from outside that is too small.
  const Tensor& resize_(const Dims& shape, Location where = {}) const;
  const Tensor& resize_as_(const Tensor& other, Location where = {}) const;
  /// Shares the memory of `source` from now on, with its shape and strides; an empty tensor without one. Raises
  /// DTypeError or DeviceError unless x has that dtype and device, AutogradError where gradients are recorded.
  const Tensor& set_(Location where = {}) const;
  const Tensor& set_(const Tensor& source, Location where = {}) const;
  /// As set_ with source.as_strided(shape, strides, storage_offset).
  const Tensor& set_(const Tensor& source, int64_t storage_offset, const Dims& shape, const Dims& strides,
                     Location where = {}) const;
  /// As set_, with any dtype and device, and the history of x stays: PyTorch's `x.data = source`. A leaf's gradient is
  /// converted to the new dtype and device, and dropped if its shape differs. Earlier views keep the old memory. Raises
  /// DTypeError if x requires a gradient and the dtype has none, AutogradError for a recorded result unless shape,
  /// dtype and device stay.
  void set_data(const Tensor& source, Location where = {}) const;

  // ---- hooks; see <weft/autograd/hooks.hpp> for errors ----
  /// `hook` takes the gradient or a GradEvent. It returns nothing, or a replacement for the gradient.
  template <class F>
  HookHandle register_hook(F&& hook, Location where = {}) const;
  /// `hook` takes the leaf. It is called once per backward, after `grad()` is updated.
  template <class F>
  HookHandle register_post_accumulate_grad_hook(F&& hook, Location where = {}) const;
  /// Runs the post-accumulate hooks of a leaf whose gradient was computed outside of the autograd engine. With
  /// `allow_missing` a missing gradient counts as zeros. Raises ValueError unless x is a leaf that requires a gradient
  /// and has one, AutogradError during a backward that will run the hooks itself.
  void apply_backward_hook(bool allow_missing = false, Location where = {}) const;
  /// Sets whether the engine skips the post-accumulate hooks of this leaf, so that only apply_backward_hook runs them.
  /// Raises ValueError unless x is a leaf that requires a gradient.
  void set_manual_backward_hook(bool on = true, Location where = {}) const;

  // ---- views, copies, arithmetic: all ops with a tensor as first argument ----
#define WEFT_WRITES(...) const Tensor& __VA_ARGS__ const
#define WEFT_WRITES_AS(signature, ...) \
  const Tensor& signature const { return __VA_ARGS__; }
#include "methods.hpp"
#undef WEFT_WRITES
#undef WEFT_WRITES_AS
  const Tensor& operator+=(const Operand& other) const;
  const Tensor& operator-=(const Operand& other) const;
  const Tensor& operator*=(const Operand& other) const;
  const Tensor& operator/=(const Operand& other) const;

  // ---- for ops and backends ----
  TensorImpl* impl() const { return impl_; }
  const View& raw_view() const { return impl_->view; }
  /// Takes ownership of one reference.
  static Tensor adopt(TensorImpl* impl) {
    Tensor t;
    t.impl_ = impl;
    return t;
  }
  static Tensor share(TensorImpl* impl) {
    detail::retain(impl);
    return adopt(impl);
  }
  TensorImpl* detach_handle() && { return std::exchange(impl_, nullptr); }

 private:
  TensorImpl* held(const char* method, Location where) const {
    if (WEFT_UNLIKELY(impl_ == nullptr)) detail::raise_undefined(method, where);
    return impl_;
  }
  const Layout& layout(const char* method, Location where) const { return held(method, where)->view.layout; }
  const Layout& layout() const { return impl_->view.layout; }
  void check_element_type(DType wanted, Location where) const;
  void copy_elements(void* out, DType dtype, Location where) const;
  void copy_single(void* out, DType dtype, Location where) const;

  TensorImpl* impl_;
};

/// An operand of an op, with the location of the call: a tensor, a temporary whose memory may be reused, or a C++
/// number. Constructed implicitly; never stored.
class WEFT_API Operand {
 public:
  Operand(const Tensor& tensor, Location here = {}) : where(here), tensor_(&tensor) {}
  Operand(Tensor&& tensor, Location here = {}) : where(here), temporary(true), tensor_(&tensor) {}
  template <Arithmetic T>
  Operand(T value, Location here = {}) : where(here), number_(wrap(value)), tensor_(&number_) {}
  Operand(Scalar value, Location here = {}) : where(here), number_(wrap(value)), tensor_(&number_) {}
  /// `z * std::complex<double>(0, 1)`: weak in type promotion like a double, but the result is complex.
  template <ComplexNumber T>
  Operand(const T& value, Location here = {}) : Operand(complex128(value.real(), value.imag()), here, Exact()) {}
  Operand(Indexed&& part, Location here = {});
  Operand(const Indexed& part, Location here = {});
  Operand(const Operand&) = delete;

  const Tensor& tensor() const { return *tensor_; }
  TensorImpl* impl() const { return tensor_->impl(); }

  Location where;
  /// The caller passed an rvalue: the op may reuse its memory if there is no other handle.
  bool temporary = false;

 private:
  struct Exact {};
  Operand(complex128 value, Location here, Exact) : where(here), number_(wrap_complex(value)), tensor_(&number_) {}
  static Tensor wrap(Scalar value);
  static Tensor wrap_complex(complex128 value);

  Tensor number_;
  const Tensor* tensor_;
};

WEFT_API Tensor operator+(const Operand& a, const Operand& b);
WEFT_API Tensor operator-(const Operand& a, const Operand& b);
WEFT_API Tensor operator*(const Operand& a, const Operand& b);
WEFT_API Tensor operator/(const Operand& a, const Operand& b);
WEFT_API Tensor operator-(const Operand& a);
WEFT_API Tensor operator==(const Operand& a, const Operand& b);
WEFT_API Tensor operator!=(const Operand& a, const Operand& b);
WEFT_API Tensor operator<(const Operand& a, const Operand& b);
WEFT_API Tensor operator<=(const Operand& a, const Operand& b);
WEFT_API Tensor operator>(const Operand& a, const Operand& b);
WEFT_API Tensor operator>=(const Operand& a, const Operand& b);

/// For an error of the compiler: `"loss " + loss` has no meaning.
template <class Text>
concept TextOperand = std::convertible_to<const Text&, const char*> || requires(const Text& text) {
  text.c_str();
};
template <TextOperand Text>
Tensor operator+(const Text&, const Tensor&) = delete;  // print a tensor: std::cout << "loss " << loss
template <TextOperand Text>
Tensor operator+(const Tensor&, const Text&) = delete;  // print a tensor: std::cout << loss << " is the loss"
void begin(const Tensor&) = delete;
void end(const Tensor&) = delete;  // the rows of a tensor: for (const Tensor& row : x.unbind())

WEFT_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace weft
