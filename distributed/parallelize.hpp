// Trains a model written for one process on a mesh of ranks, by a plan of a few lines.
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
// Losses and updates equal those of one process that trains on the whole batch, up to rounding.
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

/// With sequence_parallel: a module that works on this rank's shard of the sequence, such as a norm or a dropout. Its
/// parameters' gradients are summed over ranks, and its random masks differ between ranks. So are its auxiliary losses,
/// except those of nn::MoE, which cover the whole sequence once.
struct OnSequenceParts {};
/// With sequence_parallel: a module whose result [..., S, features] is the same on all ranks, such as a position
/// embedding; each rank keeps its shard of the sequence.
struct ToSequenceParts {};

/// How to shard the modules whose names match a regular expression (ECMAScript, searched). The plan overrides `group`
/// and `sequence_parallel` of the options.
struct ModuleSplit {
  std::string pattern;
  std::variant<ColumnParallelOptions, RowParallelOptions, VocabParallelOptions, HeadParallelOptions, OnSequenceParts,
               ToSequenceParts, ExpertParallelOptions>
      how;
};

struct ParallelPlan {
  /// With some or all of the dimensions "dp" (replicas), "pp" (pipeline stages), "ep" (replicas with different experts)
  /// and "tp" (tensor-parallel ranks).
  Mesh mesh;
  /// Modules to shard along "tp", and nn::MoE modules along "ep".
  std::vector<ModuleSplit> splits = {};
  /// Activations between sharded layers are sharded along the sequence; `splits` must contain every module that works
  /// on them.
  bool sequence_parallel = false;
  /// First layer of each stage but the first, by name in the Sequential; by default all stages have about as many
  /// layers. If `chunks` > 1 (schedule `interleaved`) there are chunks · stages of them; rank p has chunks p, p +
  /// stages, …
  std::vector<std::string> cuts = {};
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;
  /// Number of micro-batches of a replica's batch; their gradients are accumulated.
  int micro_batches = 1;
  /// Stage of ShardedOptimizer over "dp" and "ep", for experts over "dp"; 0: each replica has the whole state. In stage
  /// 3 the parameters of each layer are gathered for its calls.
  int shard_stage = 0;
  int64_t bucket_bytes = int64_t{25} << 20;
};

class ParallelModel;
/// How to call a model and, if it is a sequence, each of its layers; for models that are not called from C++.
struct ParallelLayers {
  struct Layer {
    nn::Module module;
    Callback<Tensor(const Tensor& x)> call;
  };
  Layer model;
  std::vector<Layer> layers = {};
};
/// Broadcasts the model of rank 0 and keeps this rank's shard, in place: for all copies of the modules. Parameters of
/// other stages read as NaN. Called by all ranks of the mesh, with equal plans. Raises ValueError for a dimension with
/// another name, a pattern that matches nothing, and stages of a model that is not an nn::Sequential or has fewer
/// layers; and the errors of cut_columns, plan_pipeline and ShardedOptimizer.
template <std::derived_from<nn::Module> Model>
ParallelModel parallelize(const Model& model, ParallelPlan plan, Location where = {});
WEFT_API ParallelModel parallelize(ParallelLayers layers, ParallelPlan plan, Location where = {});

/// This rank's shard of a model. A value; copies are the same model.
class WEFT_API ParallelModel {
 public:
  /// Ranks with other rows of the batch: those along "dp" and "ep".
  const Group& data_parallel() const;
  const Group& tensor_parallel() const;
  const Group& pipeline() const;
  /// Parameters on this rank, and with their names in the model.
  std::vector<Tensor> parameters() const;
  std::vector<nn::NamedTensor> named_parameters() const;
  /// The model's layers on this rank, with their names in it.
  std::vector<std::pair<std::string, nn::Module>> named_children() const;
  /// Calls the model, if there is one stage. Raises ValueError otherwise.
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

/// Loss of the model's output for a micro-batch: the mean over its rows, with one element.
using ParallelLoss = Callback<Tensor(const Tensor& output, const Tensor& target)>;
/// Number of samples or tokens that the mean loss of a micro-batch with these targets counts, such as the targets other
/// than ignore_index.
using ParallelWeight = Callback<double(const Tensor& target)>;

/// Trains a parallel model with an optimizer. Every rank makes the same calls.
class WEFT_API ParallelTraining {
 public:
  /// `optimizer` is over this rank's parameters and has not stepped; with a shard_stage it must work elementwise.
  /// Raises the ValueErrors of DataParallel and ShardedOptimizer.
  template <std::derived_from<optim::Optimizer> Optimizer>
  ParallelTraining(const ParallelModel& model, Optimizer optimizer, Location where = {})
      : ParallelTraining(model, std::unique_ptr<optim::Optimizer>(new Optimizer(std::move(optimizer))), where) {}
  ParallelTraining(const ParallelModel& model, std::unique_ptr<optim::Optimizer> optimizer, Location where = {});

  /// Adds the gradients of the mean loss over all replicas and micro-batches, and returns that mean, the same on every
  /// rank. Each micro-batch counts by `weight`, or by its number of rows; those of weight 0 have no loss and a zero
  /// gradient. Auxiliary losses of the model's layers (nn/auxiliary_loss.hpp) have the factor of their micro-batch's
  /// loss, on every stage. Tensor-parallel ranks and the stages of one replica pass the same rows. Raises ValueError
  /// unless micro_batches divides the rows, and if neither step nor zero_grad was called since the last backward.
  double backward(const Tensor& input, const Tensor& target, const ParallelLoss& loss, Location where = {}) {
    return backward(input, target, loss, ParallelWeight(), where);
  }
  double backward(const Tensor& input, const Tensor& target, const ParallelLoss& loss, const ParallelWeight& weight,
                  Location where = {});
  /// Scales gradients so that the 2-norm over the whole model, with each gradient counted once, is at most max_norm.
  /// Returns the norm before scaling.
  double clip_grad_norm(double max_norm, Location where = {});
  void step(Location where = {});
  /// Must also be called if a step is skipped, for example because gradients are not finite.
  void zero_grad();
  /// This rank's shard of model and optimizer, for save_state_dict: "NAME", "NAME.exp_avg", "NAME.step" and
  /// "group.0.lr". Shares memory with them. Raises ValueError if the optimizer's state for a sharded parameter has
  /// another shape than the parameter.
  io::ShardedState sharded_state(Location where = {}) const;
  /// Loads a sharded_state saved with any plan, or by one process with the same names. Raises the errors of
  /// io::load_state_dict and Optimizer::load_state_dict.
  void load_sharded_state(const io::Path& folder, const io::LoadStateDictOptions& options = {}, Location where = {});

  /// For save_training_state and load_training_state, which also save the step, documents and generators.
  ShardedRun run() const;
  /// In stage 3, a scope in which all of this rank's parameters are whole, for example for a recorder's step; empty in
  /// other stages, where they always are. Called by all ranks.
  [[nodiscard]] std::optional<ShardedOptimizer::Whole> whole_parameters() const;
  /// For learning rate schedules. With a shard_stage, its parameters are this rank's shards.
  optim::Optimizer& optimizer() const;
  /// The sharded optimizer, for states and whole parameters; nullptr without a shard_stage.
  ShardedOptimizer* sharded() const;

 private:
  void finish();
  struct State;
  Shared<State> state_;
};

}  // namespace weft::distributed
