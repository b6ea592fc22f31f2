// Attention whose heads several processes share. Not public.
#pragma once

#include "../../ops/attention.hpp"
#include "../layer_in_parts-inl.hpp"

namespace weft::nn::detail {

/// multi_head_attention_forward of `heads` heads, of which this process has as many as `parts` says, with its parts of
/// the parameters. Operands, masks, output and weights are those of the whole; with sequences in parts, operands and
/// output are this process's.
HeadsResult heads_in_parts(const LayerInParts& parts, const LayerInParts& out_proj, const Tensor& query,
                           const Tensor& key, const Tensor& value, int64_t heads, HeadsParameters parameters,
                           HeadsCall call, double dropout_p);

}  // namespace weft::nn::detail
