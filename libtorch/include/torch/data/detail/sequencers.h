// The order in which a data loader returns the results of its workers.
#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

namespace torch::data::detail::sequencers {

template <class Result>
using ResultProducer = std::function<optional<Result>()>;

template <class Result>
struct Sequencer {
  virtual ~Sequencer() = default;
  virtual optional<Result> next(ResultProducer<Result> next_result) = 0;
};

/// Results as they come.
template <class Result>
struct NoSequencer final : public Sequencer<Result> {
  optional<Result> next(ResultProducer<Result> next_result) override { return next_result(); }
};

/// Results in the order of their jobs. Those that come too early are kept.
template <class Result>
struct OrderedSequencer : public Sequencer<Result> {
  explicit OrderedSequencer(size_t max_jobs) : buffer_(max_jobs) {}

  optional<Result> next(ResultProducer<Result> next_result) override {
    while (!buffer(next_sequence_number_)) {
      optional<Result> result = next_result();
      if (!result) return nullopt;
      optional<Result>& place = buffer(result->sequence_number);
      TORCH_INTERNAL_ASSERT(!place, "two results have the number ", result->sequence_number);
      place = std::move(result);
    }
    optional<Result> result = std::move(buffer(next_sequence_number_));
    buffer(next_sequence_number_++).reset();
    return result;
  }
  optional<Result>& buffer(size_t number) { return buffer_.at(number % buffer_.size()); }

  size_t next_sequence_number_ = 0;
  std::vector<optional<Result>> buffer_;
};

}  // namespace torch::data::detail::sequencers
