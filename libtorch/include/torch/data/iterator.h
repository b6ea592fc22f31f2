// Iterators over the batches of a data loader.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>

#include <torch/types.h>

namespace torch::data {

namespace detail {

template <class Batch>
struct ValidIterator;
template <class Batch>
struct SentinelIterator;

template <class Batch>
struct IteratorImpl {
  virtual ~IteratorImpl() = default;
  virtual void next() = 0;
  virtual Batch& get() = 0;
  virtual bool operator==(const IteratorImpl& other) const = 0;
  virtual bool operator==(const ValidIterator<Batch>& other) const = 0;
  virtual bool operator==(const SentinelIterator<Batch>& other) const = 0;
};

/// Loads the first batch when it is first used.
template <class Batch>
struct ValidIterator : public IteratorImpl<Batch> {
  using BatchProducer = std::function<optional<Batch>()>;

  explicit ValidIterator(BatchProducer next_batch) : next_batch_(std::move(next_batch)) {}
  void next() override {
    load();
    TORCH_CHECK(batch_, "Attempted to increment iterator past the end");
    batch_ = next_batch_();
  }
  Batch& get() override {
    load();
    TORCH_CHECK(batch_, "Attempted to dereference iterator that was past the end");
    return *batch_;
  }
  bool operator==(const IteratorImpl<Batch>& other) const override { return other == *this; }
  bool operator==(const ValidIterator& other) const override { return &other == this; }
  /// Whether all batches were returned.
  bool operator==(const SentinelIterator<Batch>&) const override {
    load();
    return !batch_;
  }

 private:
  void load() const {
    if (loaded_) return;
    batch_ = next_batch_();
    loaded_ = true;
  }

  BatchProducer next_batch_;
  mutable optional<Batch> batch_;
  mutable bool loaded_ = false;
};

template <class Batch>
struct SentinelIterator : public IteratorImpl<Batch> {
  void next() override { TORCH_CHECK(false, "Incrementing the DataLoader's past-the-end iterator is not allowed"); }
  Batch& get() override { TORCH_CHECK(false, "Dereferencing the DataLoader's past-the-end iterator is not allowed"); }
  bool operator==(const IteratorImpl<Batch>& other) const override { return other == *this; }
  bool operator==(const ValidIterator<Batch>& other) const override { return other == *this; }
  bool operator==(const SentinelIterator&) const override { return true; }
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

  explicit Iterator(std::unique_ptr<detail::IteratorImpl<Batch>> impl) : impl_(std::move(impl)) {}
  Iterator& operator++() {
    impl_->next();
    return *this;
  }
  Batch& operator*() const { return impl_->get(); }
  Batch* operator->() const { return &impl_->get(); }
  bool operator==(const Iterator& other) const { return *impl_ == *other.impl_; }
  Iterator begin() { return *this; }
  Iterator end() { return Iterator(std::make_unique<detail::SentinelIterator<Batch>>()); }

 private:
  std::shared_ptr<detail::IteratorImpl<Batch>> impl_;
};

}  // namespace torch::data
