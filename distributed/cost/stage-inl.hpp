// What a device of one stage has and sends. Not public.
#pragma once

#include "../cost_model.hpp"

namespace weft::distributed::cost {

/// ValueError as cost_of.
void check(const TransformerSizes& model, const TrainingPlan& plan);
/// IndexError unless the plan has this stage.
void check_stage(const TrainingPlan& plan, int stage);
/// Plans of pipelines with more actions go by formulas.
inline constexpr int64_t most_simulated = 4096;

/// Sizes as floating-point numbers, and what follows from them.
struct Sizes {
  Sizes(const TransformerSizes& model, const TrainingPlan& plan);
  double width, hidden, heads, vocabulary, sequence, experts, experts_per_token;
  double item;        ///< bytes of an element
  double tp, tokens;  ///< of a micro-batch
  /// Bytes of activations [batch, sequence, width], whole.
  double activations() const { return tokens * width * item; }
  /// The number of parts in which they are between cut layers.
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
  /// What replicas have alike, and experts, of which dp / ep replicas have the same.
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
/// How many micro-batches, each of all chunks of a stage, it keeps.
double kept_by(const TrainingPlan& plan, int stage);

/// Of a block for one micro-batch, with what it keeps for backward.
double activations_of_block(const Sizes& s);

/// Adam's moments and masters, of each element.
double bytes_of_state(DType dtype);

/// Floating-point operations of a device for one micro-batch, forwards.
double flops_of(const Stage& stage, const Sizes& s);
double flops_of_blocks(const Stage& stage, const Sizes& s);

/// A device's, in products of matrices of this dtype.
inline double peak_of(const Machine& machine, DType dtype) {
  return itemsize(dtype) < 4 ? machine.narrow_flops : machine.flops;
}

/// What one device sends, each to its own group.
struct StageTraffic {
  StageTraffic(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan);
  /// For each micro-batch.
  Sending tp_forward, tp_recompute, tp_backward, ep_forward, ep_backward, pp_forward, pp_backward, weights;
  /// For each step.
  Sending weights_in_vain, gradients, expert_gradients, updated, expert_updated, tp_control, dp_control, pp_control;
};

/// Groups of the mesh: how many ranks they have, and how far these are apart.
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
  inside,     ///< between layers and stages, which wait for it
  ahead,      ///< weights of the module behind the one that computes
  alongside,  ///< gradients, which leave while backward goes on
  behind,     ///< when backward is over
};
/// What one device sends in a step, and where to; seconds are not filled in.
struct Flow {
  TrafficCost cost;
  Line line;
  When when;
};
std::vector<Flow> flows_of(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan);

}  // namespace weft::distributed::cost
