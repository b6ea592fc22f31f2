// Samplers define the order of the samples in an epoch. The order depends only on the sampler, the seed and the epoch,
// so it can be recomputed at any time and need not be saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/location.hpp"

namespace weft {
class Generator;
class Tensor;
}  // namespace weft

namespace weft::data {

/// A value type; copies share state. A custom sampler is a function from seed and epoch to `size` indices.
class WEFT_API Sampler {
 public:
  using Order = Callback<std::vector<int64_t>(uint64_t seed, int64_t epoch)>;

  Sampler() = default;
  /// `kind` identifies the sampler in saved positions. Raises ValueError for a negative size.
  Sampler(std::string kind, int64_t size, Order order, Location where = {});

  /// Number of indices per epoch.
  int64_t size() const { return size_; }
  const std::string& kind() const { return kind_; }
  /// Whether the epoch is set only by DataLoader::set_epoch, on all ranks, and not advanced by loops.
  bool is_distributed() const { return kind_.starts_with("distributed "); }
  /// Raises ValueError if a custom function returned another number of indices than `size`.
  std::vector<int64_t> order(uint64_t seed, int64_t epoch, Location where = {}) const;
  explicit operator bool() const { return static_cast<bool>(order_); }

 private:
  std::string kind_;
  int64_t size_ = 0;
  Order order_;
};

namespace detail {
/// Returns the seed for a loader or sampler without one. Advances the generator by one draw.
WEFT_API uint64_t drawn_seed(Generator& generator);
}  // namespace detail

/// 0 … n - 1.
WEFT_API Sampler sequential_sampler(int64_t n, Location where = {});

struct RandomSamplerOptions {
  bool replacement = false;
  /// Default: n. Without replacement, more than n continue with further permutations.
  std::optional<int64_t> num_samples = {};
};
/// A random permutation of 0 … n - 1, different in every epoch. Raises ValueError for n < 1 or num_samples < 1.
WEFT_API Sampler random_sampler(int64_t n, RandomSamplerOptions options = {}, Location where = {});
/// `num_samples` indices, each with a probability proportional to its weight (1-d, on the CPU). Raises ValueError for
/// weights that are negative, not finite or all 0, and, without replacement, if fewer than num_samples weights are
/// above 0.
WEFT_API Sampler weighted_sampler(const Tensor& weights, int64_t num_samples, bool replacement = true,
                                  Location where = {});
/// The given indices in random or in the given order.
WEFT_API Sampler subset_sampler(std::vector<int64_t> indices, bool shuffle = true, Location where = {});

struct DistributedOptions {
  int64_t rank = 0, world = 1;
  /// Drops samples at the end so that every rank has the same number, instead of repeating some from the start.
  bool drop_last = false;
};
/// The indices rank, rank + world, … of another sampler's order. Every rank has the same number of indices. Loops do
/// not advance the epoch of the loader: it is 0, or that of the last DataLoader::set_epoch, so ranks agree even if they
/// ran different numbers of loops. Raises ValueError unless 0 <= rank < world.
WEFT_API Sampler distributed_sampler(Sampler sampler, DistributedOptions options, Location where = {});

/// An epoch cut into batches: all `indices`, and the end of each batch in them.
struct BatchPlan {
  std::vector<int64_t> indices, ends;
  int64_t size() const { return static_cast<int64_t>(ends.size()); }
};

/// Custom batches: a function from seed and epoch to lists of indices, none of them empty.
class WEFT_API BatchSampler {
 public:
  using Batches = std::vector<std::vector<int64_t>>;
  using Make = Callback<Batches(uint64_t seed, int64_t epoch)>;

  BatchSampler() = default;
  BatchSampler(std::string kind, Make make) : kind_(std::move(kind)), make_(std::move(make)) {}

  const std::string& kind() const { return kind_; }
  Batches batches(uint64_t seed, int64_t epoch) const { return make_(seed, epoch); }
  explicit operator bool() const { return static_cast<bool>(make_); }

 private:
  std::string kind_;
  Make make_;
};

struct LengthBatchOptions {
  int64_t batch_size = 1;
  /// Number of batches that are sorted together. Larger values give less padding but less randomness.
  int64_t bucket = 100;
  bool shuffle = true, drop_last = false;
};
/// Batches of samples of similar length, which reduces padding: a random order is cut into buckets, each is sorted by
/// length and cut into batches, and the batches are shuffled. `lengths[i]` is the length of sample i. Raises ValueError
/// for a batch size or bucket below 1.
WEFT_API BatchSampler length_batch_sampler(std::vector<int64_t> lengths, LengthBatchOptions options,
                                           Location where = {});

}  // namespace weft::data
