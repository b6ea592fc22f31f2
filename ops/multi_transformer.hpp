// A stack of a decoder's layers over caches of keys and values, for inference.
//
//   LayeredKvCache cache(layers.size(), batch, 2048, fewer, head_dim);
//   Tensor y = fused_multi_transformer(prompt, layers, cache, {.num_heads = 32, .head_dim = 128});   // [B, S, H]
//   y = fused_multi_transformer(next, layers, cache, {.num_heads = 32, .head_dim = 128});            // [B, 1, H]
#pragma once

#include <span>
#include <vector>

#include "../tensor/callback.hpp"
#include "kv_cache.hpp"
#include "rotary.hpp"

namespace weft {

/// One layer's. Without transposed_weights products have [in, out], with it [out, in]; qkv_weight is as
/// fused_rms_qkv_rope has it either way.
struct MultiTransformerLayer {
  Tensor ln_weight;      ///< [H]
  Tensor qkv_weight;     ///< [(heads + 2 fewer) head_dim, H]
  Tensor out_weight;     ///< [heads head_dim, H]
  Tensor mlp_ln_weight;  ///< [H]
  Tensor proj;           ///< [H, 2 F], the gate first
  Tensor down;           ///< [F, H]
};

struct MultiTransformerOptions {
  /// Of this process, where heads are shared out.
  int64_t num_heads = 0, head_dim = 0;
  double eps = 1e-5;
  bool transposed_weights = false;
  /// Pairs of features that are turned are 2 i and 2 i + 1.
  bool interleaved = false;
  RopeOptions rope = {};
  /// [B, S], integers: the position of each token. If undefined, each sequence continues at the end of its cache.
  Tensor positions = {};
  /// The last counts[b] elements of row b are tokens, and the others padding; a row without tokens is inactive. If
  /// undefined, all are tokens.
  std::vector<int64_t> counts = {};
  /// 1 / sqrt(head_dim) unless given.
  std::optional<double> scale = {};
  AttentionWindow window = {};
  /// The all-reduce over processes that shard the heads, applied to the output of attention [tokens, H]. With
  /// mlp_in_parts also applied to the output of the feed-forward layer, which shards its features.
  Callback<Tensor(const Tensor& part)> all_reduce = {};
  bool mlp_in_parts = false;
};

/// The layers y = x + out(attention(fused_rms_qkv_rope(x))), x = y + fused_rms_mlp(y), in sequence, for x [B, S, H]:
/// [B, S, H] in x's dtype. Appends keys and values to each sequence of `cache`; queries attend to it causally, for a
/// whole prompt or token by token. Padding and inactive rows are not read and give zeros; the cache of an inactive row
/// does not change. All tensors but positions have x's dtype. Without gradients: raises ValueError if an operand
/// requires one that would be recorded. Raises ValueError also for counts or a cache that do not fit the call, and for
/// an all_reduce that returns another shape or dtype; IndexError if a sequence is full; ShapeError, DTypeError. After
/// an error the cache is unchanged.
[[nodiscard]] WEFT_API Tensor fused_multi_transformer(const Tensor& x, std::span<const MultiTransformerLayer> layers,
                                                      LayeredKvCache& cache, const MultiTransformerOptions& options,
                                                      Location where = {});

}  // namespace weft
