// Dims: a short list of 64-bit integers (a shape, strides, axes) without heap memory.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

#include "config.hpp"
#include "location.hpp"
#include "view.hpp"

namespace weft {

/// At most `max_rank` (8) values; raises ShapeError for more. Converts from `{2, 3}`, one integer, a vector or a span.
class Dims {
 public:
  Dims() = default;
  template <std::integral T>
  Dims(T value) : size_(1) {
    values_[0] = static_cast<int64_t>(value);
  }
  template <std::integral T>
  Dims(std::initializer_list<T> values, Location where = {}) {
    assign(values.begin(), values.size(), where);
  }
  Dims(std::initializer_list<int64_t> values, Location where = {}) { assign(values.begin(), values.size(), where); }
  /// A std::vector, std::array or std::span of integers.
  template <class R>
    requires requires(const R& r) {
      requires std::integral<std::remove_cvref_t<decltype(*r.data())>>;
      r.size();
    }
  Dims(const R& values, Location where = {}) { assign(values.data(), values.size(), where); }

  /// Returns `value` repeated `count` times.
  static Dims filled(int count, int64_t value) {
    Dims d;
    for (int i = 0; i < count; ++i) d.push_back(value);
    return d;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return values_[i]; }
  int64_t operator[](int i) const { return values_[i]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + size_; }
  int64_t* data() { return values_; }
  const int64_t* data() const { return values_; }
  operator std::span<const int64_t>() const { return {values_, static_cast<size_t>(size_)}; }

  void push_back(int64_t value) {
    if (size_ == max_rank) raise_too_many(Location::none());
    values_[size_++] = value;
  }
  void insert(int at, int64_t value) {
    push_back(value);
    for (int i = size_ - 1; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = value;
  }
  void erase(int at) {
    --size_;
    for (int i = at; i < size_; ++i) values_[i] = values_[i + 1];
  }
  bool operator==(const Dims& other) const {
    bool equal = size_ == other.size_;
    for (int i = 0; equal && i < size_; ++i) equal = values_[i] == other.values_[i];
    return equal;
  }
  /// Product of the values, or INT64_MAX on overflow.
  int64_t product() const {
    int64_t n = 1;
    for (int64_t v : *this) {
      if (__builtin_mul_overflow(n, v, &n)) n = INT64_MAX;
    }
    return n;
  }
  /// "[2, 3]"
  WEFT_API std::string text() const;

 private:
  template <class T>
  void assign(const T* values, size_t count, Location where) {
    if (count > static_cast<size_t>(max_rank)) raise_too_many(where);
    size_ = static_cast<int>(count);
    for (size_t i = 0; i < count; ++i) values_[i] = static_cast<int64_t>(values[i]);
  }
  [[noreturn]] WEFT_API static void raise_too_many(Location where);

  int64_t values_[max_rank];
  int size_ = 0;
};

/// Prints Dims::text.
WEFT_API std::ostream& operator<<(std::ostream& out, const Dims& dims);

}  // namespace weft
