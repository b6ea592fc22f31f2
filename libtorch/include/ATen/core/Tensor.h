// Tensor: libtorch's class over weft::Tensor. It adds no data: every weft::Tensor is one and converts without cost.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include <weft/autograd/hooks.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/ops/linalg.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/special.hpp>
#include <weft/ops/statistics.hpp>
#include <weft/tensor/accessor.hpp>

#include <ATen/core/Generator.h>
#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/ArrayRef.h>

namespace torch::autograd {
struct Node;
}

namespace at {

using namespace c10;
using weft::Dims;
using weft::Location;
using weft::Operand;

class Tensor;
class GradReference;
class Storage;
class TensorImpl;
using TensorList = ArrayRef<Tensor>;
using ITensorListRef = TensorList;
using TensorVector = std::vector<Tensor>;
using TensorPair = std::tuple<Tensor, Tensor>;
using DeprecatedTypeProperties = TensorOptions;
template <class T, int rank>
using TensorAccessor = weft::Accessor<T, rank>;

namespace indexing {
class TensorIndex;
}

/// libtorch counts dimensions in 64 bits, Weft in 32.
constexpr int i32(int64_t dim) {
  return dim < INT32_MIN ? INT32_MIN : dim > INT32_MAX ? INT32_MAX : static_cast<int>(dim);
}
TensorVector wrap(std::vector<weft::Tensor>&& tensors);
std::span<const weft::Tensor> unwrap(TensorList tensors);
weft::Approximate approximation(std::string_view name);
weft::Rounding rounding(const optional<std::string_view>& mode);
inline optional<weft::Scalar> number(const optional<Scalar>& value) {
  return value ? optional<weft::Scalar>(*value) : nullopt;
}

class Tensor : public weft::Tensor {
  using Base = weft::Tensor;

 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor(const weft::Tensor& tensor) : Base(tensor) {}
  Tensor(weft::Tensor&& tensor) noexcept : Base(std::move(tensor)) {}

  /// Names another tensor.
  Tensor& operator=(const Tensor& other) & {
    Base::operator=(other);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Base::operator=(std::move(other));
    return *this;
  }
  /// Writes the elements: `x[0] = y`.
  Tensor& operator=(const Tensor& other) && { return copy_(other); }
  Tensor& operator=(Tensor&& other) && { return copy_(other); }
  Tensor& operator=(const Scalar& value) && { return fill_(value); }
  template <weft::Arithmetic T>
  Tensor& operator=(T value) && {
    return fill_(value);
  }

  /// An element along the first dimension, as a view.
  Tensor operator[](int64_t index) const { return select_first(index); }
  Tensor operator[](const Scalar& index) const { return select_first(index.toLong()); }
  Tensor operator[](const Tensor& index) const;
  Tensor index(ArrayRef<indexing::TensorIndex> indices, Location where = {}) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices, Location where = {}) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& value, bool accumulate = false,
                     Location where = {}) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value, bool accumulate = false,
                     Location where = {}) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& value, bool accumulate = false,
                     Location where = {}) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value, bool accumulate = false,
                     Location where = {}) const;

  // ---- properties ----
  int64_t dim() const { return Base::dim(); }
  int64_t ndimension() const { return Base::dim(); }
  IntArrayRef sizes() const { return static_cast<const Base&>(*this).sizes(); }
  DimVector strides() const { return Base::strides(); }
  int64_t size(int64_t dim, Location where = {}) const { return Base::size(i32(dim), where); }
  int64_t stride(int64_t dim, Location where = {}) const { return Base::stride(i32(dim), where); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const { return Base::is_contiguous(); }
  size_t nbytes() const { return static_cast<size_t>(Base::nbytes()); }
  size_t itemsize() const { return static_cast<size_t>(Base::itemsize()); }
  int64_t element_size() const { return Base::itemsize(); }
  ScalarType dtype(Location where = {}) const { return Base::dtype(where); }
  ScalarType scalar_type() const { return Base::dtype(); }
  Device device() const;
  int64_t get_device() const { return is_cpu() ? -1 : Base::device().index; }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()).layout(layout()); }
  DeprecatedTypeProperties type() const { return options(); }
  std::string toString() const;
  void print() const;
  bool is_cpu() const { return Base::device().is_cpu(); }
  bool is_cuda() const { return Base::device().type == weft::DeviceType::cuda; }
  bool is_meta() const { return Base::device().type == weft::DeviceType::meta; }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  bool is_mkldnn() const { return false; }
  bool is_floating_point() const { return weft::is_floating(Base::dtype()); }
  bool is_complex() const { return weft::is_complex(Base::dtype()); }
  bool is_signed() const { return weft::is_signed(Base::dtype()); }
  bool is_nonzero() const { return item().toBool(); }
  bool is_same_size(const Tensor& other) const { return shape() == other.shape(); }
  bool is_same(const Tensor& other) const { return impl() == other.impl(); }
  bool is_alias_of(const Tensor& other) const { return Base::shares_storage(other); }
  size_t use_count() const { return impl() == nullptr ? 0 : impl()->refs.value(); }
  void reset() { *this = Tensor(); }
  Storage storage() const;
  bool has_storage() const { return defined(); }
  TensorImpl* unsafeGetTensorImpl() const { return reinterpret_cast<TensorImpl*>(impl()); }
  uint32_t _version() const { return Base::version(); }
  bool is_view() const { return impl()->base != nullptr; }
  /// The tensor that this one is a view of. Raises AutogradError unless it is a view.
  Tensor _base() const;
  bool is_inference() const { return impl()->inference; }
  std::string name() const { return {}; }

  // ---- elements ----
  void* data_ptr() const { return Base::data_ptr(); }
  template <class T>
  T* data_ptr(Location where = {}) const {
    return Base::data<std::remove_const_t<T>>(where);
  }
  template <class T>
  const T* const_data_ptr(Location where = {}) const {
    return Base::data<T>(where);
  }
  template <class T>
  T* mutable_data_ptr(Location where = {}) const {
    return Base::data<T>(where);
  }
  template <class T>
  T* data(Location where = {}) const {
    return Base::data<T>(where);
  }
  Scalar item(Location where = {}) const { return Base::item_scalar(where); }
  template <class T>
  T item(Location where = {}) const {
    return Scalar(Base::item_scalar(where)).to<T>();
  }
  template <class T, int rank>
  TensorAccessor<T, rank> accessor() const {
    return Base::accessor<std::remove_const_t<T>, rank>();
  }
  template <class T, int rank>
  TensorAccessor<T, rank> packed_accessor64() const {
    return Base::accessor<std::remove_const_t<T>, rank>();
  }
  template <class T, int rank>
  TensorAccessor<T, rank> packed_accessor32() const {
    return Base::accessor<std::remove_const_t<T>, rank>();
  }

  // ---- autograd ----
  bool requires_grad() const { return Base::requires_grad(); }
  const Tensor& set_requires_grad(bool on) const { return requires_grad_(on); }
  Tensor& requires_grad_(bool on = true, Location where = {}) const {
    Base::requires_grad_(on, where);
    return self();
  }
  /// Undefined without a gradient; warns if a result was not told to retain it.
  Tensor grad() const {
    Tensor gradient = defined() ? Tensor(Base::grad()) : Tensor();
    if (!gradient.defined() && defined() && !is_leaf()) warn_of_missing_grad();
    return gradient;
  }
  GradReference mutable_grad() const;
  void backward(const Tensor& gradient = {}, optional<bool> retain_graph = nullopt, bool create_graph = false,
                optional<TensorList> inputs = nullopt, Location where = {}) const;
  void retain_grad(Location where = {}) const { Base::retain_grad(where); }
  bool retains_grad() const;
  std::shared_ptr<torch::autograd::Node> grad_fn() const;
  int64_t output_nr() const { return impl()->output_number; }
  Tensor& detach_() const { return written(Base::detach_()); }
  /// The elements outside of the graph.
  Tensor data() const { return Base::detach(); }
  Tensor variable_data() const { return Base::detach(); }
  Tensor tensor_data() const { return Base::detach(); }
  /// `hook` takes the gradient and returns nothing or its replacement. Returns a number for remove_hook.
  template <class F>
  unsigned register_hook(F&& hook) const {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Tensor>>) {
      return add_hook([f = std::forward<F>(hook)](Tensor gradient) mutable {
        f(std::move(gradient));
        return Tensor();
      });
    } else {
      return add_hook(std::forward<F>(hook));
    }
  }
  void remove_hook(unsigned position) const;

  // ---- conversions ----
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous, Location where = {}) const;
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor toType(ScalarType dtype) const { return Base::to(dtype.value); }
  Tensor to_dense() const { return *this; }
  Tensor type_as(const Tensor& other) const { return to(other.options()); }
  Tensor cpu() const { return Base::to(weft::Device()); }
  Tensor cuda() const { return Base::to(weft::Device(weft::DeviceType::cuda)); }
  Tensor pin_memory() const { return Base::pin_memory(); }

  // ---- shapes in place ----
  /// Changes the shape; new memory if it needs more elements. Raises AutogradError if the tensor requires a gradient.
  Tensor& resize_(const Dims& size, optional<MemoryFormat> = nullopt) const { return written(Base::resize_(size)); }
  Tensor& resize_as_(const Tensor& other) const { return resize_(other.shape()); }
  Tensor& transpose_(int64_t dim0, int64_t dim1) const { return written(Base::transpose_(i32(dim0), i32(dim1))); }
  Tensor& swapaxes_(int64_t axis0, int64_t axis1) const { return transpose_(axis0, axis1); }
  Tensor& swapdims_(int64_t dim0, int64_t dim1) const { return transpose_(dim0, dim1); }
  Tensor& t_() const { return written(Base::t_()); }
  Tensor& squeeze_() const { return written(Base::squeeze_()); }
  Tensor& squeeze_(int64_t dim) const { return written(Base::squeeze_(i32(dim))); }
  Tensor& squeeze_(IntArrayRef dims) const { return written(Base::squeeze_(Dims(dims))); }
  Tensor& unsqueeze_(int64_t dim) const { return written(Base::unsqueeze_(i32(dim))); }
  Tensor& as_strided_(const Dims& size, const Dims& stride, optional<int64_t> storage_offset = nullopt) const {
    return written(Base::as_strided_(size, stride, storage_offset));
  }
  Tensor& set_() const { return written(Base::set_()); }
  Tensor& set_(const Tensor& source) const { return written(Base::set_(source)); }

  // ---- new tensors of this dtype and device ----
  Tensor new_empty(const Dims& size, const TensorOptions& options = {}) const;
  Tensor new_zeros(const Dims& size, const TensorOptions& options = {}) const;
  Tensor new_ones(const Dims& size, const TensorOptions& options = {}) const;
  Tensor new_full(const Dims& size, const Scalar& value, const TensorOptions& options = {}) const;

  // ---- ops ----
#define AT_LIST(...) __VA_ARGS__ __VA_OPT__(, )
#define AT_OP(Result, name, parameters, arguments, ...) \
  Result name(AT_LIST parameters Location where = {}) const { return static_cast<void>(where), __VA_ARGS__; }
#define AT_WRITE(name, parameters, arguments, ...)             \
  Tensor& name(AT_LIST parameters Location where = {}) const { \
    static_cast<void>(where);                                  \
    __VA_ARGS__;                                               \
    return self();                                             \
  }
#include <ATen/core/Operations.inc>
#include <ATen/core/Writes.inc>
#undef AT_OP
#undef AT_WRITE
#define AT_UNARY(name, ...)                                            \
  Tensor name(Location where = {}) const { return Base::name(where); } \
  Tensor& name##_(Location where = {}) const {                         \
    Base::name##_(where);                                              \
    return self();                                                     \
  }
  WEFT_UNARY_OPS(AT_UNARY)
#undef AT_UNARY
#define AT_UNARY_NAME(name, op)                                      \
  Tensor name(Location where = {}) const { return Base::op(where); } \
  Tensor& name##_(Location where = {}) const {                       \
    Base::op##_(where);                                              \
    return self();                                                   \
  }
#define AT_UNARY_NAMES(X) \
  X(absolute, abs)        \
  X(negative, neg)        \
  X(fix, trunc) X(arccos, acos) X(arccosh, acosh) X(arcsin, asin) X(arcsinh, asinh) X(arctan, atan) X(arctanh, atanh)
  AT_UNARY_NAMES(AT_UNARY_NAME)
#undef AT_UNARY_NAME
#define AT_BINARY(name, ...)                                            \
  Tensor name(const Operand& other) const { return Base::name(other); } \
  Tensor& name##_(const Operand& other) const {                         \
    Base::name##_(other);                                               \
    return self();                                                      \
  }
  WEFT_BINARY_OPS(AT_BINARY)
  WEFT_INTEGER_OPS(AT_BINARY)
#undef AT_BINARY
#define AT_BINARY_NAME(name, op)                                      \
  Tensor name(const Operand& other) const { return Base::op(other); } \
  Tensor& name##_(const Operand& other) const {                       \
    Base::op##_(other);                                               \
    return self();                                                    \
  }
#define AT_BINARY_NAMES(X) X(subtract, sub) X(multiply, mul) X(divide, div) X(true_divide, div) X(arctan2, atan2)
  AT_BINARY_NAMES(AT_BINARY_NAME)
#undef AT_BINARY_NAME
#define AT_COMPARE(name, ...)                                           \
  Tensor name(const Operand& other) const { return Base::name(other); } \
  Tensor& name##_(const Operand& other) const { return copy_(Base::name(other)); }
  WEFT_COMPARE_OPS(AT_COMPARE)
#undef AT_COMPARE
#define AT_COMPARE_NAME(name, op) \
  Tensor name(const Operand& other) const { return Base::op(other); }
#define AT_COMPARE_NAMES(X) X(greater, gt) X(greater_equal, ge) X(less, lt) X(less_equal, le) X(not_equal, ne)
  AT_COMPARE_NAMES(AT_COMPARE_NAME)
#undef AT_COMPARE_NAME

  Tensor& operator+=(const Operand& other) const { return add_(other); }
  Tensor& operator-=(const Operand& other) const { return sub_(other); }
  Tensor& operator*=(const Operand& other) const { return mul_(other); }
  Tensor& operator/=(const Operand& other) const { return div_(other); }
  Tensor& operator&=(const Operand& other) const { return bitwise_and_(other); }
  Tensor& operator|=(const Operand& other) const { return bitwise_or_(other); }
  Tensor& operator^=(const Operand& other) const { return bitwise_xor_(other); }
  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }

  Tensor where(const Tensor& condition, const Operand& other) const { return Base::where(condition, other); }
  std::vector<Tensor> nonzero_numpy() const;
  std::tuple<Tensor, Tensor> slogdet() const;
  std::tuple<Tensor, Tensor, Tensor> svd(bool some = true, bool compute_uv = true) const;
  Tensor& random_(optional<Generator> generator = nullopt) const;
  Tensor& random_(int64_t to, optional<Generator> generator = nullopt) const;
  Tensor& random_(int64_t from, optional<int64_t> to, optional<Generator> generator = nullopt) const;
  Tensor& fill_diagonal_(const Scalar& value, bool wrap = false) const;
  Tensor scatter(int64_t dim, const Tensor& index, const Operand& source, std::string_view reduce) const;
  Tensor& scatter_(int64_t dim, const Tensor& index, const Operand& source, std::string_view reduce) const;
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self = true) const;
  Tensor adjoint() const { return mH(); }
  Tensor mT() const { return transpose(-2, -1); }
  Tensor mH() const { return is_complex() ? transpose(-2, -1).conj() : transpose(-2, -1); }

 private:
  Tensor& self() const { return const_cast<Tensor&>(*this); }
  Tensor select_first(int64_t index) const;
  Tensor reversed_dims(Location where) const;
  Tensor& written(const Base&) const { return self(); }
  void warn_of_missing_grad() const;
  unsigned add_hook(std::function<Tensor(Tensor)> hook) const;
  int cross_dim(optional<int64_t> dim) const;
  static Tensor given(const optional<Tensor>& tensor) { return tensor.value_or(Tensor()); }
  static TensorPair pair(weft::ValuesAndIndices&& both) { return {std::move(both.values), std::move(both.indices)}; }
  static TensorPair pair(weft::MantissaAndExponent&& both);
  static TensorPair pair(weft::MinMax&& both);
};
static_assert(sizeof(Tensor) == sizeof(weft::Tensor));

/// The address of a tensor's memory, and the context of its deleter.
class DataPtr {
 public:
  DataPtr(void* data, void* context, Device device) : data_(data), context_(context), device_(device) {}
  void* get() const { return data_; }
  void* mutable_get() const { return data_; }
  void* get_context() const { return context_; }
  Device device() const { return device_; }
  operator void*() const { return data_; }

 private:
  void* data_;
  void* context_;
  Device device_;
};

/// The memory of a tensor, shared with its views.
class Storage {
 public:
  Storage() = default;
  explicit Storage(Tensor owner) : owner_(std::move(owner)) {}
  void* data() const { return owner_.impl()->storage->data; }
  DataPtr data_ptr() const { return {data(), owner_.impl()->storage->deleter_context, device()}; }
  void* unsafeGetStorageImpl() const { return owner_.impl()->storage; }
  size_t nbytes() const { return owner_.impl()->storage->bytes; }
  Device device() const { return owner_.device(); }
  bool is_alias_of(const Storage& other) const { return unsafeGetStorageImpl() == other.unsafeGetStorageImpl(); }
  bool defined() const { return owner_.defined(); }
  explicit operator bool() const { return defined(); }

 private:
  Tensor owner_;
};
inline Storage Tensor::storage() const { return Storage(*this); }

/// Returned by x.mutable_grad(): assigning to it replaces the gradient of x.
class GradReference : public Tensor {
 public:
  explicit GradReference(const Tensor& owner) : Tensor(owner.grad()), owner_(owner) {}
  /// Weft keeps gradients of leaves that require them, so a leaf that gets one requires it from then on.
  GradReference& operator=(const Tensor& gradient) {
    if (gradient.defined() && owner_.is_leaf()) owner_.requires_grad_(true);
    owner_.set_grad(gradient);
    return *this;
  }
  void reset() { owner_.set_grad(Tensor()); }

 private:
  Tensor owner_;
};
inline GradReference Tensor::mutable_grad() const { return GradReference(*this); }

using OptionalTensorRef = optional<Tensor>;

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
/// Prints with at most `line_size` characters a line.
std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size);

// The second operand brings the location of the call.
#define AT_OPERATOR(op)                                                                                              \
  inline Tensor operator op(const Tensor& a, const Operand& b) { return weft::operator op(Operand(a, b.where), b); } \
  inline Tensor operator op(const weft::Tensor& a, const Operand& b) {                                               \
    return weft::operator op(Operand(a, b.where), b);                                                                \
  }                                                                                                                  \
  inline Tensor operator op(const Scalar& a, const Tensor& b) { return weft::operator op(a, b); }                    \
  template <weft::Arithmetic T>                                                                                      \
  Tensor operator op(T a, const Tensor& b) {                                                                         \
    return weft::operator op(a, b);                                                                                  \
  }
#define AT_REUSING_OPERATOR(op)                                  \
  AT_OPERATOR(op)                                                \
  inline Tensor operator op(Tensor&& a, const Operand& b) {      \
    return weft::operator op(Operand(std::move(a), b.where), b); \
  }
// Without the form with T on the right, C++20 would reverse the one with T on the left.
#define AT_COMPARISON(op)                                                                         \
  AT_OPERATOR(op)                                                                                 \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return weft::operator op(a, b); } \
  template <weft::Arithmetic T>                                                                   \
  Tensor operator op(const Tensor& a, T b) {                                                      \
    return weft::operator op(a, b);                                                               \
  }
AT_REUSING_OPERATOR(+)
AT_REUSING_OPERATOR(-)
AT_REUSING_OPERATOR(*)
AT_REUSING_OPERATOR(/)
AT_COMPARISON(==) AT_COMPARISON(!=) AT_OPERATOR(<) AT_OPERATOR(<=) AT_OPERATOR(>) AT_OPERATOR(>=)
#undef AT_OPERATOR
#undef AT_REUSING_OPERATOR
#undef AT_COMPARISON
#define AT_INTEGER_OPERATOR(op, function)                                                                         \
  inline Tensor operator op(const Tensor& a, const Operand& b) { return weft::function(Operand(a, b.where), b); } \
  inline Tensor operator op(const Scalar& a, const Tensor& b) { return weft::function(a, b); }
    AT_INTEGER_OPERATOR(&, bitwise_and) AT_INTEGER_OPERATOR(|, bitwise_or) AT_INTEGER_OPERATOR(^, bitwise_xor)
        AT_INTEGER_OPERATOR(%, remainder) AT_INTEGER_OPERATOR(<<, bitwise_left_shift)
            AT_INTEGER_OPERATOR(>>, bitwise_right_shift)
#undef AT_INTEGER_OPERATOR

}  // namespace at
