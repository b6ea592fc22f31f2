// What an optimizer keeps of parameters that are parts of a model's.
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

/// Where a model's parameters are in the whole one: whole, but for those that `places` says.
class Places {
 public:
  Places(std::span<const nn::NamedTensor> names, const io::ShardedState& places);
  /// ValueError for a parameter without a name.
  const std::string& name(const Tensor& parameter) const;
  /// These values of its elements from `begin` on.
  io::ShardedTensor part(const Tensor& values, const Tensor& parameter, int64_t begin) const;
  io::ShardedTensor whole(const Tensor& parameter) const;

 private:
  std::unordered_map<const TensorImpl*, std::string> names_;
  std::unordered_map<const TensorImpl*, io::ShardedTensor> places_;
};

/// A parameter of an optimizer, by its number there.
struct OptimizerPart {
  std::string name;
  Tensor values;
  /// Of these values.
  io::ShardedTensor place;
  bool is_master = false;
};

/// What all groups have, "group.0.lr"; not how many parameters, which differ between parts.
bool is_option(const std::string& key);
/// "NAME.exp_avg", "NAME.step", "NAME.master" and "group.0.lr". Shares the memory. ValueError for a state that has
/// another shape than a parameter in parts.
io::ShardedState optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts);
/// What is in a folder: the optimizer's values, and masters beside what they are to be copied into.
struct OptimizerValues {
  optim::Optimizer::StateDict values;
  std::vector<std::pair<Tensor, Tensor>> masters;
};
OptimizerValues read_optimizer_state(const optim::Optimizer& optimizer, std::span<const OptimizerPart> parts,
                                     const io::Path& folder, const io::LoadStateDictOptions& options, Location where);
/// Loads it, masters into their values; whether there were any.
bool load_optimizer_state(optim::Optimizer& optimizer, std::span<const OptimizerPart> parts, const io::Path& folder,
                          const io::LoadStateDictOptions& options, Location where);

}  // namespace weft::distributed::detail
