// ArrayRef: a view of consecutive elements that it does not own.
#pragma once

#include <array>
#include <initializer_list>
#include <ostream>
#include <span>
#include <type_traits>
#include <vector>

#include <weft/tensor/dims.hpp>

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>

namespace c10 {

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using size_type = size_t;
  using iterator = const T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<const T*>;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& element) : data_(&element), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  /// Valid until the end of the full expression, as every view of a temporary.
  constexpr ArrayRef(const std::initializer_list<T>& list) : data_(std::data(list)), size_(list.size()) {}
  template <size_t n>
  constexpr ArrayRef(const T (&array)[n]) : data_(array), size_(n) {}
  /// A container of consecutive elements: std::vector, std::array, std::span, weft::Dims.
  template <class C>
    requires requires(const C& c) {
      { c.data() } -> std::convertible_to<const T*>;
      c.size();
      requires sizeof(*c.data()) == sizeof(T);
    }
  constexpr ArrayRef(const C& container) : data_(container.data()), size_(static_cast<size_t>(container.size())) {}

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* cbegin() const { return data_; }
  constexpr const T* cend() const { return data_ + size_; }
  reverse_iterator rbegin() const { return reverse_iterator(end()); }
  reverse_iterator rend() const { return reverse_iterator(begin()); }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  const T& at(size_t i) const {
    TORCH_CHECK_INDEX(i < size_, "ArrayRef: invalid index ", i, " for an array of ", size_, " elements");
    return data_[i];
  }
  ArrayRef slice(size_t first, size_t count) const {
    TORCH_CHECK_INDEX(first + count <= size_, "ArrayRef: invalid slice of ", count, " elements from ", first, " of ",
                      size_);
    return {data_ + first, count};
  }
  ArrayRef slice(size_t first) const { return slice(first, size_ - first); }
  constexpr bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i) {
      if (!(data_[i] == other.data_[i])) return false;
    }
    return true;
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  constexpr operator std::span<const T>() const { return {data_, size_}; }

  friend constexpr bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(ArrayRef(b)); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

using IntArrayRef = ArrayRef<int64_t>;

/// Nothing, or a view of elements. A single value converts without a copy that ends before the call does.
template <class T>
class OptionalArrayRef : public optional<ArrayRef<T>> {
  using Base = optional<ArrayRef<T>>;

 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(nullopt_t) {}
  constexpr OptionalArrayRef(const T& value) : Base(ArrayRef<T>(value)) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& values) : Base(ArrayRef<T>(values)) {}
  template <class C>
    requires(std::is_convertible_v<const C&, ArrayRef<T>> && !std::is_convertible_v<C, T>)
  constexpr OptionalArrayRef(const C& values) : Base(ArrayRef<T>(values)) {}
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

template <class T>
using MutableArrayRef = std::span<T>;

template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> values) {
  out << "[";
  for (size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ", ") << values[i];
  return out << "]";
}
template <class T>
std::ostream& operator<<(std::ostream& out, const std::vector<T>& values) {
  return out << ArrayRef<T>(values);
}

template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& values) {
  return values;
}
template <class T>
ArrayRef<T> makeArrayRef(const T& value) {
  return value;
}

/// Up to 8 sizes or strides by value.
class DimVector : public weft::Dims {
 public:
  DimVector() = default;
  DimVector(const weft::Dims& dims) : Dims(dims) {}
  std::vector<int64_t> vec() const { return std::vector<int64_t>(begin(), end()); }
  bool equals(IntArrayRef other) const { return IntArrayRef(*this).equals(other); }
  friend bool operator==(const DimVector& a, IntArrayRef b) { return a.equals(b); }
  friend bool operator==(const DimVector& a, const DimVector& b) { return a.equals(b); }
  friend std::ostream& operator<<(std::ostream& out, const DimVector& dims) { return out << IntArrayRef(dims); }
};

}  // namespace c10
