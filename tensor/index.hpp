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
  Index(Indexed&& part);
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
template <class...>
inline constexpr bool never = false;

/// Return type of every use of y after `auto y = x[0]`, which would name a temporary without reading: a compile-time
/// error.
template <class... A>
Tensor named_part() {
  static_assert(never<A...>, "auto names x[...] and reads nothing: write Tensor y = x[...]");
  return {};
}
}  // namespace detail

namespace detail {
/// Owns copies of indices; up to 8 without a heap block.
class WEFT_API OwnIndices {
 public:
  explicit OwnIndices(std::span<const Index> items);
  OwnIndices(const OwnIndices&) = delete;
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

/// x[…]: converts to a Tensor by reading, and writes on assignment. A temporary that owns its tensor and indices, so
/// that a function may return it; write `Tensor y = x[mask]` to keep the elements. Integers, slices, None, Ellipsis and
/// 0-d integer tensors return a view; lists, bools and other tensors return a copy.
class WEFT_API Indexed {
 public:
  Indexed(Tensor source, const IndexList& list)
      : source_(std::move(source)), where_(list.where), indices_(list.items()) {}
  Indexed(const Indexed&) = delete;

  /// Reads the elements, recorded. Raises the errors of getitem (<weft/ops/subscript.hpp>).
  operator Tensor() && { return read(); }
  template <std::same_as<bool> T>
  explicit operator T() const {
    return detail::condition_from_tensor<T>();
  }

  /// Writes in place and returns x. The value is broadcast to the selection and converted to the tensor's dtype. For an
  /// element selected twice the last value is kept, also by +=, -=, *= and /=, which read once and write once. Raises
  /// the errors of setitem.
  Tensor operator=(const Operand& value) &&;
  Tensor operator=(Indexed&& value) &&;  // NOLINT(performance-noexcept-move-constructor): it writes elements
  Tensor operator+=(const Operand& value) &&;
  Tensor operator-=(const Operand& value) &&;
  Tensor operator*=(const Operand& value) &&;
  Tensor operator/=(const Operand& value) &&;

  // ---- Tensor's methods on the selected elements; in-place methods also write them back into x ----
  [[nodiscard]] Indexed operator[](const IndexList& index) && { return Indexed(read(), index); }
  int dim(Location where = {}) && { return read().dim(where); }
  int64_t numel(Location where = {}) && { return read().numel(where); }
  Dims shape(Location where = {}) && { return read().shape(where); }
  Dims strides(Location where = {}) && { return read().strides(where); }
  int64_t size(int dim, Location where = {}) && { return read().size(dim, where); }
  int64_t stride(int dim, Location where = {}) && { return read().stride(dim, where); }
  bool is_contiguous(Location where = {}) && { return read().is_contiguous(where); }
  DType dtype(Location where = {}) && { return source_.dtype(where); }
  Device device(Location where = {}) && { return source_.device(where); }
  bool requires_grad(Location where = {}) && { return read().requires_grad(where); }
  std::string text() && { return read().text(); }
  template <class T>
    requires Arithmetic<T> || Element<T> T item(Location where = {}) && {
      return read().template item<T>(where);
    }
    template <Element T>
    std::vector<T> to_vector(Location where = {}) && {
      return read().template to_vector<T>(where);
    }
    void backward(Location where = {}) && { read().backward(where); }
    void backward(BackwardOptions options, Location where = {}) && { read().backward(options, where); }
    void backward(const Tensor& seed, BackwardOptions options = {}, Location where = {}) && {
      read().backward(seed, options, where);
    }

#define WEFT_METHOD_OF &&
#define WEFT_WRITTEN Tensor
#include "methods.hpp"
#undef WEFT_METHOD_OF
#undef WEFT_WRITTEN

#define WEFT_NO_NAMED(method)          \
  template <class... A>                \
  Tensor method(A&&...)& {             \
    return detail::named_part<A...>(); \
  }
    WEFT_NO_NAMED(dim)
    WEFT_NO_NAMED(numel)
    WEFT_NO_NAMED(shape)
    WEFT_NO_NAMED(size)
    WEFT_NO_NAMED(dtype)
    WEFT_NO_NAMED(device)
    WEFT_NO_NAMED(text)
    WEFT_NO_NAMED(backward)
    WEFT_NO_NAMED(detach)
    WEFT_NO_NAMED(clone)
    WEFT_NO_NAMED(contiguous)
    WEFT_NO_NAMED(to)
    WEFT_NO_NAMED(view)
    WEFT_NO_NAMED(reshape)
    WEFT_NO_NAMED(transpose)
    WEFT_NO_NAMED(t)
    WEFT_NO_NAMED(sum)
    WEFT_NO_NAMED(mean)
    WEFT_NO_NAMED(matmul)
#undef WEFT_NO_NAMED
    template <class T>
    T item() & {
      return detail::named_part<T>().template item<T>();
    }
    template <std::same_as<Tensor> T>
    operator T() & {
      return detail::named_part<T>();
    }

   private:
    friend class Index;
    friend class Operand;
    Tensor read() const;
    // Runs change(part) on the selected elements, writes them back into x and returns them.
    template <class Change>
    Tensor write(Change&& change) {
      return write([](const Tensor& part, void* c) { (*static_cast<std::remove_reference_t<Change>*>(c))(part); },
                   &change);
    }
    Tensor write(void (*change)(const Tensor& part, void* context), void* context);

    Tensor source_;
    Location where_;
    detail::OwnIndices indices_;
};

inline std::ostream& operator<<(std::ostream& out, Indexed&& part) { return out << Tensor(std::move(part)); }

inline Index::Index(Indexed&& part) : kind(Kind::tensor), tensor(part.read()) {}
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
