// Shards as boxes: whether they make a whole, and who has which elements. Internal to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../sharded_state.hpp"
#include "box-inl.hpp"

namespace weft::io {

/// A box of a tensor whose elements lie one after the other in a flattened shard.
struct FlatBox {
  Box box;
  /// Of its first element, from the first of the flattened range.
  int64_t first;
  /// The dimensions before `lead` have size 1, those after it are whole rows of the shard.
  int lead;
};

/// The elements of a shard's flattened range, in order: at most two boxes a dimension, in each of its blocks.
std::vector<FlatBox> flat_boxes(const ShardInfo& shard);

/// The elements of a shard; none where it is empty.
std::vector<Box> boxes_of(const ShardInfo& shard);
ShardInfo info_of(const StoredTensor& tensor, const StoredShard& shard);

/// What is wrong with a shard on its own, or nothing.
std::string problem_of(const ShardInfo& shard);

/// Two shards with common elements, by their numbers.
struct Overlap {
  size_t first, second;
  Box common;
};
std::optional<Overlap> overlap_of(const std::vector<std::vector<Box>>& shards);
/// Elements that no shard has; the shards do not overlap.
std::optional<Box> hole_of(const Dims& shape, const std::vector<std::vector<Box>>& shards);

}  // namespace weft::io
