// Shards as boxes: checks for overlaps and gaps, and their elements. Internal to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../sharded_state.hpp"
#include "box-inl.hpp"

namespace weft::io {

/// A box of consecutive elements of a flattened shard.
struct FlatBox {
  Box box;
  /// Offset of the box's first element from the start of the flattened range.
  int64_t first;
  /// The dimensions before `lead` have size 1; those after it have the full size of the shard.
  int lead;
};

/// The elements of a shard's flattened range, in order: at most two boxes per dimension, in each of its blocks.
std::vector<FlatBox> flat_boxes(const ShardInfo& shard);

/// The elements of a shard; no boxes if it is empty.
std::vector<Box> boxes_of(const ShardInfo& shard);
ShardInfo info_of(const StoredTensor& tensor, const StoredShard& shard);

/// Describes an error of a single shard; empty if it is valid.
std::string problem_of(const ShardInfo& shard);

/// Two shards with common elements, by index.
struct Overlap {
  size_t first, second;
  Box common;
};
std::optional<Overlap> overlap_of(const std::vector<std::vector<Box>>& shards);
/// Returns a box of elements that are in no shard. The shards must not overlap.
std::optional<Box> hole_of(const Dims& shape, const std::vector<std::vector<Box>>& shards);

}  // namespace weft::io
