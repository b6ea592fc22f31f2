#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <weft/data/sampler.hpp>
#include <weft/ops/create.hpp>
#include <weft/tensor/error.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using data::Sampler;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Order = std::vector<int64_t>;

Order counted(int64_t n) {
  Order order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}
Order sorted(Order order) {
  std::sort(order.begin(), order.end());
  return order;
}

TEST(Sampler, Sequential) {
  EXPECT_THAT(data::sequential_sampler(4).order(7, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(data::sequential_sampler(0).order(7, 3).empty());
  EXPECT_THROW(data::sequential_sampler(-1), ValueError);
}

TEST(Sampler, RandomOrdersDependOnSeedAndEpochAlone) {
  const Sampler sampler = data::random_sampler(100);
  const Order first = sampler.order(1, 0);
  EXPECT_EQ(sorted(first), counted(100));
  EXPECT_NE(first, counted(100));
  EXPECT_EQ(data::random_sampler(100).order(1, 0), first);
  EXPECT_NE(sampler.order(1, 1), first);
  EXPECT_NE(sampler.order(2, 0), first);
}

TEST(Sampler, EveryPlaceIsEquallyLikely) {
  const Sampler sampler = data::random_sampler(6);
  std::vector<int> counts(36);
  constexpr int epochs = 6000;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Order order = sampler.order(5, epoch);
    for (size_t place = 0; place < 6; ++place) ++counts[place * 6 + static_cast<size_t>(order[place])];
  }
  for (const int count : counts) EXPECT_NEAR(count, epochs / 6, 5 * std::sqrt(epochs / 6.0));
}

TEST(Sampler, RandomWithReplacementAndOtherCounts) {
  const Order drawn = data::random_sampler(10, {.replacement = true, .num_samples = 1000}).order(1, 0);
  EXPECT_EQ(drawn.size(), 1000U);
  EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 10U);
  const Order longer = data::random_sampler(10, {.num_samples = 25}).order(1, 0);
  EXPECT_EQ(sorted({longer.begin(), longer.begin() + 10}), counted(10));
  EXPECT_EQ(sorted({longer.begin() + 10, longer.begin() + 20}), counted(10));
  EXPECT_EQ(longer.size(), 25U);
  EXPECT_THROW(data::random_sampler(0), ValueError);
  EXPECT_THROW(data::random_sampler(5, {.num_samples = 0}), ValueError);
}

TEST(Sampler, WeightedFollowsTheWeights) {
  const Sampler sampler = data::weighted_sampler(tensor({1.0, 0.0, 3.0}), 8000);
  std::vector<int> counts(3);
  for (const int64_t i : sampler.order(1, 0)) ++counts[static_cast<size_t>(i)];
  EXPECT_NEAR(counts[0], 2000, 5 * std::sqrt(1500.0));
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(sampler.order(1, 4), sampler.order(1, 4));
  EXPECT_NE(sampler.order(1, 4), sampler.order(1, 5));
}

TEST(Sampler, WeightedWithoutReplacement) {
  const Sampler sampler = data::weighted_sampler(tensor({1.0, 2.0, 3.0, 0.0}), 3, false);
  EXPECT_THAT(sorted(sampler.order(1, 0)), ElementsAre(0, 1, 2));
  EXPECT_THROW(data::weighted_sampler(tensor({1.0, 0.0}), 2, false), ValueError);
  EXPECT_THROW(data::weighted_sampler(tensor({1.0, -1.0}), 2), ValueError);
  EXPECT_THROW(data::weighted_sampler(tensor({1.0, std::nan("")}), 2), ValueError);
  EXPECT_THROW(data::weighted_sampler(tensor({0.0, 0.0}), 2), ValueError);
  EXPECT_THROW(data::weighted_sampler(tensor({1.0}), 0), ValueError);
}

TEST(Sampler, TheWeightsAreACopy) {
  const Tensor weights = tensor({0.0, 1.0});
  const Sampler sampler = data::weighted_sampler(weights, 3);
  weights.fill_(1.0);
  EXPECT_THAT(sampler.order(1, 0), ElementsAre(1, 1, 1));
}

TEST(Sampler, Subset) {
  EXPECT_THAT(data::subset_sampler({5, 2, 9}, false).order(1, 0), ElementsAre(5, 2, 9));
  EXPECT_THAT(sorted(data::subset_sampler({5, 2, 9}).order(1, 0)), ElementsAre(2, 5, 9));
}

// torch.utils.data.DistributedSampler(range(10), num_replicas=4, rank=r, shuffle=False, drop_last=d) gives these.
TEST(Sampler, DistributedAsInPyTorch) {
  const auto part = [](int64_t rank, bool drop_last) {
    return data::distributed_sampler(data::sequential_sampler(10), {rank, 4, drop_last}).order(0, 0);
  };
  EXPECT_THAT(part(0, false), ElementsAre(0, 4, 8));
  EXPECT_THAT(part(1, false), ElementsAre(1, 5, 9));
  EXPECT_THAT(part(2, false), ElementsAre(2, 6, 0));
  EXPECT_THAT(part(3, false), ElementsAre(3, 7, 1));
  EXPECT_THAT(part(0, true), ElementsAre(0, 4));
  EXPECT_THAT(part(3, true), ElementsAre(3, 7));
  EXPECT_THAT(data::distributed_sampler(data::sequential_sampler(2), {4, 5}).order(0, 0), ElementsAre(0));
  EXPECT_THROW(data::distributed_sampler(data::sequential_sampler(2), {2, 2}), ValueError);
}

TEST(Sampler, OneOfTheUsersOwn) {
  const Sampler backwards("backwards", 3, [](uint64_t, int64_t) { return Order{2, 1, 0}; });
  EXPECT_THAT(backwards.order(0, 0), ElementsAre(2, 1, 0));
  const Sampler wrong("short", 3, [](uint64_t, int64_t) { return Order{2}; });
  EXPECT_THAT(message_of<ValueError>([&] { (void)wrong.order(0, 0); }), HasSubstr(": expected 3 indices, got 1"));
}

TEST(LengthBatches, SamplesOfOneBatchHaveSimilarLengths) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 1000; ++i) lengths.push_back(i * 7919 % 1000);
  const auto batches = data::length_batch_sampler(lengths, {.batch_size = 8, .bucket = 1000}).batches(1, 0);
  EXPECT_EQ(batches.size(), 125U);
  Order seen;
  for (const Order& batch : batches) {
    const auto length = [&](int64_t i) { return lengths[static_cast<size_t>(i)]; };
    EXPECT_EQ(length(batch.back()) - length(batch.front()), 7);  // all are sorted together
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(sorted(seen), counted(1000));
  const auto in_order = data::length_batch_sampler({3, 1, 2, 9, 8}, {.batch_size = 2, .bucket = 1, .shuffle = false});
  EXPECT_THAT(in_order.batches(1, 0), ElementsAre(Order{1, 0}, Order{2, 3}, Order{4}));
  const auto whole =
      data::length_batch_sampler({3, 1, 2, 9, 8}, {.batch_size = 2, .shuffle = false, .drop_last = true});
  EXPECT_THAT(whole.batches(1, 0), ElementsAre(Order{1, 2}, Order{0, 4}));
  EXPECT_NE(data::length_batch_sampler(lengths, {.batch_size = 8}).batches(1, 1), batches);
  EXPECT_THROW(data::length_batch_sampler({1}, {.batch_size = 0}), ValueError);
  EXPECT_THROW(data::length_batch_sampler({1}, {.bucket = 0}), ValueError);
}

}  // namespace
}  // namespace weft
