// Tensor: a counted handle on a strided array that may take part in autograd.
//
// Copying a Tensor copies the handle. Views share storage and version counter. `const` protects the handle, not the
// elements. Thread-safety: different tensors may be used from different threads at any time; one tensor may be read
// from many threads; writing elements, changing `requires_grad` or assigning the handle needs the caller's own lock.
// Backward may run on several threads at once, also into the same leaves.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/impl.hpp>
#include <weft/tensor/scalar.hpp>

namespace weft {

class HookHandle;
class Indexed;
class IndexList;
class Operand;
template <class T, int rank>
class Accessor;

/// dtype, device and requires_grad of a new tensor; every part has a default.
struct TensorOptions {
  DType dtype = default_dtype;
  Device device = {};
  bool requires_grad = false;

  TensorOptions() = default;
  TensorOptions(DType t) : dtype(t) {}
  TensorOptions(Device d) : device(d) {}
  TensorOptions(DType t, Device d, bool grad = false) : dtype(t), device(d), requires_grad(grad) {}
};

struct BackwardOptions {
  /// Keep what the graph saved, so that it can be run again.
  bool retain_graph = false;
  /// Record the gradient computation itself, for higher derivatives.
  bool create_graph = false;
};

class WEFT_API Tensor {
 public:
  /// The undefined tensor: no shape, no data; `defined()` is false.
  Tensor() = default;
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_ != nullptr) detail::retain(impl_);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
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
  ~Tensor() {
    if (impl_ != nullptr) detail::release(impl_);
  }

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const = delete;

  // ---- metadata ----
  int dim() const { return layout().rank; }
  int64_t numel() const { return layout().numel; }
  std::span<const int64_t> sizes() const { return {layout().sizes, layout().rank}; }
  Dims shape() const { return Dims(sizes()); }
  /// Size of one dimension; negative counts from the end. IndexError where there is no such dimension.
  int64_t size(int dim, Location where = {}) const;
  /// Stride in elements; negative for reversed views.
  int64_t stride(int dim, Location where = {}) const;
  Dims strides() const;
  /// Offset of the first element from the start of the storage, in elements.
  int64_t storage_offset() const;
  DType dtype() const { return layout().dtype; }
  Device device() const { return {layout().device_type, layout().device_index}; }
  int64_t itemsize() const { return weft::itemsize(dtype()); }
  int64_t nbytes() const { return numel() * itemsize(); }
  /// Row-major without gaps.
  bool is_contiguous() const { return layout().contiguous != 0; }
  /// True where both look into the same storage.
  bool shares_storage(const Tensor& other) const { return impl_->storage == other.impl_->storage; }
  /// Raised by every in-place write to the storage.
  uint32_t version() const { return impl_->storage->version.load(std::memory_order_relaxed); }

  // ---- elements ----
  /// Address of the first element; DTypeError unless T is the element type. On a device it is a device address.
  template <class T>
  T* data(Location where = {}) const {
    check_element_type(dtype_of<T>(), where);
    return static_cast<T*>(impl_->view.data);
  }
  void* data_ptr() const { return impl_->view.data; }
  /// The value of a 1-element tensor; waits for a device. ValueError for any other number of elements.
  template <Arithmetic T>
  T item(Location where = {}) const {
    return item_scalar(where).to<T>();
  }
  Scalar item_scalar(Location where = {}) const;
  /// All elements in row-major order, converted to T.
  template <Arithmetic T>
  std::vector<T> to_vector(Location where = {}) const {
    std::vector<T> out(static_cast<size_t>(numel()));
    copy_elements(out.data(), dtype_of<T>(), where);
    return out;
  }
  /// Typed access to single elements in host memory: a(i, j) or a[i][j], bounds checked in debug builds. DTypeError
  /// unless T is the element type, ShapeError unless the rank fits, DeviceError off the CPU. It does not own the
  /// memory. Include <weft/tensor/accessor.hpp>.
  template <class T, int rank>
  Accessor<T, rank> accessor(Location where = {}) const;
  /// As PyTorch prints; large tensors are summarised.
  std::string text() const;

  // ---- indexing: <weft/tensor/index.hpp> says what may stand between the brackets ----
  /// `Tensor y = x[{0, Slice(1, none, 2)}]` reads (a view where no tensor, list or bool indexes), `x[mask] = 0` writes.
  [[nodiscard]] Indexed operator[](const IndexList& index) const;
  Tensor index(const IndexList& index) const;
  /// x[index] = value; with `accumulate`, every duplicate adds.
  const Tensor& index_put_(const IndexList& index, const Operand& value, bool accumulate = false) const;
  Tensor index_select(int dim, const Tensor& index, Location where = {}) const;
  Tensor gather(int dim, const Tensor& index, Location where = {}) const;
  Tensor masked_select(const Tensor& mask, Location where = {}) const;
  const Tensor& masked_fill_(const Tensor& mask, const Operand& value) const;

  // ---- autograd ----
  bool requires_grad() const;
  /// ValueError for integer types; AutogradError when taken from a tensor that an op produced.
  const Tensor& requires_grad_(bool on = true, Location where = {}) const;
  /// Made by the user rather than by a recorded op.
  bool is_leaf() const;
  /// The accumulated gradient of a leaf (or of a tensor after `retain_grad`); undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient; undefined clears it. Shape, dtype and device must be the tensor's.
  void set_grad(const Tensor& grad, Location where = {}) const;
  /// Fills the `.grad` of every leaf that this tensor depends on. `seed` may be left out for one element.
  void backward(Location where = {}) const;
  void backward(BackwardOptions options, Location where = {}) const;
  void backward(const Tensor& seed, BackwardOptions options = {}, Location where = {}) const;
  /// Keeps the gradient of a non-leaf in `grad()`.
  void retain_grad(Location where = {}) const;
  /// The same elements outside the graph; shares storage and version.
  Tensor detach() const;

  // ---- hooks: <weft/autograd/hooks.hpp> ----
  /// `hook` takes the gradient or a GradEvent, and returns nothing or a gradient to go on with.
  template <class F>
  HookHandle register_hook(F&& hook, Location where = {}) const;
  /// `hook` takes the leaf, once per backward, after its `grad()` was brought up to date.
  template <class F>
  HookHandle register_post_accumulate_grad_hook(F&& hook, Location where = {}) const;
  /// Runs the post-accumulate hooks of a leaf whose gradient was made outside the engine.
  void apply_backward_hook(bool allow_missing = false, Location where = {}) const;
  /// The engine leaves the post-accumulate hooks of this leaf to apply_backward_hook.
  void set_manual_backward_hook(bool on = true, Location where = {}) const;

  // ---- views: share storage and version, never copy ----
  Tensor view(const Dims& shape, Location where = {}) const;
  /// A view where the strides allow it, else a copy. One size may be -1.
  Tensor reshape(const Dims& shape, Location where = {}) const;
  Tensor transpose(int dim0, int dim1, Location where = {}) const;
  /// The matrix transpose of a tensor of rank 2 or less.
  Tensor t(Location where = {}) const;
  Tensor permute(const Dims& dims, Location where = {}) const;
  /// Elements start, start + step, … before stop along dim, clamped as Python does; a negative step is a view too.
  Tensor slice(int dim, std::optional<int64_t> start = {}, std::optional<int64_t> stop = {}, int64_t step = 1,
               Location where = {}) const;
  Tensor narrow(int dim, int64_t start, int64_t length, Location where = {}) const;
  Tensor select(int dim, int64_t index, Location where = {}) const;
  Tensor unsqueeze(int dim, Location where = {}) const;
  Tensor squeeze(Location where = {}) const;
  Tensor squeeze(int dim, Location where = {}) const;
  Tensor expand(const Dims& shape, Location where = {}) const;
  Tensor diagonal(int64_t offset = 0, int dim0 = 0, int dim1 = 1, Location where = {}) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1, Location where = {}) const;
  /// Strides and offset in elements; every element must lie inside the storage.
  Tensor as_strided(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset = {},
                    Location where = {}) const;
  std::vector<Tensor> split(int64_t size, int dim = 0, Location where = {}) const;
  std::vector<Tensor> chunk(int64_t chunks, int dim = 0, Location where = {}) const;
  std::vector<Tensor> unbind(int dim = 0, Location where = {}) const;

  // ---- copies ----
  Tensor clone(Location where = {}) const;
  /// Itself where already contiguous.
  Tensor contiguous(Location where = {}) const;
  /// Itself where nothing changes.
  Tensor to(DType dtype, Location where = {}) const;
  Tensor to(Device device, Location where = {}) const;

  // ---- in place: bump the version, recorded by autograd ----
  const Tensor& copy_(const Tensor& source, Location where = {}) const;
  const Tensor& fill_(Scalar value, Location where = {}) const;
  const Tensor& zero_(Location where = {}) const;
  const Tensor& add_(const Operand& other, Scalar alpha = 1) const;
  const Tensor& sub_(const Operand& other, Scalar alpha = 1) const;
  const Tensor& mul_(const Operand& other) const;
  const Tensor& div_(const Operand& other) const;
  const Tensor& operator+=(const Operand& other) const;
  const Tensor& operator-=(const Operand& other) const;
  const Tensor& operator*=(const Operand& other) const;
  const Tensor& operator/=(const Operand& other) const;

  // ---- the commonest ops as methods; the rest are free functions in ops/ ----
  Tensor sum(Location where = {}) const;
  Tensor sum(const Dims& dims, bool keepdim = false, Location where = {}) const;
  Tensor mean(Location where = {}) const;
  Tensor mean(const Dims& dims, bool keepdim = false, Location where = {}) const;
  Tensor matmul(const Tensor& other, Location where = {}) const;

  // ---- for ops and backends ----
  TensorImpl* impl() const { return impl_; }
  const View& raw_view() const { return impl_->view; }
  /// Takes over one reference.
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
  const Layout& layout() const { return impl_->view.layout; }
  void check_element_type(DType wanted, Location where) const;
  void copy_elements(void* out, DType dtype, Location where) const;

  TensorImpl* impl_ = nullptr;
};

/// An operand of an op as the caller wrote it: a tensor, a temporary whose memory may be reused, or a C++ number,
/// with the place of the call. Made implicitly; never stored.
class WEFT_API Operand {
 public:
  Operand(const Tensor& tensor, Location here = {}) : where(here), tensor_(&tensor) {}
  Operand(Tensor&& tensor, Location here = {}) : where(here), temporary(true), tensor_(&tensor) {}
  template <Arithmetic T>
  Operand(T value, Location here = {}) : where(here), number_(wrap(value)), tensor_(&number_) {}
  Operand(Scalar value, Location here = {}) : where(here), number_(wrap(value)), tensor_(&number_) {}
  Operand(Indexed&& part, Location here = {});
  template <std::same_as<Indexed> T>
  Operand(T& named, Location here = {}) : Operand(static_cast<const Tensor&>(named), here) {}
  Operand(const Operand&) = delete;

  const Tensor& tensor() const { return *tensor_; }
  TensorImpl* impl() const { return tensor_->impl(); }

  Location where;
  /// The tensor is an rvalue of the caller's: nobody reads it after the op unless another handle exists.
  bool temporary = false;

 private:
  static Tensor wrap(Scalar value);

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

WEFT_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace weft

#include <weft/tensor/index.hpp>
