// Pipeline parallelism: a model cut into stages, one per rank, through which micro-batches flow.
//
//   Pipeline pipeline({{.forward = [&](std::span<const Tensor> x) { return std::vector{block(x[0])}; }}},
//                     {.micro_batches = 8, .group = mesh.group("pp")});
//   double loss = pipeline.run({.input = …, .loss = …});   // accumulates gradients in the parameters
//   optimizer.step();
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/tensor.hpp"
#include "group.hpp"

namespace weft::distributed {

// ---- plans: the actions of each stage, in order ----
enum class PipelineSchedule : uint8_t {
  f_then_b,     ///< all forwards, then all backwards (Huang et al. 2019)
  one_f_one_b,  // alternating, so that stage p keeps at most P - p micro-batches (Narayanan et al. 2021)
  interleaved,  // one_f_one_b with several chunks of the model on each stage (Narayanan et al. 2021)
  zero_bubble,  // weight gradients are computed separately, while a stage would wait (Qi et al. 2023)
};
/// "f_then_b", …
WEFT_API const char* name(PipelineSchedule schedule);

struct PipelineAction {
  enum class Kind : uint8_t {
    forward,
    backward,         // gradients of inputs and weights
    input_gradient,   // gradients of inputs only
    weight_gradient,  // gradients of weights only
  };
  Kind kind;
  int micro_batch;
  /// Chunk of the stage: chunk c of stage p is part c · P + p of the model.
  int chunk = 0;
  bool operator==(const PipelineAction&) const = default;
};
/// Formats actions as "F0 F1 B0 B1", with W for weight gradients, and "F0.1" for a chunk other than 0.
WEFT_API std::string text(std::span<const PipelineAction> actions);

struct PipelinePlan {
  /// Actions by stage.
  std::vector<std::vector<PipelineAction>> stages;
  int micro_batches = 0, chunks = 1;
};
/// Micro-batches pass each chunk in ascending order, both forward and backward. `chunks` is the number per stage.
/// Raises ValueError unless all counts are above 0, for chunks > 1 without `interleaved`, and with it unless the number
/// of stages divides the number of micro-batches.
WEFT_API PipelinePlan plan_pipeline(PipelineSchedule schedule, int stages, int micro_batches, int chunks = 1,
                                    Location where = {});

/// Duration of each action. Sending takes no time, and senders do not wait for receivers.
struct PipelineCosts {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
};
struct PipelineTimes {
  double total = 0;
  /// Average fraction of the total time in which a stage waits.
  double bubble = 0;
  /// By stage: largest number of micro-batches of a chunk that have run forward and not finished backward.
  std::vector<int> kept;
};
/// Simulates a plan with these durations. Raises ValueError if stages deadlock, if an action runs twice or before the
/// actions that it needs on its own stage, and if an action is missing.
WEFT_API PipelineTimes simulate(const PipelinePlan& plan, PipelineCosts costs = {}, Location where = {});

// ---- execution ----
/// A part of the model on this rank.
struct PipelineChunk {
  /// Maps the outputs of the part before, or the step's input, to this part's outputs. Number, shapes and dtypes of the
  /// tensors may differ between micro-batches, and tensors may be undefined. Gradients flow through the tensors that
  /// require them.
  Callback<std::vector<Tensor>(std::span<const Tensor>)> forward = {};
};

/// A weight shared by several stages, such as a tied embedding and head. Every rank of the group lists the same ones in
/// the same order; `weight` is undefined on ranks that are not in `ranks`.
struct PipelineSharedWeight {
  Tensor weight = {};
  /// Ranks of the group; the first one owns the weight.
  std::vector<int> ranks = {};
};

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
  std::vector<PipelineSharedWeight> shared = {};
  /// Device of received tensors.
  Device device = {};
  /// Rank p of the group is stage p.
  Group group = world();
};

/// Callbacks for one training step.
struct PipelineStep {
  /// Input of the first part for a micro-batch; called on the first stage.
  Callback<std::vector<Tensor>(int micro_batch)> input = {};
  /// Loss of the last part's outputs, with one element; called on the last stage.
  Callback<Tensor(int micro_batch, std::span<const Tensor> outputs)> loss = {};
  /// Number of samples or tokens that the mean loss counts; called on the last stage before the first forward. Without
  /// it, all micro-batches count alike. Those of weight 0 have no loss and a zero gradient.
  Callback<double(int micro_batch)> weight = {};
  /// Required if replicas of the pipeline with unequal weights average their gradients. Returns the mean over replicas
  /// of a step's weight from that of this replica, such as `[&](double own) { return mean_weight(own, replicas); }`.
  /// Called on the last stage before the first forward.
  Callback<double(double own)> mean_weight = {};
};

class WEFT_API Pipeline {
 public:
  /// Called by all ranks of the group. Broadcasts each shared weight from its owner. Raises the ValueErrors of
  /// plan_pipeline, and ValueError for a chunk without a function. Also raises ValueError if ranks differ in schedule,
  /// micro-batches, or the number of chunks or of shared weights, and if a shared weight is missing on one of its ranks
  /// or defined on another.
  Pipeline(std::vector<PipelineChunk> chunks, PipelineOptions options, Location where = {});

  /// Adds the gradients of the weighted mean of the micro-batches' losses to every stage's parameters; gradients of
  /// shared weights are summed over their ranks. With equal weights, gradients have the same bits as `(loss /
  /// micro_batches).backward()` on one rank for one micro-batch after the other. Returns the mean loss on every rank;
  /// with `mean_weight`, this replica's term of the mean over replicas.
  ///
  /// Auxiliary losses of all stages have the factor of their micro-batch's loss, weight / sum of weights:
  /// nn::AuxiliaryLossScale is set for each micro-batch. Set one around `run`, on every stage, only for a factor that
  /// `step.loss` itself applies, such as the scale of a GradScaler.
  ///
  /// If a stage throws, run rethrows its error on that rank, and the other ranks raise DistributedError; so does each
  /// later call in the world.
  double run(const PipelineStep& step, Location where = {}) const;

  /// The 2-norm of the gradients of all stages' parameters; `parameters` are this rank's. A shared weight counts once.
  /// The result is the same on every rank.
  double gradient_norm(std::span<const Tensor> parameters, Location where = {}) const;

  const PipelinePlan& plan() const { return plan_; }

 private:
  std::vector<PipelineChunk> chunks_;
  PipelineOptions options_;
  PipelinePlan plan_;
  /// The group of each shared weight's ranks.
  std::vector<Group> holders_;
};

}  // namespace weft::distributed
