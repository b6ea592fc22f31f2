// A cache of keys and values that allocates blocks of a pool to sequences.
//
//   PagedKvCache cache(64, 16, 8, 64);              // 64 blocks of 16 tokens, 8 heads of 64
//   const int64_t sequence = cache.add_sequence();
#pragma once

#include <span>
#include <vector>

#include "../ops/kv_cache.hpp"

namespace weft {

/// A cache that stores sequences in blocks of a pool (Kwon et al. 2023). A forked sequence shares the blocks of its
/// prefix and copies a block when it writes to it. Move-only; without gradients.
class WEFT_API PagedKvCache {
 public:
  PagedKvCache(int64_t blocks, int64_t block_size, int64_t heads, int64_t depth, TensorOptions options = {},
               int64_t width = -1, Location where = {});
  PagedKvCache(PagedKvCache&&) = default;
  PagedKvCache& operator=(PagedKvCache&&) = default;

  /// [blocks, block_size, heads, depth] and [blocks, block_size, heads, width].
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  int64_t block_size() const { return k_.size(1); }
  int64_t free_blocks() const { return std::ssize(free_); }

  /// An empty sequence; its number, which is that of no other.
  int64_t add_sequence();
  /// A sequence of the same tokens, which takes no memory until it grows. IndexError for no such sequence.
  int64_t fork(int64_t sequence, Location where = {});
  /// Its blocks are free where no other sequence has them. IndexError.
  void remove(int64_t sequence, Location where = {});
  /// IndexError.
  int64_t length(int64_t sequence, Location where = {}) const;
  const std::vector<int64_t>& blocks(int64_t sequence, Location where = {}) const;

  /// The first counts[i] rows of k [sum of counts, heads, depth] and of v are appended to sequences[i], and so on.
  /// Raises IndexError, before anything is written, if too few blocks are free or a sequence does not exist; ValueError
  /// for a repeated sequence; ShapeError.
  void append(std::span<const int64_t> sequences, const Tensor& k, const Tensor& v, std::span<const int64_t> counts,
              Location where = {});

  /// These sequences for attention_varlen, which reads the pool. IndexError.
  CacheBlocks of_sequences(std::span<const int64_t> sequences, Location where = {}) const;

 private:
  struct Sequence {
    int64_t length = 0;
    std::vector<int64_t> blocks;
    bool present = true;
  };
  const Sequence& find(int64_t sequence) const;

  Tensor k_, v_;
  std::vector<Sequence> sequences_;
  std::vector<int64_t> users_;  // of each block
  std::vector<int64_t> free_;   // the last is taken next
};

/// attention_varlen() over these sequences of the cache.
[[nodiscard]] WEFT_API Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts,
                                               std::span<const int64_t> sequences, const PagedKvCache& cache,
                                               const CachedAttentionArguments& arguments = {}, Location where = {});

}  // namespace weft
