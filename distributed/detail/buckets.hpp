// Buckets of gradients that are sent while backward runs.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "../../autograd/hooks.hpp"
#include "../../tensor/callback.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Indices of parameters by bucket, the last parameters first, since backward computes their gradients first.
/// Parameters of a bucket have one dtype and device; a bucket of several parameters has at most `bytes` bytes.
std::vector<std::vector<size_t>> buckets_of(const std::vector<Tensor>& parameters, int64_t bytes);

/// Raises ValueError for a tensor that is undefined, not a leaf, or given twice, and for bucket_bytes below 1.
void check_parameters(const std::vector<Tensor>& parameters, int64_t bucket_bytes);

/// Calls `send` for each bucket, in the same order on all ranks, once all of its gradients are computed and all buckets
/// before it are sent.
class GradientBuckets {
 public:
  using Send = Callback<void(size_t bucket)>;
  GradientBuckets(std::vector<Tensor> parameters, std::vector<std::vector<size_t>> buckets, Send send, Location where);
  GradientBuckets(const GradientBuckets&) = delete;

  const std::vector<Tensor>& parameters() const { return parameters_; }
  size_t size() const { return buckets_.size(); }
  const std::vector<size_t>& numbers(size_t bucket) const { return buckets_[bucket]; }
  std::vector<Tensor> members(size_t bucket) const;
  /// Gradients of a bucket as one 1-d tensor; zeros for parameters without a gradient.
  Tensor gradients(size_t bucket) const;

  /// Sends the remaining buckets.
  void send_rest();
  /// Resets the state for the next backward.
  void begin_anew();
  /// Sets whether buckets are sent when complete; returns the previous setting.
  bool set_sending(bool sends) { return std::exchange(sends_, sends); }

 private:
  void arrive(size_t parameter);

  std::vector<Tensor> parameters_;
  std::vector<std::vector<size_t>> buckets_;
  Send send_;
  std::vector<size_t> bucket_of_, missing_;
  std::vector<bool> has_arrived_;
  size_t next_ = 0;
  bool sends_ = true;
  std::vector<ScopedHook> hooks_;
};

std::vector<bool> have_gradients(const std::vector<Tensor>& parameters);
/// Elementwise "or" over the ranks of the group.
std::vector<bool> any_of_ranks(const std::vector<bool>& here, const Group& group);

}  // namespace weft::distributed::detail
