// Indices in brackets: x[0], x[{0, Slice(1, none, 2), None, Ellipsis, mask}] = 0.f.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "grad_mode.hpp"
#include "tensor.hpp"

namespace weft {

/// As an index, a new axis of size 1. In a Slice or as an optional argument, "not given".
struct NoneType {
  template <class T>
  constexpr operator std::optional<T>() const {
    return {};
  }
};
inline constexpr NoneType None;
inline constexpr NoneType none;

/// Expands to as many full slices as the tensor has remaining dimensions.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// Elements start, start + step, … before stop, by Python's rules: negative bounds count from the end, both are
/// clamped, and an omitted bound is the end of the dimension on that side. A step of 0 raises ValueError when the slice
/// is used.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;

  constexpr Slice(std::optional<int64_t> start_ = {}, std::optional<int64_t> stop_ = {}, int64_t step_ = 1)
      : start(start_), stop(stop_), step(step_) {}
};

/// One index: an integer, Slice, None, Ellipsis, bool, integer tensor, mask, or list of integers.
class WEFT_API Index {
 public:
  enum class Kind : uint8_t { integer, slice, none, ellipsis, boolean, tensor };

  template <std::integral T>
  Index(T value) : kind(std::same_as<T, bool> ? Kind::boolean : Kind::integer), start(static_cast<int64_t>(value)) {}
  Index(const Slice& slice)
      : kind(Kind::slice),
        has_start(slice.start.has_value()),
        has_stop(slice.stop.has_value()),
        start(slice.start.value_or(0)),
        stop(slice.stop.value_or(0)),
        step(slice.step) {}
  Index(NoneType) : kind(Kind::none) {}
  Index(EllipsisType) : kind(Kind::ellipsis) {}
  Index(const Tensor& index) : kind(Kind::tensor), tensor(index) {}
  Index(Tensor&& index) : kind(Kind::tensor), tensor(std::move(index)) {}
  Index(const Indexed& part);
  /// Converts to a 1-d i64 tensor on the CPU.
  Index(std::initializer_list<int64_t> list);
  Index(const std::vector<int64_t>& list);
  Index(std::span<const int64_t> list);
  /// Converts to a 1-d mask on the CPU.
  Index(const std::vector<bool>& list);

  Kind kind;
  bool has_start = false, has_stop = false;
  /// The integer or the bool, or the start of a slice.
  int64_t start = 0;
  int64_t stop = 0, step = 1;
  Tensor tensor;
};

/// The indices in brackets, with the location of the call. A temporary: it points to the caller's indices.
class IndexList {
 public:
  IndexList(std::initializer_list<Index> items, Location here = {})
      : where(here), items_(items.begin(), items.size()) {}
  IndexList(std::span<const Index> items, Location here = {}) : where(here), items_(items) {}
  IndexList(const std::vector<Index>& items, Location here = {}) : where(here), items_(items.data(), items.size()) {}
  template <class T>
    requires std::convertible_to<T&&, Index> &&
        (!std::convertible_to<T&&, std::span<const Index>>)IndexList(T&& item, Location here = {})
        : where(here), own_(std::forward<T>(item)), items_(&own_, 1) {}
    IndexList(const IndexList&) = delete;

    std::span<const Index> items() const { return items_; }
    Location where;

   private:
    Index own_ = None;
    std::span<const Index> items_;
};

namespace detail {
/// Owns copies of indices; up to 8 without a heap block.
class WEFT_API OwnIndices {
 public:
  explicit OwnIndices(std::span<const Index> items);
  OwnIndices(const OwnIndices& other) : OwnIndices(other.items()) {}
  OwnIndices& operator=(const OwnIndices&) = delete;
  ~OwnIndices();
  std::span<const Index> items() const { return {first_, count_}; }

 private:
  void copy(std::span<const Index> items);
  void destroy();

  static constexpr size_t few = max_rank;
  Index* first_;
  size_t count_;
  alignas(Index) std::byte inline_[few * sizeof(Index)];
};
}  // namespace detail

/// x[…]: a temporary writes on assignment, and is otherwise the selected elements. After `auto y = x[…]`, y is used as
/// a Tensor: assigning to it, `y = z`, names another tensor. Integers, slices, None, Ellipsis and 0-d integer tensors
/// select a view; lists, bools and other tensors a copy. A copy is made at the first use of y: it raises ValueError if
/// x was written since.
class WEFT_API Indexed {
 public:
  Indexed(Tensor source, const IndexList& list)
      : source_(std::move(source)), where_(list.where), version_(version_of(source_)), indices_(list.items()) {}
  Indexed(const Indexed&) = default;

  /// Reads the elements, recorded. Raises the errors of getitem (<weft/ops/subscript.hpp>).
  operator Tensor() && { return value_.defined() ? std::move(value_) : read_at_once(); }
  operator Tensor() const& { return elements(); }
  template <std::same_as<bool> T>
  explicit operator T() const {
    return detail::condition_from_tensor<T>();
  }

  /// Writes in place and returns x. The value is broadcast to the selection and converted to the tensor's dtype. For an
  /// element selected twice the last value is kept, also by +=, -=, *= and /=, which read once and write once. Raises
  /// the errors of setitem.
  Tensor operator=(const Operand& value) &&;
  Tensor operator=(const Indexed& value) &&;
  Tensor operator+=(const Operand& value) &&;
  Tensor operator-=(const Operand& value) &&;
  Tensor operator*=(const Operand& value) &&;
  Tensor operator/=(const Operand& value) &&;

  /// Names another tensor; x keeps its elements.
  Indexed& operator=(Tensor other) & {
    value_ = std::move(other);
    return *this;
  }
  Indexed& operator=(const Indexed& other) & { return *this = Tensor(other); }
  // Change the selected elements, which are x's own if they are a view.
  const Tensor& operator+=(const Operand& value) &;
  const Tensor& operator-=(const Operand& value) &;
  const Tensor& operator*=(const Operand& value) &;
  const Tensor& operator/=(const Operand& value) &;

  // ---- Tensor's methods on the selected elements; in-place methods of a temporary also write them back into x ----
  [[nodiscard]] Indexed operator[](const IndexList& index) const { return Indexed(elements(), index); }
  bool defined() const { return elements().defined(); }
  int dim(Location where = {}) const { return elements().dim(where); }
  int64_t numel(Location where = {}) const { return elements().numel(where); }
  Dims sizes(Location where = {}) const { return elements().shape(where); }
  Dims shape(Location where = {}) const { return elements().shape(where); }
  Dims strides(Location where = {}) const { return elements().strides(where); }
  int64_t size(int dim, Location where = {}) const { return elements().size(dim, where); }
  int64_t stride(int dim, Location where = {}) const { return elements().stride(dim, where); }
  int64_t storage_offset(Location where = {}) const { return elements().storage_offset(where); }
  bool is_contiguous(Location where = {}) const { return elements().is_contiguous(where); }
  DType dtype(Location where = {}) const { return elements().dtype(where); }
  Device device(Location where = {}) const { return elements().device(where); }
  int64_t itemsize(Location where = {}) const { return elements().itemsize(where); }
  int64_t nbytes(Location where = {}) const { return elements().nbytes(where); }
  bool shares_storage(const Tensor& other, Location where = {}) const {
    return elements().shares_storage(other, where);
  }
  bool requires_grad(Location where = {}) const { return elements().requires_grad(where); }
  bool is_leaf(Location where = {}) const { return elements().is_leaf(where); }
  Tensor grad(Location where = {}) const { return elements().grad(where); }
  void retain_grad(Location where = {}) const { elements().retain_grad(where); }
  template <class F>
  HookHandle register_hook(F&& hook, Location where = {}) const;
  std::string text() const { return elements().text(); }
  template <class T>
  T* data(Location where = {}) const {
    return elements().template data<T>(where);
  }
  void* data_ptr(Location where = {}) const { return elements().data_ptr(where); }
  template <class T>
    requires Arithmetic<T> || Element<T> T item(Location where = {})
  const { return elements().template item<T>(where); }
  Scalar item_scalar(Location where = {}) const { return elements().item_scalar(where); }
  template <Element T>
  std::vector<T> to_vector(Location where = {}) const {
    return elements().template to_vector<T>(where);
  }
  template <class T, int rank>
  Accessor<T, rank> accessor(Location where = {}) const;
  void backward(Location where = {}) const { elements().backward(where); }
  void backward(BackwardOptions options, Location where = {}) const { elements().backward(options, where); }
  void backward(const Tensor& seed, BackwardOptions options = {}, Location where = {}) const {
    elements().backward(seed, options, where);
  }

#define WEFT_WRITES(...) \
  Tensor __VA_ARGS__&&;  \
  Tensor __VA_ARGS__ const&
#define WEFT_WRITES_AS(signature, ...)                        \
  Tensor signature&& { return std::move(*this).__VA_ARGS__; } \
  Tensor signature const& { return __VA_ARGS__; }
#include "methods.hpp"
#undef WEFT_WRITES
#undef WEFT_WRITES_AS

 private:
  friend class Index;
  friend class Operand;
  static uint32_t version_of(const Tensor& x) {
    return x.impl() != nullptr ? x.impl()->storage->version.load(MemoryOrder::relaxed) : 0;
  }
  /// Read at the first use.
  const Tensor& elements() const {
    if (!value_.defined()) value_ = read();
    return value_;
  }
  /// In the grad mode in which x[…] was written.
  Tensor read() const;
  /// In the expression that selects.
  Tensor read_at_once() const;
  // Runs change(part) on the selected elements, writes them back into x and returns them.
  template <class Change>
  Tensor write(Change&& change) {
    return write([](const Tensor& part, void* c) { (*static_cast<std::remove_reference_t<Change>*>(c))(part); },
                 &change);
  }
  Tensor write(void (*change)(const Tensor& part, void* context), void* context);

  Tensor source_;
  mutable Tensor value_;
  Location where_;
  uint32_t version_;
  GradMode mode_ = grad_mode();
  detail::OwnIndices indices_;
};

inline std::ostream& operator<<(std::ostream& out, const Indexed& part) { return out << Tensor(part); }

inline Index::Index(const Indexed& part) : kind(Kind::tensor), tensor(part.elements()) {}
inline Indexed Tensor::operator[](const IndexList& index) const { return Indexed(*this, index); }

inline detail::OwnIndices::OwnIndices(std::span<const Index> items)
    : first_(reinterpret_cast<Index*>(inline_)), count_(items.size()) {
  if (WEFT_LIKELY(count_ == 1)) new (first_) Index(items[0]);
  else copy(items);
}
inline detail::OwnIndices::~OwnIndices() {
  if (WEFT_LIKELY(count_ == 1)) first_->~Index();
  else destroy();
}

}  // namespace weft
