// Jobs to the workers of a data loader, and results from them.
#pragma once

#include <torch/data/detail/queue.h>

namespace torch::data::detail {

/// push_job, pop_result and drain are called by one thread, the others by the workers.
template <class Job, class Result>
class DataShuttle {
 public:
  void push_job(Job job) {
    jobs_.push(std::move(job));
    ++in_flight_;
  }
  void push_result(Result result) { results_.push(std::move(result)); }
  Job pop_job() { return jobs_.pop(); }
  /// Nothing if no job is in flight.
  optional<Result> pop_result(optional<std::chrono::milliseconds> timeout = nullopt) {
    if (in_flight_ == 0) return nullopt;
    optional<Result> result(results_.pop(timeout));
    --in_flight_;
    return result;
  }
  /// Discards the jobs that no worker has begun, and waits for the others.
  void drain() {
    in_flight_ -= jobs_.clear();
    while (in_flight_ > 0) pop_result();
  }
  size_t in_flight_jobs() const noexcept { return in_flight_; }

 private:
  Queue<Job> jobs_;
  Queue<Result> results_;
  size_t in_flight_ = 0;
};

}  // namespace torch::data::detail
