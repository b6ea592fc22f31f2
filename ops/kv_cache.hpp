// Keys and values of the tokens so far, so that new ones attend to them without computing them again: contiguous for
// each sequence, or in blocks of a pool that sequences share (generate/paged_kv_cache.hpp).
//
//   KvCache cache(1, 2048, 8, 64);                  // one sequence of up to 2048 tokens, 8 heads of 64
//   cache.append(k, v);                             // [1, n, 8, 64]
//   Tensor out = attention(q, cache);               // [1, n, heads of q, 64]
#pragma once

#include <span>
#include <vector>

#include "attention.hpp"

namespace weft {

/// A contiguous cache. Lengths are the host's, so that nothing waits for a device. Move-only; no gradient passes.
class WEFT_API KvCache {
 public:
  /// For `batch` sequences of up to `capacity` tokens; values are as wide as keys unless `width` says otherwise.
  /// ShapeError, OutOfMemoryError.
  KvCache(int64_t batch, int64_t capacity, int64_t heads, int64_t depth, TensorOptions options = {}, int64_t width = -1,
          Location where = {});
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;

  /// [batch, capacity, heads, depth] and [batch, capacity, heads, width]; elements after a sequence's length are
  /// uninitialised.
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t capacity() const { return k_.size(1); }

  /// Writes k [batch, n, heads, depth] and v [batch, n, heads, width] at the end of every sequence, converted to the
  /// cache's dtype. Raises IndexError, before anything is written, if a sequence is full; ShapeError.
  void append(const Tensor& k, const Tensor& v, Location where = {});
  /// The first counts[i] of the rows go to sequence i, and so on: k [sum of counts, heads, depth]. ValueError for a
  /// negative count.
  void append(const Tensor& k, const Tensor& v, std::span<const int64_t> counts, Location where = {});
  /// Forgets all of a sequence but its first tokens. IndexError for no such sequence, ValueError for more than it has.
  void truncate(int64_t sequence, int64_t length, Location where = {});
  /// Replaces sequence i by sequence rows[i]; their number may change. Copies the cache. Raises IndexError.
  void take_rows(std::span<const int64_t> rows, Location where = {});

 private:
  Tensor k_, v_;
  std::vector<int64_t> lengths_;
};

/// A KvCache for each of a model's layers, which have read the same tokens. Move-only.
class WEFT_API LayeredKvCache {
 public:
  /// Each as KvCache(batch, capacity, heads, depth, options). ValueError for fewer layers than one; ShapeError,
  /// OutOfMemoryError.
  LayeredKvCache(int64_t layers, int64_t batch, int64_t capacity, int64_t heads, int64_t depth,
                 TensorOptions options = {}, Location where = {});
  LayeredKvCache(LayeredKvCache&&) = default;
  LayeredKvCache& operator=(LayeredKvCache&&) = default;

  int64_t layers() const { return std::ssize(layers_); }
  /// IndexError.
  KvCache& layer(int64_t i, Location where = {});
  const KvCache& layer(int64_t i, Location where = {}) const;
  const std::vector<int64_t>& lengths() const { return layers_[0].lengths(); }
  int64_t capacity() const { return layers_[0].capacity(); }

  /// Each sequence has its first tokens alone. ValueError, IndexError as KvCache::truncate.
  void truncate(std::span<const int64_t> lengths, Location where = {});
  /// Replaces sequence i by sequence rows[i] by copying. Raises IndexError.
  void take_rows(std::span<const int64_t> rows, Location where = {});

 private:
  std::vector<KvCache> layers_;
};

/// Sequences whose keys and values are in blocks of a pool.
struct CacheBlocks {
  /// [blocks, block_size, heads, depth] and [blocks, block_size, heads, width].
  Tensor k, v;
  /// The tokens of each sequence, and its blocks.
  std::vector<int64_t> lengths;
  std::vector<std::vector<int64_t>> blocks;
};

struct CachedAttentionArguments {
  /// Causal: the queries are the last tokens of their sequence, and see no later tokens.
  bool causal = true;
  std::optional<double> scale = {};
  /// [H] or [sequences, H]
  Tensor alibi_slopes = {};
  AttentionWindow window = {};
};
/// attention() of q [batch, Sq, H, D], the last Sq tokens of every sequence, over its cached keys and values, which are
/// read once without a copy: [batch, Sq, H, Dv] in q's dtype, which may differ from the cache's. Raises ValueError if q
/// requires a gradient that would be recorded, or if a sequence has fewer tokens than queries.
[[nodiscard]] WEFT_API Tensor attention(const Tensor& q, const KvCache& cache,
                                        const CachedAttentionArguments& arguments = {}, Location where = {});
/// The same for the last counts[i] tokens of each sequence, concatenated in q [sum of counts, H, D].
[[nodiscard]] WEFT_API Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts, const KvCache& cache,
                                               const CachedAttentionArguments& arguments = {}, Location where = {});
/// The same over blocks.
[[nodiscard]] WEFT_API Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts,
                                               const CacheBlocks& cache, const CachedAttentionArguments& arguments = {},
                                               Location where = {});

}  // namespace weft
