// Multi-head attention with heads sharded over processes. Not public.
#pragma once

#include "../../ops/attention.hpp"
#include "../sharded_layer-inl.hpp"

namespace weft::nn::detail {

/// multi_head_attention_forward of `heads` heads, of which this process computes its share with its shards of the
/// parameters. Operands, masks, output and weights are whole; with sequence parallelism, operands and output are this
/// process's shards.
HeadsResult sharded_heads(const ShardedLayer& parts, const ShardedLayer& out_proj, const Tensor& query,
                          const Tensor& key, const Tensor& value, int64_t heads, HeadsParameters parameters,
                          HeadsCall call, double dropout_p);

}  // namespace weft::nn::detail
