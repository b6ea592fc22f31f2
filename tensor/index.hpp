// Indices as they are written between brackets: x[0], x[{0, Slice(1, none, 2), None, Ellipsis, mask}] = 0.f.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <weft/tensor/tensor.hpp>

namespace weft {

/// A new axis of size 1; inside Slice, a bound left out.
struct NoneType {
  constexpr operator std::optional<int64_t>() const { return {}; }
};
inline constexpr NoneType None;
inline constexpr NoneType none;

/// As many full slices as the tensor has dimensions left.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// start, start + step, … before stop, by Python's rules: negative bounds count from the end, both are clamped, and a
/// bound left out is the end that the step comes from or goes to. A step of 0 is a ValueError when it is used.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;

  constexpr Slice(std::optional<int64_t> start_ = {}, std::optional<int64_t> stop_ = {}, int64_t step_ = 1)
      : start(start_), stop(stop_), step(step_) {}
};

/// One index: an integer, Slice, None, Ellipsis, a bool, a tensor of integers or a mask, or a list of integers.
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
  /// A 1-d tensor of i64 on the CPU.
  Index(std::initializer_list<int64_t> list) : Index(std::span<const int64_t>(list.begin(), list.size())) {}
  Index(const std::vector<int64_t>& list) : Index(std::span<const int64_t>(list)) {}
  Index(std::span<const int64_t> list);
  /// A 1-d mask on the CPU.
  Index(const std::vector<bool>& list);

  Kind kind;
  bool has_start = false, has_stop = false;
  /// The integer or the bool, or the first bound of a slice.
  int64_t start = 0;
  int64_t stop = 0, step = 1;
  Tensor tensor;
};

/// What stands between the brackets, with the place of the call. A temporary: it points at the caller's indices.
class IndexList {
 public:
  IndexList(std::initializer_list<Index> items, Location here = {})
      : where(here), items_(items.begin(), items.size()) {}
  IndexList(std::span<const Index> items, Location here = {}) : where(here), items_(items) {}
  IndexList(const std::vector<Index>& items, Location here = {}) : where(here), items_(items) {}
  template <class T>
    requires std::convertible_to<T&&, Index> &&
        (!std::convertible_to<T&&, std::span<const Index>>)IndexList(T&& item, Location here = {})
        : where(here), own_(std::forward<T>(item)), items_(&*own_, 1) {}
    IndexList(const IndexList&) = delete;

    std::span<const Index> items() const { return items_; }
    Location where;

   private:
    std::optional<Index> own_;
    std::span<const Index> items_;
};

/// x[…]: reads where a Tensor is wanted, writes where something is assigned. A temporary; write `Tensor y = x[mask]`
/// to keep what was read.
class WEFT_API Indexed {
 public:
  Indexed(const Tensor& source, const IndexList& list) : source_(source), list_(list) {}
  Indexed(const Indexed&) = delete;

  /// A view for integers, slices, None, Ellipsis and nothing else; otherwise a copy. Recorded by autograd.
  operator Tensor() && { return read(); }

  /// Writes in place: the value is broadcast to the selection and cast to the tensor's dtype.
  const Tensor& operator=(const Operand& value) &&;
  const Tensor& operator=(Indexed&& value) &&;
  const Tensor& operator+=(const Operand& value) &&;
  const Tensor& operator-=(const Operand& value) &&;
  const Tensor& operator*=(const Operand& value) &&;
  const Tensor& operator/=(const Operand& value) &&;

 private:
  friend class Operand;
  Tensor read() const;

  const Tensor& source_;
  const IndexList& list_;
};

}  // namespace weft
