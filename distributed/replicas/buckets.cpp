// Replicas send, keep and gather whole buckets. Each rank owns a shard of each bucket instead of whole parameters,
// so the shards are even where parameters are fewer than ranks, and gradients can be freed once sent.
#include "../detail/buckets.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../optim/distinct_leaves-inl.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/flat.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed::detail {

std::vector<std::vector<size_t>> buckets_of(const std::vector<Tensor>& parameters, int64_t bytes) {
  std::vector<std::vector<size_t>> buckets;
  int64_t filled = 0;
  for (size_t i = parameters.size(); i-- > 0;) {
    const Tensor& p = parameters[i];
    const Tensor* const other = buckets.empty() ? nullptr : &parameters[buckets.back()[0]];
    const bool fits = other != nullptr && other->dtype() == p.dtype() && other->device() == p.device();
    if (!fits || filled + p.nbytes() > bytes) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(i);
    filled += p.nbytes();
  }
  return buckets;
}

void check_parameters(const std::vector<Tensor>& parameters, int64_t bucket_bytes) {
  expect_at_least("bucket_bytes", bucket_bytes, 1);
  optim::detail::check_distinct_leaves(parameters);
}

GradientBuckets::GradientBuckets(std::vector<Tensor> parameters, std::vector<std::vector<size_t>> buckets, Send send,
                                 Location where)
    : parameters_(std::move(parameters)), buckets_(std::move(buckets)), send_(std::move(send)) {
  bucket_of_.resize(parameters_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (const size_t i : buckets_[b]) bucket_of_[i] = b;
  }
  begin_anew();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.emplace_back(
        parameters_[i].register_post_accumulate_grad_hook([this, i](const Tensor&) { arrive(i); }, where));
  }
}

std::vector<Tensor> GradientBuckets::members(size_t bucket) const {
  std::vector<Tensor> out;
  for (const size_t i : buckets_[bucket]) out.push_back(parameters_[i]);
  return out;
}

Tensor GradientBuckets::gradients(size_t bucket) const {
  std::vector<Tensor> out;
  for (const Tensor& p : members(bucket)) out.push_back(p.grad().defined() ? p.grad() : zeros_like(p));
  return flattened(out);
}

void GradientBuckets::arrive(size_t parameter) {
  if (!sends_) return;
  if (has_arrived_[parameter]) {
    raise<AutogradError>(
        {.op = "DataParallel",
         .problem = fmt::format("parameter {} has another gradient before the last one was averaged", parameter),
         .remedy = "call finish() behind each backward, or add up gradients in no_sync()"});
  }
  has_arrived_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  while (next_ < buckets_.size() && missing_[next_] == 0) send_(next_++);
}

void GradientBuckets::send_rest() {
  while (next_ < buckets_.size()) send_(next_++);
}

void GradientBuckets::begin_anew() {
  missing_.clear();
  for (const std::vector<size_t>& numbers : buckets_) missing_.push_back(numbers.size());
  has_arrived_.assign(parameters_.size(), false);
  next_ = 0;
}

std::vector<bool> have_gradients(const std::vector<Tensor>& parameters) {
  std::vector<bool> out;
  for (const Tensor& p : parameters) out.push_back(p.grad().defined());
  return out;
}

std::vector<bool> any_of_ranks(const std::vector<bool>& here, const Group& group) {
  if (group.size() == 1) return here;
  const Tensor flags = zeros({static_cast<int64_t>(here.size())}, {.dtype = DType::boolean});
  std::ranges::copy(here, static_cast<bool*>(flags.data_ptr()));
  const Tensor any = all_reduce(flags, group, ReduceOp::any);
  const auto* const all = static_cast<const bool*>(any.data_ptr());
  return std::vector<bool>(all, all + here.size());
}

}  // namespace weft::distributed::detail
