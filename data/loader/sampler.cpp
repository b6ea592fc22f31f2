#include "../sampler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/distribution.hpp"
#include "../../ops/random.hpp"
#include "../../ops/masked.hpp"
#include "../../tensor/error.hpp"
#include "epoch_random-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

namespace {

void require(bool holds, const char* op, std::string problem, Location where) {
  if (!holds) raise<ValueError>({.op = op, .problem = std::move(problem)}, where);
}

std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

std::vector<int64_t> permuted(int64_t n, Generator& generator) {
  return randperm(n, {}, &generator).to_vector<int64_t>();
}

}  // namespace

uint64_t detail::drawn_seed(Generator& generator) {
  const GeneratorState at = generator.reserve(1);
  const PhiloxWords words = philox4x32_10(at.seed, at.subsequence, at.offset);
  return words.word[0] | uint64_t{words.word[1]} << 32;
}

Sampler::Sampler(std::string kind, int64_t size, Order order, Location where)
    : kind_(std::move(kind)), size_(size), order_(std::move(order)) {
  require(size >= 0, "Sampler", fmt::format("a size of {}", size), where);
}

std::vector<int64_t> Sampler::order(uint64_t seed, int64_t epoch, Location where) const {
  require(static_cast<bool>(order_), "Sampler", "it is empty", where);
  std::vector<int64_t> order = order_(seed, epoch);
  require(static_cast<int64_t>(order.size()) == size_, "Sampler",
          mismatch_text(fmt::format("sampler \"{}\"", kind_), fmt::format("{} indices", size_), order.size()), where);
  return order;
}

Sampler sequential_sampler(int64_t n, Location where) {
  return Sampler(
      "sequential", n, [n](uint64_t, int64_t) { return counted(n); }, where);
}

Sampler random_sampler(int64_t n, RandomSamplerOptions options, Location where) {
  const int64_t count = options.num_samples.value_or(n);
  require(n >= 1, "random_sampler", fmt::format("there are {} samples to draw from", n), where);
  require(count >= 1, "random_sampler", fmt::format("{} samples are to be drawn", count), where);
  const auto order = [=](uint64_t seed, int64_t epoch) {
    Generator generator(detail::epoch_seed(seed, epoch));
    if (options.replacement) return randint(0, n, count, {}, &generator).to_vector<int64_t>();
    std::vector<int64_t> all;
    while (static_cast<int64_t>(all.size()) < count) {
      const std::vector<int64_t> once = permuted(n, generator);
      const auto wanted = std::min(n, count - static_cast<int64_t>(all.size()));
      all.insert(all.end(), once.begin(), once.begin() + wanted);
    }
    return all;
  };
  return Sampler(options.replacement ? "random with replacement" : "random", count, order, where);
}

Sampler weighted_sampler(const Tensor& weights, int64_t num_samples, bool replacement, Location where) {
  const Tensor own = weights.detach(where).to(DType::f64, where).clone(where);
  // Raise the errors of drawing here, not in the first epoch.
  Generator generator(0);
  require(num_samples >= 1, "weighted_sampler", fmt::format("{} samples are to be drawn", num_samples), where);
  require(own.dim() == 1, "weighted_sampler", fmt::format("weights of shape {}", own.shape().text()), where);
  require(replacement || count_nonzero(own).item<int64_t>() >= num_samples, "weighted_sampler",
          fmt::format("fewer than {} weights are above 0", num_samples), where);
  (void)multinomial(own, num_samples, replacement, &generator, where);
  const auto order = [=](uint64_t seed, int64_t epoch) {
    Generator drawn(detail::epoch_seed(seed, epoch));
    return multinomial(own, num_samples, replacement, &drawn).to_vector<int64_t>();
  };
  return Sampler("weighted", num_samples, order, where);
}

Sampler subset_sampler(std::vector<int64_t> indices, bool shuffle, Location where) {
  const auto size = static_cast<int64_t>(indices.size());
  const auto order = [indices = std::move(indices), size, shuffle](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out = indices;
    if (!shuffle) return out;
    Generator generator(detail::epoch_seed(seed, epoch));
    const std::vector<int64_t> places = permuted(size, generator);
    for (size_t i = 0; i < out.size(); ++i) out[i] = indices[static_cast<size_t>(places[i])];
    return out;
  };
  return Sampler(shuffle ? "random subset" : "subset", size, order, where);
}

Sampler distributed_sampler(Sampler sampler, DistributedOptions o, Location where) {
  require(o.world >= 1 && o.rank >= 0 && o.rank < o.world, "distributed_sampler",
          fmt::format("there is no rank {} of {}", o.rank, o.world), where);
  const int64_t n = sampler.size();
  const int64_t each = o.drop_last ? n / o.world : n / o.world + (n % o.world != 0 ? 1 : 0);
  const std::string kind = "distributed " + sampler.kind();
  const auto order = [sampler = std::move(sampler), o, each](uint64_t seed, int64_t epoch) {
    const std::vector<int64_t> all = sampler.order(seed, epoch);
    std::vector<int64_t> own(static_cast<size_t>(each));
    for (int64_t i = 0; i < each; ++i) {
      own[static_cast<size_t>(i)] = all[static_cast<size_t>(o.rank + i * o.world) % all.size()];
    }
    return own;
  };
  return Sampler(kind, each, order, where);
}

BatchSampler length_batch_sampler(std::vector<int64_t> lengths, LengthBatchOptions o, Location where) {
  require(o.batch_size >= 1, "length_batch_sampler", fmt::format("a batch size of {}", o.batch_size), where);
  require(o.bucket >= 1, "length_batch_sampler", fmt::format("buckets of {} batches", o.bucket), where);
  const auto make = [lengths = std::move(lengths), o](uint64_t seed, int64_t epoch) {
    const auto n = static_cast<int64_t>(lengths.size());
    Generator generator(detail::epoch_seed(seed, epoch));
    std::vector<int64_t> order = o.shuffle ? permuted(n, generator) : counted(n);
    const auto shorter = [&](int64_t a, int64_t b) {
      return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
    };
    BatchSampler::Batches batches;
    const int64_t bucket = o.bucket > n / o.batch_size ? n : o.bucket * o.batch_size;
    for (int64_t from = 0; from < n; from += bucket) {
      const int64_t to = from + std::min(bucket, n - from);
      std::stable_sort(order.begin() + from, order.begin() + to, shorter);
      for (int64_t at = from; at < to;) {
        const int64_t end = at + std::min(o.batch_size, to - at);
        if (end - at == o.batch_size || !o.drop_last) batches.emplace_back(order.begin() + at, order.begin() + end);
        at = end;
      }
    }
    if (!o.shuffle) return batches;
    BatchSampler::Batches shuffled;
    for (const int64_t i : permuted(static_cast<int64_t>(batches.size()), generator)) {
      shuffled.push_back(std::move(batches[static_cast<size_t>(i)]));
    }
    return shuffled;
  };
  return BatchSampler("by length", make);
}

}  // namespace weft::data
