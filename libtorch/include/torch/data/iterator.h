// Iterators over the batches of a data loader.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>

#include <torch/types.h>

namespace torch::data {

namespace detail {

/// Loads the first batch when it is first used.
template <class Batch>
class Position {
 public:
  using BatchProducer = std::function<optional<Batch>()>;

  explicit Position(BatchProducer next_batch) : next_batch_(std::move(next_batch)) {}
  void next() {
    TORCH_CHECK(!is_end(), "Attempted to increment iterator past the end");
    batch_ = next_batch_();
  }
  Batch& get() {
    TORCH_CHECK(!is_end(), "Attempted to dereference iterator that was past the end");
    return *batch_;
  }
  /// Whether all batches were returned.
  bool is_end() {
    if (!loaded_) batch_ = next_batch_();
    loaded_ = true;
    return !batch_;
  }

 private:
  BatchProducer next_batch_;
  optional<Batch> batch_;
  bool loaded_ = false;
};

}  // namespace detail

/// Copies share their position.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;

  /// The end of every loader.
  Iterator() = default;
  explicit Iterator(typename detail::Position<Batch>::BatchProducer next_batch)
      : position_(std::make_shared<detail::Position<Batch>>(std::move(next_batch))) {}
  Iterator& operator++() {
    TORCH_CHECK(position_, "Incrementing the DataLoader's past-the-end iterator is not allowed");
    position_->next();
    return *this;
  }
  Batch& operator*() const {
    TORCH_CHECK(position_, "Dereferencing the DataLoader's past-the-end iterator is not allowed");
    return position_->get();
  }
  Batch* operator->() const { return &**this; }
  bool operator==(const Iterator& other) const {
    if (position_ == other.position_) return true;
    if (position_ && other.position_) return false;
    return (position_ ? position_ : other.position_)->is_end();
  }
  Iterator begin() { return *this; }
  Iterator end() { return Iterator(); }

 private:
  std::shared_ptr<detail::Position<Batch>> position_;
};

}  // namespace torch::data
