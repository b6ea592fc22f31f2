// States in shards, as Python gives them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../io/sharded_state.hpp"

namespace weft::python {

using Sizes = std::vector<int64_t>;
/// A shard's local tensor, global shape and offset, flattened range and local shape.
using Shard = std::tuple<Tensor, Sizes, Sizes, std::optional<std::pair<int64_t, int64_t>>, Sizes>;
using Shards = std::map<std::string, Shard>;

inline io::ShardedState state_of(const Shards& shards) {
  io::ShardedState out;
  for (const auto& [name, shard] : shards) {
    const auto& [local, shape, offset, range, local_shape] = shard;
    io::ShardedTensor t{local, shape, offset, {}, local_shape};
    if (range) t.flattened_range = io::FlatRange{range->first, range->second};
    out.emplace(name, t);
  }
  return out;
}

}  // namespace weft::python
