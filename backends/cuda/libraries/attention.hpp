// Attention as a graph of cuDNN's: the patterns of operations for which it has fused engines.
// https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#pragma once

#include "dnn.hpp"

#if WEFT_HAS_CUDNN

#include <array>

namespace weft::cuda {

struct AttentionProblem {
  /// Tensor ids of the graphs. All but the last four are [batch, heads, length, depth].
  enum Id : int64_t {
    q,
    k,
    v,
    out,
    log_sum_exp,
    g,
    dq,
    dk,
    dv,
    tensor_count,
    product_sums,
    scale,
    one,
    minus_infinity
  };

  DType dtype;                                     ///< f16 or bf16
  bool causal;                                     ///< query i sees the keys up to i, else all of them
  int64_t batch, heads, key_heads, queries, keys;  ///< key_heads divides heads
  int64_t depth, width;                            ///< of q and k; of v and out
  std::array<int64_t, 4> strides[tensor_count];    ///< in elements
};

/// out and log_sum_exp, by queries [batch, heads, queries, 1] in f32, from q, k, v and the numbers.
Descriptor attention_graph(const AttentionProblem&, cudnnHandle_t, int device);
/// dq, dk and dv from g, out, log_sum_exp, q, k, v and the numbers. product_sums is f32 scratch memory as log_sum_exp,
/// contiguous.
Descriptor attention_gradient_graph(const AttentionProblem&, cudnnHandle_t, int device);
/// A gradient that has the same bits in every run takes memory of queries times keys.
inline constexpr DnnWishes attention_wishes = {.tensor_cores = true, .most_workspace = int64_t{1} << 30};

}  // namespace weft::cuda

#endif
