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
  /// [B, S], integers: the place of each token. Left out: each sequence goes on where its cache ends.
  Tensor positions = {};
  /// The last counts[b] of row b's S places are tokens, what is before them is padding; a row with none is inactive.
  /// Left out: all are.
  std::vector<int64_t> counts = {};
  /// 1 / sqrt(head_dim) unless given.
  std::optional<double> scale = {};
  AttentionWindow window = {};
  /// The sum over processes among which heads are shared out, applied to what attention ends with [tokens, H]; with
  /// mlp_in_parts to the feed-forward layer's result, too, of whose features each process then has a part.
  Callback<Tensor(const Tensor& part)> all_reduce = {};
  bool mlp_in_parts = false;
};

/// The layers y = x + out(attention(fused_rms_qkv_rope(x))), x = y + fused_rms_mlp(y), one after the other, of x [B, S,
/// H]: [B, S, H] in x's dtype. Keys and values go behind each sequence of `cache`, over which queries attend, causally:
/// a prompt at once, or token by token. What is padding, or of an inactive row, is not read, and gives zeros; an
/// inactive row's cache stays. All tensors but positions are of x's dtype. Nothing is recorded: ValueError where
/// gradients are and an operand wants one, for counts or a cache that do not fit the call, and for an all_reduce that
/// returns another shape or dtype; IndexError where a sequence has no room; ShapeError, DTypeError. The cache has after
/// an error what it had before.
WEFT_API Tensor fused_multi_transformer(const Tensor& x, std::span<const MultiTransformerLayer> layers,
                                        LayeredKvCache& cache, const MultiTransformerOptions& options,
                                        Location where = {});

}  // namespace weft
