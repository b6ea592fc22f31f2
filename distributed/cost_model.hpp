// Estimates the cost of a training step on a mesh of devices without running it: memory, bytes sent, time.
//
//   const TransformerSizes model{.layers = 96, .width = 12288, .heads = 96, .vocabulary = 51200, .sequence = 2048};
//   TrainingPlan plan = training_plan("dp16-pp8-tp8-zero1");
//   plan.batch = 1536;
//   std::cout << text(cost_of(model, plan, machine_named("h100")));
//   for (const StepCost& cost : best_plans(model, 1024, {.batch = 1536}, machine_named("h100"))) …
//
// Memory and bytes are those of `parallelize` and `ParallelTraining` with AdamW: tensor parallelism of Shoeybi et al.
// 2019, optimizer stages of Rajbhandari et al. 2020 as in ShardedOptimizer. Activations are counted as in Korthikanti
// et al. 2022, without dropout masks and the attention matrix, which Weft does not save. Times combine alpha-beta
// message costs with floating-point operations at an achievable fraction of the peak (Narayanan et al. 2021).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/dtype.hpp"
#include "group.hpp"
#include "pipeline.hpp"

namespace weft::distributed {

/// nn::TransformerBlocks between token and position embeddings and a final norm with a linear head without bias, as in
/// examples/parallel_gpt.hpp.
struct TransformerSizes {
  int64_t layers = 12, width = 768, heads = 12;
  /// Width of the MLP; 0 means four times `width`.
  int64_t hidden = 0;
  int64_t vocabulary = 50304, sequence = 1024;
  DType dtype = DType::bf16;
  /// If experts > 0, each block's MLP is a mixture of so many experts, with experts_per_token experts for each token.
  int64_t experts = 0, experts_per_token = 2;
};
/// Returns the sizes of "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl" or, from Narayanan et al. 2021, "gpt-22b",
/// "gpt3" (175 billion parameters), "gpt-530b" and "gpt-1t". Raises KeyError for another name.
WEFT_API TransformerSizes transformer_named(std::string_view name, Location where = {});
WEFT_API double parameter_count(const TransformerSizes& sizes);
/// Floating-point operations per token of a sequence, forward and backward: 6 for each matrix parameter that the token
/// uses, and 12 · layers · sequence · width for attention, including masked positions.
WEFT_API double flops_per_token(const TransformerSizes& sizes);

struct TrainingPlan {
  /// Numbers of replicas, pipeline stages and tensor-parallel ranks: a mesh [dp, pp, tp], in which ranks adjacent along
  /// tp are adjacent devices.
  int dp = 1, pp = 1, tp = 1;
  /// Number of replicas over which the experts are sharded; must divide dp.
  int ep = 1;
  bool sequence_parallel = false;
  int shard_stage = 0;
  /// Sequences per step over all replicas, and per micro-batch.
  int64_t batch = 1, micro_batch = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;
  /// Blocks save only their input and are recomputed in backward.
  bool checkpoint = false;
  int64_t bucket_bytes = int64_t{25} << 20;

  int devices() const { return dp * pp * tp; }
};
/// Parses "dp8-tp8-pp4-zero1": sizes of dp, pp and tp; sp instead of tp for tensor parallelism with sequence-parallel
/// activations; ep; zero with the optimizer's shard stage; v with the number of chunks per pipeline stage
/// (interleaved); mb with the sequences of a micro-batch; ckpt1. The batch is set to one micro-batch per replica.
/// Raises ValueError for any other text.
WEFT_API TrainingPlan training_plan(std::string_view text, Location where = {});
/// The text that training_plan parses, without the entries that are 1 or 0.
WEFT_API std::string text(const TrainingPlan& plan);

/// The link between devices in one block of `devices` consecutive devices.
struct MachineLink {
  int64_t devices = 0;
  /// Bandwidth in bytes that one device sends per second, and latency in seconds per message.
  double bytes_per_second = 0, latency = 0;
};
struct Machine {
  std::string name;
  /// Peak floating-point operations per second of one device in matrix products, in float32 and in 16-bit floats, and
  /// the fraction of the peak that products achieve.
  double flops = 0, narrow_flops = 0, achievable = 1;
  /// Memory of one device in bytes, and bytes that it reads and writes per second.
  double memory = 0, memory_bandwidth = 0;
  /// From near to far; the last one connects all devices.
  std::vector<MachineLink> links = {};
  /// Fraction of the communication concurrent with compute that takes no extra time.
  double overlap = 1;
};
/// Returns "h100" (SXM, 80 GB) or "a100" (SXM, 80 GB): nodes of eight devices with NVLink, connected by 400 and 200
/// Gb/s per device. Peaks and bandwidths are the vendor's. The achieved fractions (55 % for products, 80 % for links)
/// and the time per message are assumptions. Raises KeyError for another name.
WEFT_API Machine machine_named(std::string_view name, Location where = {});
/// Measures float32 matrix products, copies, and all_reduce over the group, which takes a second or two. The result is
/// the same on all ranks. With one rank, link figures are those of copies.
WEFT_API Machine measure_machine(const Group& group = world(), Location where = {});

/// Bytes and messages that one device sends in a collective of `ranks` ranks, as implemented in this library.
struct Sending {
  double bytes = 0, messages = 0;
  Sending& operator+=(const Sending& other);
  friend Sending operator*(double times, const Sending& one) { return {times * one.bytes, times * one.messages}; }
};
/// For a tensor of `bytes` bytes: 2 (ranks - 1) / ranks of them, as in a ring; up to 16 KiB, the whole tensor goes to
/// each other rank.
WEFT_API Sending sent_by_all_reduce(double bytes, int64_t ranks);
/// For all_gather, reduce_scatter and all_to_all with `bytes` bytes in the whole tensor: (ranks - 1) / ranks of them.
WEFT_API Sending sent_by_exchange(double bytes, int64_t ranks);
/// Seconds for `sending` in a group whose ranks are `stride` devices apart. A device sends its messages one after the
/// other, the same amount to each rank.
WEFT_API double seconds_of(const Sending& sending, const Machine& machine, int64_t ranks, int64_t stride);

/// Bytes on one device.
struct MemoryCost {
  double weights = 0, gradients = 0, optimizer = 0;
  /// Saved for backward, for all micro-batches in flight.
  double activations = 0;
  /// Peak of transient buffers: the loss, a recomputed block, gathered modules of shard stage 3.
  double temporaries = 0;
  double total() const { return weights + gradients + optimizer + activations + temporaries; }
};

struct TrafficCost {
  /// "tp", "dp", "pp", "ep", or "control" for norms, means and flags.
  std::string kind;
  std::string what;
  /// Sent by one device per step.
  Sending sending = {};
  double seconds = 0;
  /// Seconds of these that overlap with compute.
  double hidden = 0;
};

struct StepCost {
  TransformerSizes model;
  TrainingPlan plan;
  Machine machine;
  int64_t micro_batches = 1;
  /// Memory of the stage that needs most, and the number of that stage.
  MemoryCost memory = {};
  int memory_stage = 0;
  bool fits = true;
  /// Traffic of the slowest stage, and the number of that stage; for a step with clip_grad_norm.
  std::vector<TrafficCost> traffic = {};
  int slowest_stage = 0;
  /// Seconds on one device of that stage.
  double compute = 0, recompute = 0, optimizer = 0;
  /// Seconds spent waiting for other stages.
  double waiting = 0;
  /// Seconds per step: the sum of the times above and the traffic that is not hidden.
  double seconds = 0;
  /// Waiting as a fraction of the pipeline's time.
  double bubble = 0;
  double tokens_per_second = 0;
  /// Model FLOPs utilization: flops_per_token as a fraction of all devices' peak.
  double utilization = 0;
};

/// Raises ValueError unless dp · micro_batch divides the batch; tp divides the heads, hidden layer and vocabulary (and
/// the sequence, with sequence_parallel); chunks · pp ≤ layers; ep divides dp and the experts; and all figures of the
/// machine are above 0. Also raises the errors of plan_pipeline.
WEFT_API StepCost cost_of(const TransformerSizes& model, const TrainingPlan& plan, const Machine& machine,
                          Location where = {});
/// Memory and traffic of one device of one stage, which do not depend on the machine; times are left 0. Raises
/// IndexError if there is no such stage.
WEFT_API MemoryCost memory_of(const TransformerSizes& model, const TrainingPlan& plan, int stage, Location where = {});
WEFT_API std::vector<TrafficCost> traffic_of(const TransformerSizes& model, const TrainingPlan& plan, int stage,
                                             Location where = {});
/// A readable table.
WEFT_API std::string text(const StepCost& cost);

struct PlanSearch {
  int64_t batch = 1;
  size_t count = 10;
  /// Upper limits for the number of stages and of tensor-parallel ranks.
  int most_stages = 64, most_tensor_parallel = 64;
};
/// The fastest plans that fit into memory, fastest first. Tries all dp · pp · tp with this number of devices, with and
/// without sequence parallelism and checkpoints. Tries micro-batches of 1, 2, 4 and 8 sequences, one or two chunks, and
/// sharded optimizers (stages 2 and 3 only without a pipeline). Empty if none fits.
WEFT_API std::vector<StepCost> best_plans(const TransformerSizes& model, int devices, const PlanSearch& search,
                                          const Machine& machine, Location where = {});
/// One line for each plan.
WEFT_API std::string text(std::span<const StepCost> costs);

}  // namespace weft::distributed
