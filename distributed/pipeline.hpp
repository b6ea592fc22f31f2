// Models cut into stages, one for each rank, through which micro-batches flow.
//
//   Pipeline pipeline({{.forward = [&](std::span<const Tensor> x) { return std::vector{block(x[0])}; }}},
//                     {.micro_batches = 8, .group = mesh.group("pp")});
//   double loss = pipeline.run({.input = …, .loss = …});   // gradients are in the parameters then
//   optimizer.step();
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/tensor.hpp"
#include "group.hpp"

namespace weft::distributed {

// ---- plans: what each stage does, in which order ----
enum class PipelineSchedule : uint8_t {
  f_then_b,     ///< all forwards, then all backwards (Huang et al. 2019)
  one_f_one_b,  ///< in turn, so that stage p keeps at most P - p micro-batches (Narayanan et al. 2021)
  interleaved,  ///< the same with several chunks of the model on each stage (Narayanan et al. 2021)
  zero_bubble,  ///< gradients of weights apart, where a stage would wait (Qi et al. 2023)
};
/// "f_then_b", …
WEFT_API const char* name(PipelineSchedule schedule);

struct PipelineAction {
  enum class Kind : uint8_t {
    forward,
    backward,         ///< of inputs and weights
    input_gradient,   ///< backward of inputs alone
    weight_gradient,  ///< the rest of it
  };
  Kind kind;
  int micro_batch;
  /// Of those of its stage: chunk c of stage p is part c · P + p of the model.
  int chunk = 0;
  bool operator==(const PipelineAction&) const = default;
};
/// "F0 F1 B0 B1", with W for weight gradients, and "F0.1" for a chunk behind the first.
WEFT_API std::string text(std::span<const PipelineAction> actions);

struct PipelinePlan {
  /// By stage.
  std::vector<std::vector<PipelineAction>> stages;
  int micro_batches = 0, chunks = 1;
};
/// Micro-batches pass each chunk in ascending order, forwards and backwards. `chunks` is that of each stage. ValueError
/// unless all numbers are above 0, for chunks without `interleaved`, and there unless the number of stages divides that
/// of micro-batches.
WEFT_API PipelinePlan plan_pipeline(PipelineSchedule schedule, int stages, int micro_batches, int chunks = 1,
                                    Location where = {});

/// How long actions take; sending takes no time, and nobody waits for a receiver.
struct PipelineCosts {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
};
struct PipelineTimes {
  double total = 0;
  /// The share of the total in which a stage waits, on average.
  double bubble = 0;
  /// By stage: how many micro-batches of a chunk it keeps between their forward and the end of their backward, at most.
  std::vector<int> kept;
};
/// Runs a plan on a clock. ValueError where stages wait for each other for ever, for an action done twice or before
/// what it needs on its own stage, and for one that is missing.
WEFT_API PipelineTimes simulate(const PipelinePlan& plan, PipelineCosts costs = {}, Location where = {});

// ---- execution ----
/// A part of the model on this rank.
struct PipelineChunk {
  /// Of what the part before gave, or the step's input. Tensors of any dtype, number and shape, undefined ones too, may
  /// differ from one micro-batch to the next; gradients flow through those that require them.
  Callback<std::vector<Tensor>(std::span<const Tensor>)> forward = {};
};

/// A weight that several stages have, as embedding and head do. Every rank of the group names the same ones in the same
/// order; `weight` is undefined where `ranks` does not name it.
struct PipelineSharedWeight {
  Tensor weight = {};
  /// Of the group; the first one owns it.
  std::vector<int> ranks = {};
};

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
  std::vector<PipelineSharedWeight> shared = {};
  /// Where received tensors go.
  Device device = {};
  /// Rank p of it is stage p.
  Group group = world();
};

/// What one step trains on.
struct PipelineStep {
  /// What the first part gets of a micro-batch; called on the first stage.
  Callback<std::vector<Tensor>(int micro_batch)> input = {};
  /// The loss of what the last part gave, with one element; called on the last stage.
  Callback<Tensor(int micro_batch, std::span<const Tensor> outputs)> loss = {};
  /// Of how many samples or tokens that is the mean; called on the last stage before the first forward. Without it,
  /// micro-batches count alike; one of weight 0 is left out.
  Callback<double(int micro_batch)> weight = {};
};

class WEFT_API Pipeline {
 public:
  /// Called by all ranks of the group. Shared weights become their owner's. ValueError as plan_pipeline, for a chunk
  /// without a function, where ranks differ in schedule, micro-batches, or the number of chunks or of shared weights,
  /// and where a shared weight is not where it should be.
  Pipeline(std::vector<PipelineChunk> chunks, PipelineOptions options, Location where = {});

  /// Adds to the gradients of every stage's parameters those of the mean of the micro-batches' losses by weight, where
  /// weights are equal bit for bit those of `(loss / micro_batches).backward()` on one rank for one micro-batch after
  /// the other; those of shared weights are summed over their ranks. Every rank gets the mean. What a stage throws it
  /// throws here, and the other ranks get a DistributedError, as from each later call of the world.
  double run(const PipelineStep& step, Location where = {}) const;

  /// The 2-norm of the gradients of all stages' `parameters`, each of which is this rank's; a shared weight counts
  /// once. The same on every rank.
  double gradient_norm(std::span<const Tensor> parameters, Location where = {}) const;

  const PipelinePlan& plan() const { return plan_; }

 private:
  std::vector<PipelineChunk> chunks_;
  PipelineOptions options_;
  PipelinePlan plan_;
  /// Of each shared weight's ranks.
  std::vector<Group> holders_;
};

}  // namespace weft::distributed
