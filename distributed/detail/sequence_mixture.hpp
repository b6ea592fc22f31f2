// Mixtures of experts on shards of sequences. Not public.
#pragma once

#include "../../nn/module.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// For an nn::MoE with all experts whose input is this rank's shard of the sequence, and whose gradients are summed
/// over the group: balance_loss, z_loss and counts then cover the tokens of all ranks, once in the sum of gradients.
/// Experts that are sharded too have ExpertParallelOptions::sequence instead.
void join_router_losses(const nn::Module& layer, const Group& group, Location where);

}  // namespace weft::distributed::detail
