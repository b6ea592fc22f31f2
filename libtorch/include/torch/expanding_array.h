// ExpandingArray<n>: n values, made of n values or of one that is repeated.
#pragma once

#include <array>
#include <initializer_list>
#include <ostream>
#include <vector>

#include <c10/util/ArrayRef.h>

namespace torch {

template <size_t D, class T = int64_t>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) : ExpandingArray(c10::ArrayRef<T>(list)) {}
  ExpandingArray(std::vector<T> values) : ExpandingArray(c10::ArrayRef<T>(values)) {}
  ExpandingArray(c10::ArrayRef<T> values) {
    TORCH_CHECK(values.size() == D, "Expected ", D, " values, but instead got ", values.size());
    for (size_t i = 0; i < D; ++i) values_[i] = values[i];
  }
  ExpandingArray(T value) { values_.fill(value); }
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}

  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator c10::ArrayRef<T>() const { return {values_.data(), D}; }
  const T* data() const { return values_.data(); }
  size_t size() const { return D; }
  bool operator==(const ExpandingArray&) const = default;

 protected:
  std::array<T, D> values_;
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& out, const ExpandingArray<D, T>& array) {
  if (array.size() == 1) return out << (*array)[0];
  return out << c10::ArrayRef<T>(array);
}

/// As above; values may be missing.
template <size_t D, class T = int64_t>
class ExpandingArrayWithOptionalElem : public ExpandingArray<D, c10::optional<T>> {
  using Base = ExpandingArray<D, c10::optional<T>>;

 public:
  using Base::Base;
  ExpandingArrayWithOptionalElem(std::initializer_list<T> list)
      : Base(std::vector<c10::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(std::vector<T> values)
      : Base(std::vector<c10::optional<T>>(values.begin(), values.end())) {}
  ExpandingArrayWithOptionalElem(T value) : Base(c10::optional<T>(value)) {}
  ExpandingArrayWithOptionalElem(const std::array<T, D>& values)
      : Base(std::vector<c10::optional<T>>(values.begin(), values.end())) {}
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& out, const ExpandingArrayWithOptionalElem<D, T>& array) {
  const auto put = [&](const c10::optional<T>& value) {
    if (value) out << *value;
    else out << "None";
  };
  if (D == 1) {
    put((*array)[0]);
    return out;
  }
  out << "[";
  for (size_t i = 0; i < D; ++i) {
    if (i > 0) out << ", ";
    put((*array)[i]);
  }
  return out << "]";
}

}  // namespace torch
