// A model written for one process, trained on a mesh of ranks by a plan of a few lines.
//
//   nn::Sequential gpt(Embedding(…), nn::TransformerBlock(512, 8), …, Head(…));       // the same on every rank
//   const ParallelModel model = parallelize(gpt, {.mesh = Mesh({2, 2, 2}, {"dp", "pp", "tp"}),
//                                                 .splits = {{"qkv$", ColumnParallelOptions{.blocks = 3}},
//                                                            {"up$", ColumnParallelOptions{}},
//                                                            {"proj$|down$", RowParallelOptions{}}},
//                                                 .micro_batches = 4,
//                                                 .shard_stage = 1});
//   ParallelTraining training(model, optim::AdamW(model.parameters(), {.lr = 1e-3}));
//   for (…) {
//     training.zero_grad();
//     const double loss = training.backward(x, y, cross_entropy_of);   // x, y: this replica's rows of the batch
//     training.clip_grad_norm(1.0);
//     training.step();
//   }
//
// Losses and updates are those of one process that trains on the whole batch, up to rounding.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "../nn/containers.hpp"
#include "../optim/optimizers.hpp"
#include "expert_parallel.hpp"
#include "mesh.hpp"
#include "pipeline.hpp"
#include "sharded_optimizer.hpp"
#include "tensor_parallel.hpp"
#include "training_state.hpp"

namespace weft::distributed {

/// Where sequences are in parts: a module that works on this rank's part, such as a norm or a dropout. Its parameters'
/// gradients are summed over ranks, and it drops other elements on each.
struct OnSequenceParts {};
/// Where sequences are in parts: a module whose result [..., S, features] all ranks have, such as an embedding of
/// positions; each goes on with its part.
struct ToSequenceParts {};

/// What is done with the modules whose names a regular expression (ECMAScript's) finds. Of the options, `group` and
/// `sequence_parallel` are the plan's.
struct ModuleSplit {
  std::string pattern;
  std::variant<ColumnParallelOptions, RowParallelOptions, VocabParallelOptions, HeadParallelOptions, OnSequenceParts,
               ToSequenceParts, ExpertParallelOptions>
      how;
};

struct ParallelPlan {
  /// Of dimensions "dp" (replicas), "pp" (stages), "ep" (replicas, too, but of experts each has its own) and "tp"
  /// (ranks that share layers), or some of them.
  Mesh mesh;
  /// For ranks along "tp", and nn::MoE along "ep".
  std::vector<ModuleSplit> splits = {};
  /// Activations between layers in parts are in parts along the sequence; every module that works on them is in
  /// `splits`.
  bool sequence_parallel = false;
  /// For stages: the names of a Sequential's layers with which each stage but the first begins; by default all have
  /// about as many layers. With `chunks` above 1 (schedule `interleaved`) there are chunks · stages of them, of which
  /// rank p has those numbered p, p + stages, …
  std::vector<std::string> cuts = {};
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;
  /// Parts of a replica's batch, whose gradients are added up.
  int micro_batches = 1;
  /// Of ShardedOptimizer over "dp" and "ep", of experts over "dp"; 0 where each replica has the whole state. In stage 3
  /// the model's layers come and go.
  int shard_stage = 0;
  int64_t bucket_bytes = int64_t{25} << 20;
};

class ParallelModel;
/// How a model is called and, where it is a sequence, each of its layers: for models that are not called by C++.
struct ParallelLayers {
  struct Layer {
    nn::Module module;
    Callback<Tensor(const Tensor& x)> call;
  };
  Layer model;
  std::vector<Layer> layers = {};
};
/// Makes the model of rank 0 that of all, and leaves on each rank its part, in place: for all copies of the modules.
/// Parameters of other stages read as NaN. Called by all ranks of the mesh, with one plan. ValueError for a dimension
/// of another name, a pattern that finds nothing, stages of a model that is no nn::Sequential or has fewer layers, and
/// as cut_columns, plan_pipeline and ShardedOptimizer.
template <std::derived_from<nn::Module> Model>
ParallelModel parallelize(const Model& model, ParallelPlan plan, Location where = {});
WEFT_API ParallelModel parallelize(ParallelLayers layers, ParallelPlan plan, Location where = {});

/// The part of a model that is on this rank. A value; copies are the same.
class WEFT_API ParallelModel {
 public:
  /// Along "dp" and "ep": ranks that are given other rows.
  const Group& data_parallel() const;
  const Group& tensor_parallel() const;
  const Group& pipeline() const;
  /// This rank's, and by their names in the model.
  std::vector<Tensor> parameters() const;
  std::vector<nn::NamedTensor> named_parameters() const;
  /// The model's layers that are here, by their names in it.
  std::vector<std::pair<std::string, nn::Module>> named_children() const;
  /// What the model gives, where there is one stage. ValueError otherwise.
  Tensor operator()(const Tensor& x, Location where = {}) const;

 private:
  friend ParallelModel parallelize(ParallelLayers layers, ParallelPlan plan, Location where);
  friend class ParallelTraining;
  ParallelModel(ParallelLayers layers, ParallelPlan plan);
  struct State;
  Shared<State> state_;
};

template <std::derived_from<nn::Module> Model>
ParallelModel parallelize(const Model& model, ParallelPlan plan, Location where) {
  ParallelLayers layers{{model, [model](const Tensor& x) -> Tensor { return model(x); }}};
  if constexpr (std::derived_from<Model, nn::Sequential>) {
    for (const nn::AnyModule& layer : model) {
      layers.layers.push_back({layer, [layer](const Tensor& x) { return layer(x); }});
    }
  }
  return parallelize(std::move(layers), std::move(plan), where);
}

/// The loss of what the model gave for a micro-batch, with one element, the mean over its rows.
using ParallelLoss = Callback<Tensor(const Tensor& output, const Tensor& target)>;
/// Of how many samples or tokens the loss of a micro-batch with these targets is the mean, such as those that are not
/// ignore_index.
using ParallelWeight = Callback<double(const Tensor& target)>;

/// Steps of a parallel model with an optimizer. Every rank makes the same calls.
class WEFT_API ParallelTraining {
 public:
  /// Of an optimizer over this rank's parameters that has not stepped. With a shard_stage it is one that works element
  /// by element. ValueError as DataParallel and ShardedOptimizer.
  template <std::derived_from<optim::Optimizer> Optimizer>
  ParallelTraining(const ParallelModel& model, Optimizer optimizer, Location where = {})
      : ParallelTraining(model, std::unique_ptr<optim::Optimizer>(new Optimizer(std::move(optimizer))), where) {}
  ParallelTraining(const ParallelModel& model, std::unique_ptr<optim::Optimizer> optimizer, Location where = {});

  /// Adds the gradients of the mean loss over all replicas and micro-batches, and returns that mean, the same on every
  /// rank. Each counts by its `weight`, or by its rows; one of weight 0 is left out. Ranks that share layers, or are
  /// stages of one replica, are given the same rows. ValueError unless micro_batches divide them, and where neither
  /// step nor zero_grad came behind the last backward.
  double backward(const Tensor& input, const Tensor& target, const ParallelLoss& loss, Location where = {}) {
    return backward(input, target, loss, ParallelWeight(), where);
  }
  double backward(const Tensor& input, const Tensor& target, const ParallelLoss& loss, const ParallelWeight& weight,
                  Location where = {});
  /// The 2-norm of the whole model's gradients, each counted once, which then is at most max_norm.
  double clip_grad_norm(double max_norm, Location where = {});
  void step(Location where = {});
  /// Also where a step is left out, as for gradients that are not finite.
  void zero_grad();
  /// This rank's parts of model and optimizer, for save_state_dict: "NAME", "NAME.exp_avg", "NAME.step" and
  /// "group.0.lr". Shares the memory. ValueError for an optimizer that keeps anything of another shape of a parameter
  /// in parts.
  io::ShardedState sharded_state(Location where = {}) const;
  /// Loads it, saved by any plan, or by one process with the same names. Errors as io::load_state_dict and
  /// Optimizer::load_state_dict.
  void load_sharded_state(const io::Path& folder, const io::LoadStateDictOptions& options = {}, Location where = {});

  /// For save_training_state and load_training_state, which keep the step, documents and generators, too.
  ShardedRun run() const;
  /// In stage 3, a scope in which all of this rank's parameters are whole, as for a recorder's step; otherwise they are
  /// anyway. All ranks make it.
  [[nodiscard]] std::optional<ShardedOptimizer::Whole> whole_parameters() const;
  /// For schedules. With a shard_stage its parameters are this rank's parts.
  optim::Optimizer& optimizer() const;
  /// Where there is one, for states and whole parameters.
  ShardedOptimizer* sharded() const;

 private:
  void finish();
  struct State;
  Shared<State> state_;
};

}  // namespace weft::distributed
