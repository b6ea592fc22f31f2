// What a step of training costs on a mesh of devices, worked out and not run: memory, bytes sent, time.
//
//   const TransformerSizes model{.layers = 96, .width = 12288, .heads = 96, .vocabulary = 51200, .sequence = 2048};
//   TrainingPlan plan = training_plan("dp16-pp8-tp8-zero1");
//   plan.batch = 1536;
//   std::cout << text(cost_of(model, plan, machine_named("h100")));
//   for (const StepCost& cost : best_plans(model, 1024, {.batch = 1536}, machine_named("h100"))) …
//
// Memory and bytes are those of `parallelize` and `ParallelTraining` with AdamW: tensor parallelism of Shoeybi et al.
// 2019, stages of Rajbhandari et al. 2020 as ShardedOptimizer has them, activations as Korthikanti et al. 2022 count
// them, less masks of dropouts and attention's matrix, which are not kept here. Times are alpha-beta costs of messages
// and floating-point operations over an achievable share of a peak (Narayanan et al. 2021).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/dtype.hpp"
#include "group.hpp"
#include "pipeline.hpp"

namespace weft::distributed {

/// Blocks as nn::TransformerBlock between embeddings of tokens and positions, and a norm and a linear head without
/// bias, as in examples/parallel_gpt.hpp.
struct TransformerSizes {
  int64_t layers = 12, width = 768, heads = 12;
  /// 0 stands for four times the width.
  int64_t hidden = 0;
  int64_t vocabulary = 50304, sequence = 1024;
  DType dtype = DType::bf16;
  /// Of each block, where its hidden layer is a mixture: how many there are, and how many a token goes to.
  int64_t experts = 0, experts_per_token = 2;
};
/// "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", and of Narayanan et al. 2021 "gpt-22b", "gpt3" (175 billion
/// parameters), "gpt-530b" and "gpt-1t". KeyError for another name.
WEFT_API TransformerSizes transformer_named(std::string_view name, Location where = {});
WEFT_API double parameter_count(const TransformerSizes& sizes);
/// Floating-point operations for each token of a sequence, forwards and backwards: 6 for each parameter of a matrix
/// that it meets, and 12 · layers · sequence · width of attention, which counts what is masked, too.
WEFT_API double flops_per_token(const TransformerSizes& sizes);

struct TrainingPlan {
  /// Replicas, stages and ranks that share layers: a mesh [dp, pp, tp], of which neighbours along tp are neighbours.
  int dp = 1, pp = 1, tp = 1;
  /// Replicas among which the experts are shared out; it divides dp.
  int ep = 1;
  bool sequence_parallel = false;
  int shard_stage = 0;
  /// Sequences of a step, of all replicas together, and of a micro-batch.
  int64_t batch = 1, micro_batch = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;
  /// Blocks keep their input alone, and are computed again in backward.
  bool checkpoint = false;
  int64_t bucket_bytes = int64_t{25} << 20;

  int devices() const { return dp * pp * tp; }
};
/// "dp8-tp8-pp4-zero1": sizes of dp, pp, tp, or sp with sequences in parts, ep, the stage of zero, v chunks of each
/// stage (interleaved), mb sequences in a micro-batch, ckpt1. The batch is one micro-batch of each replica. ValueError
/// for any other text.
WEFT_API TrainingPlan training_plan(std::string_view text, Location where = {});
/// The same text, what is 1 or 0 left out.
WEFT_API std::string text(const TrainingPlan& plan);

/// How devices reach those that are near, up to `devices` of them, counted from the first.
struct MachineLink {
  int64_t devices = 0;
  /// That a device sends, and seconds for each message.
  double bytes_per_second = 0, latency = 0;
};
struct Machine {
  std::string name;
  /// Floating-point operations a second of a device in products of matrices, at their peak, of float32 and of 16-bit
  /// floats; and the share of it that products reach.
  double flops = 0, narrow_flops = 0, achievable = 1;
  /// Bytes of a device, and those that it reads and writes in a second.
  double memory = 0, memory_bandwidth = 0;
  /// From near to far; the last one reaches all.
  std::vector<MachineLink> links = {};
  /// The share of what is sent while something is computed that takes no time of its own.
  double overlap = 1;
};
/// "h100" (SXM, 80 GB) or "a100" (SXM, 80 GB): eight in a node with NVLink, nodes joined by 400 and 200 Gb/s for each
/// device. Peaks and bandwidths are their vendors'; that products reach 55 % and links 80 % of them, and what a message
/// takes, are assumptions. KeyError for another name.
WEFT_API Machine machine_named(std::string_view name, Location where = {});
/// Measures products of matrices of float32, copies, and all_reduce of the group, which takes a second or two; the same
/// on all its ranks. With one rank links are those of copies.
WEFT_API Machine measure_machine(const Group& group = world(), Location where = {});

/// What one device sends in a collective of `ranks` ranks, as this library does it.
struct Sending {
  double bytes = 0, messages = 0;
  Sending& operator+=(const Sending& other);
  friend Sending operator*(double times, const Sending& one) { return {times * one.bytes, times * one.messages}; }
};
/// Of a tensor of so many bytes: 2 (ranks - 1) / ranks of them, as a ring; up to 16 KiB all to each other rank.
WEFT_API Sending sent_by_all_reduce(double bytes, int64_t ranks);
/// Of all_gather, reduce_scatter and all_to_all whose whole has so many bytes: (ranks - 1) / ranks of them.
WEFT_API Sending sent_by_exchange(double bytes, int64_t ranks);
/// Seconds for it in a group whose ranks are `stride` devices apart: a device sends one message after the other, to
/// each rank as much.
WEFT_API double seconds_of(const Sending& sending, const Machine& machine, int64_t ranks, int64_t stride);

/// Bytes of one device.
struct MemoryCost {
  double weights = 0, gradients = 0, optimizer = 0;
  /// Kept for backward, of all micro-batches that are under way.
  double activations = 0;
  /// What is whole for a while, and left behind it: the loss's, a block that is computed again, stage 3's modules.
  double temporaries = 0;
  double total() const { return weights + gradients + optimizer + activations + temporaries; }
};

struct TrafficCost {
  /// "tp", "dp", "pp", "ep", or "control" for norms, means and flags.
  std::string kind;
  std::string what;
  /// Of one device in a step.
  Sending sending = {};
  double seconds = 0;
  /// Of these, what goes on beside compute.
  double hidden = 0;
};

struct StepCost {
  TransformerSizes model;
  TrainingPlan plan;
  Machine machine;
  int64_t micro_batches = 1;
  /// Of the stage that needs most, whose number this is.
  MemoryCost memory = {};
  int memory_stage = 0;
  bool fits = true;
  /// Of the slowest stage, whose number this is; a step with clip_grad_norm.
  std::vector<TrafficCost> traffic = {};
  int slowest_stage = 0;
  /// Seconds of a device of that stage.
  double compute = 0, recompute = 0, optimizer = 0;
  /// Seconds in which it waits for other stages.
  double waiting = 0;
  /// Of a step; its parts are those above and what traffic is not hidden.
  double seconds = 0;
  /// Waiting as a share of the pipeline's time.
  double bubble = 0;
  double tokens_per_second = 0;
  /// flops_per_token's share of all devices' peak.
  double utilization = 0;
};

/// ValueError unless dp · micro_batch divides the batch, tp the heads, hidden layer and vocabulary (and the sequence,
/// where it is in parts), chunks · pp are not more than the layers, ep divides dp and the experts, and as
/// plan_pipeline, and unless the machine's numbers are above 0.
WEFT_API StepCost cost_of(const TransformerSizes& model, const TrainingPlan& plan, const Machine& machine,
                          Location where = {});
/// What a device of one stage has and sends, whatever the machine; of times nothing is filled in. IndexError for
/// another stage.
WEFT_API MemoryCost memory_of(const TransformerSizes& model, const TrainingPlan& plan, int stage, Location where = {});
WEFT_API std::vector<TrafficCost> traffic_of(const TransformerSizes& model, const TrainingPlan& plan, int stage,
                                             Location where = {});
/// A table for people.
WEFT_API std::string text(const StepCost& cost);

struct PlanSearch {
  int64_t batch = 1;
  size_t count = 10;
  /// Of stages and of ranks that share layers.
  int most_stages = 64, most_tensor_parallel = 64;
};
/// The fastest plans that fit, the fastest first: all dp · pp · tp of so many devices, with and without sequences in
/// parts and checkpoints, micro-batches of 1, 2, 4 and 8 sequences, one or two chunks, and optimizers in parts (stages
/// 2 and 3 without a pipeline). Empty where none fits.
WEFT_API std::vector<StepCost> best_plans(const TransformerSizes& model, int devices, const PlanSearch& search,
                                          const Machine& machine, Location where = {});
/// A line for each.
WEFT_API std::string text(std::span<const StepCost> costs);

}  // namespace weft::distributed
