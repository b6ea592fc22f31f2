// ZeRO: an optimizer whose state, and optionally gradients and parameters, are sharded over the ranks of a group
// (Rajbhandari et al. 2020).
//
//   ShardedOptimizer optimizer(optim::AdamW(model.parameters(), {.lr = 1e-3}), {.stage = 2});   // values of rank 0
//   for (…) {
//     optimizer.zero_grad();
//     loss(batch_of(rank)).backward();   // means of gradients are sent to the ranks that own them
//     optimizer.clip_grad_norm(1.0);
//     optimizer.step();                  // each rank updates its shard and gathers the others
//   }
//
// Bytes per element of a bfloat16 model with Adam on K ranks, with float32 master weights: stage 1 has weight and
// gradient, and 1/K of master and state, 4 + 12/K; stage 2 also shards the gradient, 2 + 14/K; stage 3 shards
// everything, 16/K, plus the parameters of the module that computes and of the next one.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "../io/sharded_state.hpp"
#include "../nn/module.hpp"
#include "../optim/optimizers.hpp"
#include "../tensor/shared.hpp"
#include "data_parallel.hpp"

namespace weft::distributed {

/// Parameters that differ between the ranks of the optimizer's group, such as experts, and the subgroup of ranks with
/// the same ones; they are averaged and sharded over this subgroup only.
struct ExpertParameters {
  std::vector<Tensor> parameters = {};
  Group group = world();
};

struct ShardedOptimizerOptions {
  /// 1: state is sharded, and every rank has the means of all gradients. 2: gradients are sharded, too. 3: parameters
  /// of `modules` are sharded, too.
  int stage = 1;
  /// 16-bit parameters are updated in float32 and rounded once, as in optim::MasterWeights.
  bool master_weights = true;
  int64_t bucket_bytes = int64_t{25} << 20;
  Group group = world();
  /// For stage 3: modules, such as the blocks of a model, whose parameters are gathered for their calls, and again in
  /// backward. All ranks call them in the same order. Frozen parameters are sharded, too. Parameters shared by several
  /// of the modules, or in none of them, stay whole.
  std::vector<nn::Module> modules = {};
  std::optional<ExpertParameters> experts = {};
};

/// For a model whose layers are sharded, too: the gradients that this rank counts in the norm of the whole model.
struct ClipScope {
  /// Groups over which other parts of the model are distributed, such as stages.
  std::vector<Group> groups = {};
  /// Parameters that another rank of these groups also has, and counts.
  std::vector<Tensor> counted_elsewhere = {};
};

/// Averages gradients like DataParallel, which it replaces, and updates parameters like the wrapped optimizer: with the
/// same bits, if ranks have the same gradients. Every rank of the group makes the same calls.
class WEFT_API ShardedOptimizer {
 public:
  /// `optimizer` must work elementwise and not have stepped; its groups and their options are kept. Raises ValueError
  /// for an unknown stage, a parameter that is not contiguous, and modules in stages other than 3; for a module that
  /// contains another one or has a trainable parameter that the optimizer lacks; and the errors of DataParallel.
  template <std::derived_from<optim::ElementwiseOptimizer> Optimizer>
  explicit ShardedOptimizer(Optimizer optimizer, ShardedOptimizerOptions options = {}, Location where = {})
      : ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer>(new Optimizer(std::move(optimizer))), options,
                         where) {}
  explicit ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer> optimizer, ShardedOptimizerOptions options,
                            Location where = {});

  /// Waits for the means of gradients. Call it once after each backward; otherwise clip_grad_norm and step do. Raises
  /// AutogradError as DataParallel::finish does.
  void reduce_gradients(Location where = {});
  /// Scales the gradients that step uses so that the 2-norm over all ranks' shards is at most max_norm, and returns the
  /// norm before scaling. Raises ValueError for a negative max_norm.
  double clip_grad_norm(double max_norm, const ClipScope& scope = {}, Location where = {});
  /// Parameters without a gradient on any rank are unchanged.
  void step(Location where = {});
  /// Must also be called if a step is skipped, for example because a gradient is not finite.
  void zero_grad();
  /// While the guard exists, gradients accumulate on this rank only, as with DataParallel::no_sync.
  class NoSync;
  [[nodiscard]] NoSync no_sync() const;

  /// In stage 3, parameters read as NaN outside of their modules' calls, and backward refuses them. While this scope
  /// exists, they are whole. Called by all ranks. Writes that all ranks make in the scope, such as load_state_dict, are
  /// kept.
  class Whole;
  [[nodiscard]] Whole whole_parameters(Location where = {}) const;

  /// This rank's shard of the model, by these names, for distributed::save_state_dict: in stage 3 ranges of parameters'
  /// elements; parameters that every rank has are whole. Shares memory with them. `places` gives the positions of
  /// parameters that are shards themselves, in the form that sharded_state of a model returns.
  io::ShardedState sharded_parameters(std::span<const nn::NamedTensor> names,
                                      const io::ShardedState& places = {}) const;
  /// Loads parameters saved with any sharding; master weights are set to the loaded values. Called by all ranks. Raises
  /// the errors of io::load_state_dict.
  void load_sharded_parameters(const io::Path& folder, std::span<const nn::NamedTensor> names,
                               const io::LoadStateDictOptions& options = {}, const io::ShardedState& places = {},
                               Location where = {});

  /// Call it after writing to sharded_parameters(): gathered parameters are dropped, and gathered again when needed.
  void drop_whole();

  /// This rank's shard of the state, for distributed::save_state_dict: "NAME.exp_avg", "NAME.step" and, for 16-bit
  /// parameters, "NAME.master", with the model's parameter names; options as "group.0.lr". Shares memory with it.
  /// Raises ValueError for a parameter without a name.
  io::ShardedState sharded_state(std::span<const nn::NamedTensor> names, const io::ShardedState& places = {},
                                 Location where = {}) const;
  /// Loads a state saved on any number of ranks in any stage; parameters are set to the master weights, rounded once.
  /// Called by all ranks. Raises the errors of io::load_state_dict and Optimizer::load_state_dict.
  void load_sharded_state(const io::Path& folder, std::span<const nn::NamedTensor> names,
                          const io::LoadStateDictOptions& options = {}, const io::ShardedState& places = {},
                          Location where = {});

  /// For learning rate schedules. Its parameters are this rank's shards, 1-d.
  optim::Optimizer& optimizer() const;

 private:
  struct State;
  Shared<State> state_;
};

class WEFT_API ShardedOptimizer::NoSync {
 public:
  ~NoSync();
  NoSync(NoSync&&) noexcept = default;

 private:
  friend class ShardedOptimizer;
  explicit NoSync(Shared<State> state);
  Shared<State> state_;
  bool outer_;
};

class WEFT_API ShardedOptimizer::Whole {
 public:
  ~Whole();
  Whole(Whole&&) noexcept = default;

 private:
  friend class ShardedOptimizer;
  explicit Whole(Shared<State> state);
  Shared<State> state_;
};

}  // namespace weft::distributed
