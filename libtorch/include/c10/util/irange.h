// c10::irange(n) and c10::irange(begin, end): integers for range-based loops.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>

namespace c10 {

template <std::integral I>
class integer_range {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    using pointer = I*;
    using reference = I&;
    explicit iterator(I value) : value_(value) {}
    I operator*() const { return value_; }
    iterator& operator++() {
      ++value_;
      return *this;
    }
    iterator operator++(int) { return iterator(value_++); }
    bool operator==(const iterator&) const = default;

   private:
    I value_;
  };
  integer_range(I begin, I end) : begin_(begin), end_(end < begin ? begin : end) {}
  iterator begin() const { return iterator(begin_); }
  iterator end() const { return iterator(end_); }

 private:
  I begin_, end_;
};

template <std::integral B, std::integral E>
integer_range<E> irange(B begin, E end) {
  return {static_cast<E>(begin), end};
}
template <std::integral E>
integer_range<E> irange(E end) {
  return {E(), end};
}

}  // namespace c10
