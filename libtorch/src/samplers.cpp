// Samplers of torch::data. Their archives have libtorch's entries.
#include <torch/data/samplers.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "values.h"

namespace torch::data::samplers {

namespace {

void write_count(serialize::OutputArchive& archive, const char* key, size_t value) {
  archive.write(key, torch::tensor(static_cast<int64_t>(value), kInt64), /*is_buffer=*/true);
}
// Raises ValueError for a number above the limit.
size_t read_count(serialize::InputArchive& archive, const char* key, size_t limit) {
  const int64_t value = serialize::detail::read_integer(archive, key);
  TORCH_CHECK_VALUE(value >= 0 && static_cast<size_t>(value) <= limit, "the sampler's entry ", key, " is ", value,
                    ", above ", limit);
  return static_cast<size_t>(value);
}
// The number of examples of this rank that were returned. `first` is the index of the first of them.
size_t read_index_of_rank(serialize::InputArchive& archive, size_t first, size_t count) {
  const size_t at = read_count(archive, "sample_index_", first + count);
  TORCH_CHECK_VALUE(at >= first, "the sampler's entry sample_index_ is ", at, ", below the first of this rank");
  return at - first;
}
/// The next indices before `end`, or nothing there. `at` maps positions to indices.
optional<std::vector<size_t>> take(size_t& index, size_t end, size_t batch_size,
                                   const std::function<size_t(size_t)>& at) {
  if (index >= end) return nullopt;
  std::vector<size_t> batch(std::min(batch_size, end - index));
  for (size_t& i : batch) i = at(index++);
  return batch;
}
constexpr size_t any_count = INT64_MAX;

}  // namespace

// ---- SequentialSampler ----
void SequentialSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  return take(index_, size_, batch_size, [](size_t i) { return i; });
}
void SequentialSampler::save(serialize::OutputArchive& archive) const { write_count(archive, "index", index_); }
void SequentialSampler::load(serialize::InputArchive& archive) { index_ = read_count(archive, "index", any_count); }

// ---- RandomSampler ----
RandomSampler::RandomSampler(int64_t size, Dtype index_dtype) : indices_(torch::randperm(size, index_dtype)) {}
void RandomSampler::reset(optional<size_t> new_size) {
  const int64_t size = new_size ? static_cast<int64_t>(*new_size) : indices_.numel();
  indices_ = torch::randperm(size, indices_.options());
  index_ = 0;
}
optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  const int64_t left = indices_.numel() - index_;
  if (left <= 0) return nullopt;
  const int64_t count = std::min<int64_t>(left, static_cast<int64_t>(std::min(batch_size, any_count)));
  const Tensor batch = indices_.slice(0, index_, index_ + count).to(kInt64).contiguous();
  index_ += count;
  const auto* first = batch.data_ptr<int64_t>();
  return std::vector<size_t>(first, first + count);
}
void RandomSampler::save(serialize::OutputArchive& archive) const {
  write_count(archive, "index", index());
  archive.write("indices", indices_, /*is_buffer=*/true);
}
void RandomSampler::load(serialize::InputArchive& archive) {
  Tensor indices;
  archive.read("indices", indices, /*is_buffer=*/true);
  TORCH_CHECK_VALUE(indices.dim() == 1, "the sampler's entry indices has ", indices.dim(), " dimensions, expected 1");
  index_ = static_cast<int64_t>(read_count(archive, "index", static_cast<size_t>(indices.numel())));
  indices_ = indices;
}

// ---- StreamSampler ----
void StreamSampler::reset(optional<size_t> new_size) {
  epoch_size_ = new_size.value_or(epoch_size_);
  retrieved_ = 0;
}
optional<BatchSize> StreamSampler::next(size_t batch_size) {
  if (retrieved_ >= epoch_size_) return nullopt;
  const size_t count = std::min(batch_size, epoch_size_ - retrieved_);
  retrieved_ += count;
  return BatchSize(count);
}
void StreamSampler::save(serialize::OutputArchive& archive) const {
  write_count(archive, "examples_retrieved_so_far", retrieved_);
}
void StreamSampler::load(serialize::InputArchive& archive) {
  retrieved_ = read_count(archive, "examples_retrieved_so_far", any_count);
}

// ---- distributed samplers ----
DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {
  DistributedRandomSampler::reset();
}
void DistributedRandomSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  const size_t local = local_sample_count();
  std::vector<size_t> all(num_replicas_ == 1 ? size_ : local * num_replicas_);
  std::iota(all.begin(), all.end(), size_t{0});
  for (size_t i = size_; i < all.size(); ++i) all[i] = i % size_;
  std::shuffle(all.begin(), all.end(), std::mt19937(static_cast<uint32_t>(epoch_)));
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank_ * local);
  indices_.assign(first, first + static_cast<std::ptrdiff_t>(local));
  index_ = 0;
}
optional<std::vector<size_t>> DistributedRandomSampler::next(size_t batch_size) {
  return take(index_, indices_.size(), batch_size, [this](size_t i) { return indices_[i]; });
}
void DistributedRandomSampler::save(serialize::OutputArchive& archive) const {
  write_count(archive, "sample_index_", index_ + rank_ * indices_.size());
  write_count(archive, "epoch_", epoch_);
}
void DistributedRandomSampler::load(serialize::InputArchive& archive) {
  epoch_ = read_count(archive, "epoch_", any_count);
  reset();
  index_ = read_index_of_rank(archive, rank_ * indices_.size(), indices_.size());
}

DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas, size_t rank,
                                                           bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {}
void DistributedSequentialSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
optional<std::vector<size_t>> DistributedSequentialSampler::next(size_t batch_size) {
  const size_t local = local_sample_count(), first = rank_ * local;
  return take(index_, local, batch_size, [&](size_t i) { return (first + i) % size_; });
}
void DistributedSequentialSampler::save(serialize::OutputArchive& archive) const {
  write_count(archive, "sample_index_", index_ + rank_ * local_sample_count());
}
void DistributedSequentialSampler::load(serialize::InputArchive& archive) {
  const size_t local = local_sample_count();
  index_ = read_index_of_rank(archive, rank_ * local, local);
}

}  // namespace torch::data::samplers
