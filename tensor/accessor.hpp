// Typed access to single elements of a tensor in host memory, for hand-written loops.
#pragma once

#include <concepts>
#include <span>

#include "index.hpp"

namespace weft {

namespace detail {
WEFT_API void check_accessor(const Tensor& tensor, DType type, int rank, Location where);
[[noreturn]] WEFT_API void accessor_out_of_range(int64_t index, int axis, int64_t size);
}  // namespace detail

/// Reads and writes elements with a(i, j) or a[i][j]; sizes and strides are in elements. Returned by `x.accessor<float,
/// 2>()`. It borrows the tensor's memory and must not outlive the tensor. Raises IndexError for an index outside [0,
/// size), unless NDEBUG is defined: then nothing is checked.
template <class T, int rank>
class Accessor {
  static_assert(rank >= 0 && rank <= max_rank);

 public:
  Accessor(T* data, const int64_t* sizes, const int64_t* strides, int axis = 0) : data_(data), axis_(axis) {
    for (int i = 0; i < rank; ++i) {
      sizes_[i] = sizes[i];
      strides_[i] = strides[i];
    }
  }

  template <std::integral... I>
    requires(sizeof...(I) == rank)
  T& operator()(I... index) const {
    int axis = 0;
    int64_t offset = 0;
    ((offset += checked(static_cast<int64_t>(index), axis) * strides_[axis], ++axis), ...);
    return data_[offset];
  }
  decltype(auto) operator[](int64_t index) const requires(rank > 0) {
    T* const at = data_ + checked(index, 0) * strides_[0];
    if constexpr (rank == 1) return (*at);  // the parentheses make it a reference
    else return Accessor<T, rank - 1>(at, sizes_ + 1, strides_ + 1, axis_ + 1);
  }

  T* data() const { return data_; }
  int64_t size(int axis) const { return sizes_[checked_axis(axis)]; }
  int64_t stride(int axis) const { return strides_[checked_axis(axis)]; }
  std::span<const int64_t> sizes() const { return {sizes_, rank}; }
  std::span<const int64_t> strides() const { return {strides_, rank}; }

 private:
  int64_t checked(int64_t index, int axis) const {
#ifndef NDEBUG
    if (index < 0 || index >= sizes_[axis]) detail::accessor_out_of_range(index, axis_ + axis, sizes_[axis]);
#endif
    (void)axis;
    return index;
  }
  static int checked_axis(int axis) {
#ifndef NDEBUG
    if (axis < 0 || axis >= rank) detail::accessor_out_of_range(axis, 0, rank);
#endif
    return axis;
  }

  T* data_;
  int axis_;  ///< axis of the tensor, for error messages
  int64_t sizes_[rank > 0 ? rank : 1];
  int64_t strides_[rank > 0 ? rank : 1];
};

template <class T, int rank>
Accessor<T, rank> Tensor::accessor(Location where) const {
  detail::check_accessor(*this, dtype_of<T>(), rank, where);
  const Dims steps = strides();
  return Accessor<T, rank>(static_cast<T*>(impl_->view.data), sizes().data(), steps.data());
}
template <class T, int rank>
Accessor<T, rank> Indexed::accessor(Location where) const {
  return elements().template accessor<T, rank>(where);
}

}  // namespace weft
