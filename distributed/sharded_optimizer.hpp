// An optimizer whose state lies in parts on the ranks of a group, and gradients too (Rajbhandari et al. 2020).
//
//   ShardedOptimizer optimizer(optim::AdamW(model.parameters(), {.lr = 1e-3}), {.stage = 2});   // values of rank 0
//   for (…) {
//     optimizer.zero_grad();
//     loss(batch_of(rank)).backward();   // means of gradients go to the ranks that own them
//     optimizer.clip_grad_norm(1.0);
//     optimizer.step();                  // each rank updates its part, and all get the others'
//   }
//
// Bytes for each element of a bfloat16 model with Adam on K ranks, where 16-bit weights have masters in float32:
// weight, gradient, and a K-th of master and state, 4 + 12/K; in stage 2 also a K-th of the gradient, 2 + 14/K; in
// stage 3 a K-th of all, 16/K, besides the module that computes and the next one.
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

/// Parameters of which other ranks of a group have others, as experts on its ranks, and the ranks of it that have the
/// same: theirs alone are averaged, and in parts.
struct ExpertParameters {
  std::vector<Tensor> parameters = {};
  Group group = world();
};

struct ShardedOptimizerOptions {
  /// 1: state in parts, and every rank has the means of all gradients; 2: each rank keeps those of its part; 3: and of
  /// the modules' parameters, too.
  int stage = 1;
  /// 16-bit parameters are updated in float32 and rounded once, as by optim::MasterWeights.
  bool master_weights = true;
  int64_t bucket_bytes = int64_t{25} << 20;
  Group group = world();
  /// Of stage 3: modules, such as the blocks of a model, whose parameters are gathered when they are called, and again
  /// in backward. Their calls come in the same order on all ranks. Frozen parameters are in parts, too; what several of
  /// the modules share, or none of them has, stays whole.
  std::vector<nn::Module> modules = {};
  std::optional<ExpertParameters> experts = {};
};

/// Of a model whose layers are in parts, too: which gradients a norm of all of it counts here.
struct ClipScope {
  /// Ranks along which other parts of the model are, such as stages.
  std::vector<Group> groups = {};
  /// Parameters that another rank of these groups has as well, and counts.
  std::vector<Tensor> counted_elsewhere = {};
};

/// Averages gradients as DataParallel, which it replaces, and updates what the optimizer would: with the same bits,
/// where ranks have the same. Every rank of the group makes the same calls.
class WEFT_API ShardedOptimizer {
 public:
  /// Of an optimizer that works element by element and has not stepped; its groups and their options stay. ValueError
  /// for another stage, for a parameter that is not contiguous, for modules in other stages than 3, where one is part
  /// of another, or has a parameter to train that the optimizer lacks, and as DataParallel.
  template <std::derived_from<optim::ElementwiseOptimizer> Optimizer>
  explicit ShardedOptimizer(Optimizer optimizer, ShardedOptimizerOptions options = {}, Location where = {})
      : ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer>(new Optimizer(std::move(optimizer))), options,
                         where) {}
  explicit ShardedOptimizer(std::unique_ptr<optim::ElementwiseOptimizer> optimizer, ShardedOptimizerOptions options,
                            Location where = {});

  /// Waits for the means of gradients. Once behind each backward; clip_grad_norm and step do it where it was not done.
  /// AutogradError as DataParallel::finish.
  void reduce_gradients(Location where = {});
  /// Scales what step uses so that the 2-norm of all ranks' parts is at most max_norm, and gives the norm that they
  /// had. ValueError for a negative max_norm.
  double clip_grad_norm(double max_norm, const ClipScope& scope = {}, Location where = {});
  /// Parameters without a gradient on any rank stay.
  void step(Location where = {});
  /// Also where a step was left out, as for a gradient that is not finite.
  void zero_grad();
  /// While it lives, gradients are added up on this rank alone, as DataParallel::no_sync.
  class NoSync;
  [[nodiscard]] NoSync no_sync() const;

  /// In stage 3, parameters outside of their modules' calls read as NaN, and backward refuses them. While this lives
  /// they are whole; all ranks make it, and what all of them write meanwhile, as load_state_dict does, is kept.
  class Whole;
  [[nodiscard]] Whole whole_parameters(Location where = {}) const;

  /// This rank's parts of the model, by these names, for distributed::save_state_dict: ranges of parameters' elements
  /// in stage 3, and whole what every rank has. Shares the memory.
  /// `places` says where parameters lie that are parts themselves, as sharded_state of a model does.
  io::ShardedState sharded_parameters(std::span<const nn::NamedTensor> names,
                                      const io::ShardedState& places = {}) const;
  /// Loads them, however they were saved; masters become what is loaded. Called by all ranks. Errors as
  /// io::load_state_dict.
  void load_sharded_parameters(const io::Path& folder, std::span<const nn::NamedTensor> names,
                               const io::LoadStateDictOptions& options = {}, const io::ShardedState& places = {},
                               Location where = {});

  /// For whoever wrote to sharded_parameters(): what is whole is gathered anew.
  void drop_whole();

  /// This rank's parts of the state, for distributed::save_state_dict: "NAME.exp_avg", "NAME.step" and, of 16-bit
  /// parameters, "NAME.master", by the names of the model's parameters; options as "group.0.lr". Shares the memory.
  /// ValueError for a parameter without a name.
  io::ShardedState sharded_state(std::span<const nn::NamedTensor> names, const io::ShardedState& places = {},
                                 Location where = {}) const;
  /// Loads it, saved on any number of ranks in any stage; masters become the parameters, rounded once. Called by all
  /// ranks. Errors as io::load_state_dict and Optimizer::load_state_dict.
  void load_sharded_state(const io::Path& folder, std::span<const nn::NamedTensor> names,
                          const io::LoadStateDictOptions& options = {}, const io::ShardedState& places = {},
                          Location where = {});

  /// For schedules. Its parameters are this rank's parts, 1-d.
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
