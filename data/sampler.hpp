// Samplers: in which order the samples of an epoch come. An order depends on the sampler, the seed and the epoch alone,
// so it can be made again at any time and nothing of it has to be kept.
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

/// A value; copies share what they hold. A sampler of one's own is a function from seed and epoch to `size` indices.
class WEFT_API Sampler {
 public:
  using Order = Callback<std::vector<int64_t>(uint64_t seed, int64_t epoch)>;

  Sampler() = default;
  /// `kind` tells saved positions of samplers apart. ValueError for a negative size.
  Sampler(std::string kind, int64_t size, Order order, Location where = {});

  /// How many indices an epoch has.
  int64_t size() const { return size_; }
  const std::string& kind() const { return kind_; }
  /// Whether its epoch is the one that DataLoader::set_epoch was told last, on all ranks, and no loop moves it.
  bool is_distributed() const { return kind_.starts_with("distributed "); }
  /// ValueError where a function of one's own gave another number of indices than `size`.
  std::vector<int64_t> order(uint64_t seed, int64_t epoch, Location where = {}) const;
  explicit operator bool() const { return static_cast<bool>(order_); }

 private:
  std::string kind_;
  int64_t size_ = 0;
  Order order_;
};

namespace detail {
/// The seed of a loader or sampler that got none. Moves the generator by one draw.
WEFT_API uint64_t drawn_seed(Generator& generator);
}  // namespace detail

/// 0 … n - 1.
WEFT_API Sampler sequential_sampler(int64_t n, Location where = {});

struct RandomSamplerOptions {
  bool replacement = false;
  /// n where it is left out. Without replacement, more than n go through several orders.
  std::optional<int64_t> num_samples = {};
};
/// A random order of 0 … n - 1, another in every epoch. ValueError for n < 1 or num_samples < 1.
WEFT_API Sampler random_sampler(int64_t n, RandomSamplerOptions options = {}, Location where = {});
/// `num_samples` indices, each with a probability proportional to its weight (1-d, on the CPU). ValueError for weights
/// that are negative, not finite or all 0, and where fewer than num_samples are above 0 without replacement.
WEFT_API Sampler weighted_sampler(const Tensor& weights, int64_t num_samples, bool replacement = true,
                                  Location where = {});
/// The given indices in a random order, or in their own.
WEFT_API Sampler subset_sampler(std::vector<int64_t> indices, bool shuffle = true, Location where = {});

struct DistributedOptions {
  int64_t rank = 0, world = 1;
  /// Leave out samples at the end so that every rank has as many, instead of repeating some from the start.
  bool drop_last = false;
};
/// The indices rank, rank + world, … of another sampler's order. Every rank has equally many. Loops do not move the
/// epoch of a loader that has it: it is 0, or that of the last DataLoader::set_epoch, so that ranks agree however often
/// each of them looped. ValueError unless 0 <= rank < world.
WEFT_API Sampler distributed_sampler(Sampler sampler, DistributedOptions options, Location where = {});

/// An epoch cut into batches: `indices` one batch after the other, and where each ends.
struct BatchPlan {
  std::vector<int64_t> indices, ends;
  int64_t size() const { return static_cast<int64_t>(ends.size()); }
};

/// Makes batches of its own: a function from seed and epoch to lists of indices, none of them empty.
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
  /// Of how many batches samples are sorted together. More leave less padding, and less to chance.
  int64_t bucket = 100;
  bool shuffle = true, drop_last = false;
};
/// Batches of samples of similar length, so that padding adds little: a random order is cut into buckets, each is
/// sorted by length and cut into batches, and these are shuffled. `lengths[i]` is the length of sample i. ValueError
/// for a batch size or bucket below 1.
WEFT_API BatchSampler length_batch_sampler(std::vector<int64_t> lengths, LengthBatchOptions options,
                                           Location where = {});

}  // namespace weft::data
