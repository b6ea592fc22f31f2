// Gradients that leave in groups while backward goes on.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "../../autograd/hooks.hpp"
#include "../../tensor/callback.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Numbers of parameters, each in one bucket: the last parameters first, since backward comes to them first; of one
/// dtype and device, up to `bytes` where there are several.
std::vector<std::vector<size_t>> buckets_of(const std::vector<Tensor>& parameters, int64_t bytes);

/// ValueError for a tensor that is undefined, not a leaf, or given twice, and for bytes below 1.
void check_parameters(const std::vector<Tensor>& parameters, int64_t bucket_bytes);

/// Calls `send` for each bucket, in the same order on all ranks, when all of its gradients have arrived and those of
/// the buckets before it have left.
class GradientBuckets {
 public:
  using Send = Callback<void(size_t bucket)>;
  GradientBuckets(std::vector<Tensor> parameters, std::vector<std::vector<size_t>> buckets, Send send, Location where);
  GradientBuckets(const GradientBuckets&) = delete;

  const std::vector<Tensor>& parameters() const { return parameters_; }
  size_t size() const { return buckets_.size(); }
  const std::vector<size_t>& numbers(size_t bucket) const { return buckets_[bucket]; }
  /// The parameters of a bucket.
  std::vector<Tensor> members(size_t bucket) const;
  /// Their gradients as one 1-d tensor, with zeros where there are none.
  Tensor gradients(size_t bucket) const;

  /// Sends what has not left yet.
  void send_rest();
  /// For the next backward.
  void begin_anew();
  /// Whether gradients leave when they arrive; the state before.
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

/// By parameter, whether it has a gradient.
std::vector<bool> have_gradients(const std::vector<Tensor>& parameters);
/// Whether a rank of the group says so.
std::vector<bool> any_of_ranks(const std::vector<bool>& here, const Group& group);

}  // namespace weft::distributed::detail
