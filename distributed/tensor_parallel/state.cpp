#include "../../nn/layer_in_parts-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../tensor_parallel.hpp"

namespace weft::distributed {

namespace {

using nn::detail::LayerInParts;

/// A saved tensor of a model, and how it is cut.
struct Held {
  std::string name;
  Tensor tensor;
  const LayerInParts* parts = nullptr;
  std::optional<int> dim = {};
  /// Along that dimension.
  int64_t blocks = 1;
};

/// A tensor belongs to a layer in parts itself, or through an adapter.
std::vector<Held> held_by(const nn::Module& model) {
  std::map<std::string, nn::Module> layers;
  for (const auto& [name, module] : model.named_modules()) {
    if (nn::detail::parts_of(module) != nullptr) layers.emplace(name.empty() ? "" : name + ".", module);
  }
  std::vector<Held> out;
  for (const auto& [name, tensor] : model.state_dict()) {
    Held held{name, tensor};
    for (const auto& [path, layer] : layers) {
      if (!name.starts_with(path) || tensor.dim() == 0) continue;
      const std::string within = name.substr(path.size());
      held.parts = nn::detail::parts_of(layer);
      held.dim = held.parts->cut(within);
      held.blocks = held.dim == 0 ? nn::detail::blocks_of(layer, within) : 1;
    }
    out.push_back(std::move(held));
  }
  return out;
}

io::ShardedTensor shard(const Held& held, const Tensor& tensor) {
  io::ShardedTensor out{tensor, tensor.shape(), Dims::filled(tensor.dim(), 0)};
  if (!held.dim || held.blocks > 1) return out;
  out.global_shape[*held.dim] *= held.parts->count;
  out.global_offset[*held.dim] = tensor.size(*held.dim) * held.parts->index;
  return out;
}

}  // namespace

io::ShardedState sharded_state(const nn::Module& model, const std::string& prefix, Location where) {
  const CallScope call("sharded_state", where);
  io::ShardedState out;
  for (const Held& held : held_by(model)) {
    const bool is_scattered = held.dim && held.blocks > 1;
    const Tensor tensor = is_scattered ? held.parts->whole_of(held.tensor, *held.dim, held.blocks) : held.tensor;
    out.emplace(prefix + held.name, shard(held, tensor));
  }
  return out;
}

void load_sharded_state(const nn::Module& model, const io::Path& folder, const io::LoadStateDictOptions& options,
                        const std::string& prefix, Location where) {
  const CallScope call("load_sharded_state", where);
  const NoGradGuard unrecorded;
  io::ShardedState wanted;
  std::vector<std::pair<Held, Tensor>> whole;
  for (const Held& held : held_by(model)) {
    Tensor tensor = held.tensor;
    if (held.dim && held.blocks > 1) {
      Dims shape = tensor.shape();
      shape[*held.dim] *= held.parts->count;
      tensor = empty(shape, {tensor.dtype(), tensor.device()});
      whole.emplace_back(held, tensor);
    }
    wanted.emplace(prefix + held.name, shard(held, tensor));
  }
  io::load_state_dict(wanted, folder, options, where);
  for (const auto& [held, tensor] : whole) {
    held.tensor.copy_(held.parts->part_of(tensor, *held.dim, held.blocks));
  }
}

}  // namespace weft::distributed
