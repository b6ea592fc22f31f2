// Optimizer state of parameters that are shards of a model's parameters.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../io/sharded_state.hpp"
#include "../../nn/module.hpp"
#include "../../optim/optimizer.hpp"

namespace weft::distributed::detail {

/// Positions of this rank's parameters in the whole model: those in `places`; other parameters are whole.
class Places {
 public:
  Places(std::span<const nn::NamedTensor> names, const io::ShardedState& places);
  /// Raises ValueError for a parameter without a name.
  const std::string& name(const Tensor& parameter) const;
  /// Describes `values` as the elements of the parameter from `begin` on.
  io::ShardedTensor part(const Tensor& values, const Tensor& parameter, int64_t begin) const;
  io::ShardedTensor whole(const Tensor& parameter) const;

 private:
  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_map<const TensorImpl*, io::ShardedTensor> places_;
};

/// A parameter of an optimizer, in the order of its parameters.
struct OptimizerPart {
  std::string name;
  Tensor values;
  /// Position of these values.
  io::ShardedTensor place;
  bool is_master = false;
};

/// Whether the key is an option of all ranks' groups, such as "group.0.lr". The number of parameters, which differs
/// between shards, is not.
bool is_option(const std::string& key);
/// State with the keys "NAME.exp_avg", "NAME.step", "NAME.master" and "group.0.lr". Shares memory with it. Raises
/// ValueError if the state of a sharded parameter has another shape than the parameter.
io::ShardedState optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts);
/// Values read from a folder: the optimizer's state, and pairs (destination, master weight).
struct OptimizerValues {
  optim::Optimizer::StateDict values;
  std::vector<std::pair<Tensor, Tensor>> masters;
};
OptimizerValues read_optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts,
                                     const io::Path& folder, const io::LoadStateDictOptions& options, Location where);
/// Loads the state, and copies master weights into the parameters' values. Returns whether there were any.
bool load_optimizer_state(optim::Optimizer& optimizer, std::span<const OptimizerPart> parts, const io::Path& folder,
                          const io::LoadStateDictOptions& options, Location where);

}  // namespace weft::distributed::detail
