// Memory and traffic of a device of one stage. Not public.
#pragma once

#include "../cost_model.hpp"

namespace weft::distributed::cost {

/// Raises ValueError as cost_of does.
void check(const TransformerSizes& model, const TrainingPlan& plan);
/// Raises IndexError unless the plan has this stage.
void check_stage(const TrainingPlan& plan, int stage);
/// Pipelines with more actions are not simulated; formulas are used instead.
inline constexpr int64_t most_simulated = 4096;

/// Sizes as floating-point numbers, and derived quantities.
struct Sizes {
  Sizes(const TransformerSizes& model, const TrainingPlan& plan);
  double width, hidden, heads, vocabulary, sequence, experts, experts_per_token;
  double item;        // bytes of an element
  double tp, tokens;  // tokens of a micro-batch
  /// Bytes of activations [batch, sequence, width], unsharded.
  double activations() const { return tokens * width * item; }
  /// Number of sequence shards of activations between sharded layers.
  double sequence_parts;
};

struct Stage {
  Stage(const TransformerSizes& model, const TrainingPlan& plan, int number);
  int number;
  int64_t blocks = 0;
  bool is_first, is_last;
};

/// Parameters on one device.
struct Elements {
  /// Replicated parameters, and those of experts, which dp / ep replicas share.
  double dense = 0, experts = 0;
  int64_t tensors = 0;
  double total() const { return dense + experts; }
  Elements& operator+=(const Elements& other);
};
Elements elements_of_block(const Sizes& s, const TrainingPlan& plan);
Elements elements_of_embedding(const Sizes& s);
Elements elements_of_head(const Sizes& s);
Elements elements_of(const Stage& stage, const Sizes& s, const TrainingPlan& plan);

int64_t micro_batches_of(const TrainingPlan& plan);
/// Largest number of micro-batches (each of all chunks) that a stage keeps.
double kept_by(const TrainingPlan& plan, int stage);

/// Activations that a block saves for backward for one micro-batch.
double activations_of_block(const Sizes& s);

/// Bytes per element of Adam's moments and master weights.
double bytes_of_state(DType dtype);

/// Forward floating-point operations of a device for one micro-batch.
double flops_of(const Stage& stage, const Sizes& s);
double flops_of_blocks(const Stage& stage, const Sizes& s);

/// Peak of a device in matrix products of this dtype.
inline double peak_of(const Machine& machine, DType dtype) {
  return itemsize(dtype) < 4 ? machine.narrow_flops : machine.flops;
}

/// Traffic of one device, each entry within its own group.
struct StageTraffic {
  StageTraffic(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan);
  /// For each micro-batch.
  Sending tp_forward, tp_recompute, tp_backward, ep_forward, ep_backward, pp_forward, pp_backward, weights;
  /// For each step.
  Sending weights_in_vain, gradients, expert_gradients, updated, expert_updated, tp_control, dp_control, pp_control;
};

/// Groups of the mesh: number of ranks, and distance between adjacent ones in devices.
struct Line {
  int64_t ranks, stride;
};
Line tp_line(const TrainingPlan& plan);
Line pp_line(const TrainingPlan& plan);
Line dp_line(const TrainingPlan& plan);
Line ep_line(const TrainingPlan& plan);
/// Replicas of an expert.
Line expert_line(const TrainingPlan& plan);

enum class When : uint8_t {
  inside,     // between layers and stages, which wait for it
  ahead,      // weights of the module after the one that computes
  alongside,  // gradients, which are sent during backward
  behind,     // after backward
};
/// Traffic of one device in a step, and its group; seconds are not filled in.
struct Flow {
  TrafficCost cost;
  Line line;
  When when;
};
std::vector<Flow> flows_of(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan);

}  // namespace weft::distributed::cost
