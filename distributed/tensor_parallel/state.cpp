#include "../../nn/sharded_layer-inl.hpp"
#include "../tensor_parallel.hpp"

namespace weft::distributed {

namespace {

using nn::detail::ShardedLayer;

/// A saved tensor of a model, and how it is sharded.
struct Held {
  std::string name;
  Tensor tensor;
  const ShardedLayer* parts = nullptr;
  std::optional<int> dim = {};
  /// Number of blocks along that dimension.
  int64_t blocks = 1;
};

/// Each tensor belongs to a sharded layer directly, or through an adapter.
std::vector<Held> held_by(const nn::Module& model) {
  std::map<std::string, nn::Module> layers;
  for (const auto& [name, module] : model.named_modules()) {
    if (nn::detail::sharding_of(module) != nullptr) layers.emplace(name.empty() ? "" : name + ".", module);
  }
  std::vector<Held> out;
  for (const auto& [name, tensor] : model.state_dict()) {
    Held held{name, tensor};
    for (const auto& [path, layer] : layers) {
      if (!name.starts_with(path) || tensor.dim() == 0) continue;
      const std::string within = name.substr(path.size());
      held.parts = nn::detail::sharding_of(layer);
      held.dim = nn::detail::shard_dim_of(layer, within);
      held.blocks = held.dim == 0 ? nn::detail::blocks_of(layer, within) : 1;
    }
    out.push_back(std::move(held));
  }
  return out;
}

io::ShardedTensor shard(const Held& held) {
  io::ShardedTensor out{held.tensor, held.tensor.shape(), Dims::filled(held.tensor.dim(), 0)};
  if (!held.dim) return out;
  const int64_t size = held.tensor.size(*held.dim) / held.blocks;
  out.global_shape[*held.dim] *= held.parts->count;
  out.global_offset[*held.dim] = size * held.parts->index;
  if (held.blocks == 1) return out;
  out.local_shape = held.tensor.shape();
  out.local_shape[0] = size;
  out.local = held.tensor.view({-1});
  out.flattened_range = io::FlatRange{0, out.local.numel()};
  out.blocks = held.blocks;
  return out;
}

}  // namespace

io::ShardedState sharded_state(const nn::Module& model, const std::string& prefix, Location where) {
  const CallScope call("sharded_state", where);
  io::ShardedState out;
  for (const Held& held : held_by(model)) out.emplace(prefix + held.name, shard(held));
  return out;
}

void load_sharded_state(const nn::Module& model, const io::Path& folder, const io::LoadStateDictOptions& options,
                        const std::string& prefix, Location where) {
  io::load_state_dict(sharded_state(model, prefix, where), folder, options, where);
}

}  // namespace weft::distributed
