// Sequences that share blocks of a cache.
#include <vector>

#include <gtest/gtest.h>

#include <weft/generate/paged_kv_cache.hpp>
#include <weft/ops/attention.hpp>
#include <weft/ops/index.hpp>
#include <weft/tensor/error.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

TEST(PagedKvCache, ForksShareBlocksUntilOneWrites) {
  const NoGradGuard unrecorded;
  PagedKvCache cache(4, 2, 1, 2, {f64});
  const Tensor k = spread({8, 1, 2}, 1), v = spread({8, 1, 2}, 2);
  const auto append = [&](int64_t sequence, int64_t first, int64_t n) {
    const std::vector<int64_t> ids{sequence}, counts{n};
    cache.append(ids, k.narrow(0, first, n), v.narrow(0, first, n), counts);
  };
  const auto attend = [&](int64_t sequence) {
    const std::vector<int64_t> ids{sequence}, counts{1};
    return attention_varlen(spread({1, 1, 2}, 5), counts, ids, cache);
  };
  const auto expected = [&](const std::vector<int64_t>& tokens) {
    const Tensor at = tensor(tokens);
    return values(attention(spread({1, 1, 2}, 5).unsqueeze(0), index_select(k, 0, at).unsqueeze(0),
                            index_select(v, 0, at).unsqueeze(0)));
  };
  const int64_t first = cache.add_sequence();
  append(first, 0, 3);
  EXPECT_EQ(cache.free_blocks(), 2);
  const int64_t second = cache.fork(first);
  EXPECT_EQ(cache.free_blocks(), 2);
  append(second, 5, 1);
  EXPECT_EQ(cache.free_blocks(), 1);
  EXPECT_EQ(cache.blocks(first)[0], cache.blocks(second)[0]);
  EXPECT_NE(cache.blocks(first)[1], cache.blocks(second)[1]);
  append(first, 3, 1);
  EXPECT_EQ(cache.free_blocks(), 1);
  expect_values(attend(first), expected({0, 1, 2, 3}), 1e-12);
  expect_values(attend(second), expected({0, 1, 2, 5}), 1e-12);
  EXPECT_THROW(append(second, 0, 3), IndexError);
  EXPECT_EQ(cache.length(second), 4);
  EXPECT_EQ(cache.free_blocks(), 1);
  cache.remove(first);
  EXPECT_EQ(cache.free_blocks(), 2);
  expect_values(attend(second), expected({0, 1, 2, 5}), 1e-12);
  append(second, 6, 2);
  expect_values(attend(second), expected({0, 1, 2, 5, 6, 7}), 1e-12);
  EXPECT_THROW(cache.length(first), IndexError);
  EXPECT_THROW(cache.fork(7), IndexError);
  const std::vector<int64_t> twice{second, second}, counts{1, 1};
  EXPECT_THROW(cache.append(twice, k.narrow(0, 0, 2), v.narrow(0, 0, 2), counts), ValueError);
}

TEST(PagedKvCache, ForksThatWriteInOneCallCopyOnlySharedBlocks) {
  PagedKvCache cache(3, 2, 1, 1, {f64});
  const int64_t first = cache.add_sequence();
  const std::vector<int64_t> one{first}, count{1};
  cache.append(one, doubles({1}, {1, 1, 1}), doubles({1}, {1, 1, 1}), count);
  const std::vector<int64_t> ids{first, cache.fork(first), cache.fork(first)}, counts{1, 1, 1};
  cache.append(ids, doubles({2, 3, 4}, {3, 1, 1}), doubles({2, 3, 4}, {3, 1, 1}), counts);
  EXPECT_EQ(cache.free_blocks(), 0);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t block = cache.blocks(ids[i]).front();
    expect_values(cache.k().select(0, block), {1, static_cast<double>(i) + 2});
  }
}

}  // namespace
}  // namespace weft::testing
