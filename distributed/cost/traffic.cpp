// Traffic of a device of one stage.
#include <algorithm>
#include <cmath>

#include "../../tensor/error.hpp"
#include "stage-inl.hpp"

namespace weft::distributed {

Sending& Sending::operator+=(const Sending& other) {
  bytes += other.bytes;
  messages += other.messages;
  return *this;
}

Sending sent_by_all_reduce(double bytes, int64_t ranks) {
  constexpr double one_round_bytes = 1 << 14;
  const auto others = static_cast<double>(ranks - 1);
  if (bytes <= one_round_bytes) return {others * bytes, others};
  return {2 * others / static_cast<double>(ranks) * bytes, 2 * others};
}

Sending sent_by_exchange(double bytes, int64_t ranks) {
  const auto others = static_cast<double>(ranks - 1);
  return {others / static_cast<double>(ranks) * bytes, others};
}

double seconds_of(const Sending& sending, const Machine& machine, int64_t ranks, int64_t stride) {
  if (ranks <= 1) return 0;
  double seconds = 0;
  int64_t nearer = 1;
  for (const MachineLink& link : machine.links) {
    const bool reaches_all = &link == &machine.links.back();
    const int64_t reached = reaches_all ? ranks : std::clamp<int64_t>(link.devices / stride, nearer, ranks);
    const double share = static_cast<double>(reached - nearer) / static_cast<double>(ranks - 1);
    seconds += share * (sending.bytes / link.bytes_per_second + sending.messages * link.latency);
    nearer = reached;
  }
  return seconds;
}

namespace cost {

Line tp_line(const TrainingPlan& plan) { return {plan.tp, 1}; }
Line pp_line(const TrainingPlan& plan) { return {plan.pp, plan.tp}; }
Line dp_line(const TrainingPlan& plan) { return {plan.dp, int64_t{plan.tp} * plan.pp}; }
Line ep_line(const TrainingPlan& plan) { return {plan.ep, int64_t{plan.tp} * plan.pp}; }
Line expert_line(const TrainingPlan& plan) { return {plan.dp / plan.ep, int64_t{plan.tp} * plan.pp * plan.ep}; }

namespace {

/// Gradients of unsharded parameters between sequence-parallel regions: four norm tensors and two biases per block, and
/// two tensors of the head's norm, for each micro-batch.
Sending gradients_on_sequence_parts(const Stage& stage, const Sizes& s, int64_t ranks) {
  const double tensors = 6 * static_cast<double>(stage.blocks) + (stage.is_last ? 2 : 0);
  return tensors * sent_by_all_reduce(s.width * s.item, ranks);
}

/// Activations between sharded layers: two sums per block in forward, and two in backward.
void send_activations(StageTraffic& out, const Stage& stage, const Sizes& s, const TrainingPlan& plan) {
  const Sending whole = sent_by_all_reduce(s.activations(), plan.tp), part = sent_by_exchange(s.activations(), plan.tp);
  const Sending of_block = plan.sequence_parallel ? 4.0 * part : 2.0 * whole;
  const Sending at_end = plan.sequence_parallel ? part : whole;
  out.tp_forward += static_cast<double>(stage.blocks) * of_block;
  out.tp_backward += static_cast<double>(stage.blocks) * of_block;
  if (plan.checkpoint) out.tp_recompute = out.tp_forward;
  if (stage.is_first) out.tp_forward += at_end;
  if (stage.is_last) out.tp_backward += at_end;
  if (plan.sequence_parallel) {
    if (stage.is_first) {
      out.tp_backward += part;
      out.tp_backward += sent_by_exchange(s.sequence * s.width * s.item, plan.tp);
    }
    if (stage.is_last) out.tp_forward += part;
    out.tp_backward += gradients_on_sequence_parts(stage, s, plan.tp);
  }
}

/// parallel_cross_entropy: maxima, then sums and target logits.
Sending sent_by_loss(const Sizes& s, int64_t ranks) {
  const double number = std::max(4.0, s.item);
  Sending out = sent_by_all_reduce(s.tokens * number, ranks);
  out += sent_by_all_reduce(2 * s.tokens * number, ranks);
  return out;
}

/// Activations to the next stage and their gradients back, each preceded by the factor of the loss and their sort.
void send_to_stages(StageTraffic& out, const Stage& stage, const Sizes& s, const TrainingPlan& plan) {
  constexpr double header_bytes = 2 * sizeof(double);
  const Sending one{s.activations() / s.sequence_parts + header_bytes, 2};
  out.pp_forward = (plan.chunks - (stage.is_last ? 1.0 : 0.0)) * one;
  out.pp_backward = (plan.chunks - (stage.is_first ? 1.0 : 0.0)) * one;
}

Sending in_buckets(double bytes, const TrainingPlan& plan, int64_t ranks, bool reduces_all) {
  if (bytes == 0) return {};
  const double buckets = std::ceil(bytes / static_cast<double>(plan.bucket_bytes));
  return buckets *
         (reduces_all ? sent_by_all_reduce(bytes / buckets, ranks) : sent_by_exchange(bytes / buckets, ranks));
}

}  // namespace

StageTraffic::StageTraffic(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan) {
  const Sizes s(model, plan);
  const Elements all = elements_of(stage, s, plan);
  const auto count = static_cast<double>(micro_batches_of(plan)), blocks = static_cast<double>(stage.blocks);
  const int64_t replicas = plan.dp, expert_replicas = expert_line(plan).ranks;
  if (plan.tp > 1) {
    send_activations(*this, stage, s, plan);
    if (stage.is_last) tp_control += count * sent_by_loss(s, plan.tp);
    tp_control += sent_by_all_reduce(8, plan.tp);
  }
  if (plan.ep > 1) {
    // To the experts and back.
    ep_forward = 2 * blocks * sent_by_exchange(s.experts_per_token * s.activations() / s.sequence_parts, plan.ep);
    ep_backward = (plan.checkpoint ? 2.0 : 1.0) * ep_forward;
  }
  if (plan.pp > 1) {
    send_to_stages(*this, stage, s, plan);
    pp_control = sent_by_all_reduce(8, plan.pp);
    if (stage.is_last) pp_control += {8.0 * (plan.pp - 1), plan.pp - 1.0};
  }
  if (plan.dp == 1) return;
  const bool reduces_all = plan.shard_stage < 2;
  gradients = in_buckets(s.item * all.dense, plan, replicas, reduces_all);
  expert_gradients = in_buckets(s.item * all.experts, plan, expert_replicas, reduces_all);
  if (plan.shard_stage == 1 || plan.shard_stage == 2) {
    updated = in_buckets(s.item * all.dense, plan, replicas, false);
    expert_updated = in_buckets(s.item * all.experts, plan, expert_replicas, false);
  }
  if (plan.shard_stage == 3) {
    // For each module's forward and backward.
    const double modules = blocks + (stage.is_first ? 1 : 0) + (stage.is_last ? 1 : 0);
    weights = sent_by_exchange(s.item * all.dense, replicas);
    weights += sent_by_exchange(s.item * all.experts, expert_replicas);
    weights = {2 * weights.bytes, 2 * modules * static_cast<double>(replicas - 1)};
    // After the last of several consecutive backwards, the prefetched module is not used.
    if (count > 1 && !stage.is_last) {
      const Elements block = elements_of_block(s, plan);
      weights_in_vain = sent_by_exchange(s.item * block.dense, replicas);
      weights_in_vain += sent_by_exchange(s.item * block.experts, expert_replicas);
    }
  }
  // Flags of reached parameters, then mean loss, mean weight on the last stage, and norm.
  dp_control = sent_by_all_reduce(static_cast<double>(all.tensors), replicas);
  const double values = 1 + (stage.is_last ? 1 : 0) + (plan.shard_stage > 0 ? 1 : 0);
  dp_control += values * sent_by_all_reduce(8, replicas);
}

std::vector<Flow> flows_of(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan) {
  const StageTraffic t(stage, model, plan);
  const auto count = static_cast<double>(micro_batches_of(plan));
  Sending weights = count * t.weights;
  weights += t.weights_in_vain;
  const Line tp = tp_line(plan), pp = pp_line(plan), dp = dp_line(plan), ep = ep_line(plan),
             experts = expert_line(plan);
  const std::string sums = plan.sequence_parallel ? "all_gather, reduce_scatter" : "all_reduce";
  const std::string means = plan.shard_stage < 2 ? "all_reduce of gradients" : "reduce_scatter of gradients";
  // With a pipeline, gradients are sent together after backward.
  const When leaving = plan.pp == 1 ? When::alongside : When::behind;
  std::vector<Flow> all{{{"tp", sums + " forwards", count * t.tp_forward}, tp, When::inside},
                        {{"tp", sums + " computed again", count * t.tp_recompute}, tp, When::inside},
                        {{"tp", sums + " backwards", count * t.tp_backward}, tp, When::inside},
                        {{"ep", "all_to_all forwards", count * t.ep_forward}, ep, When::inside},
                        {{"ep", "all_to_all backwards", count * t.ep_backward}, ep, When::inside},
                        {{"pp", "activations", count * t.pp_forward}, pp, When::inside},
                        {{"pp", "their gradients", count * t.pp_backward}, pp, When::inside},
                        {{"dp", "all_gather of weights in use", weights}, dp, When::ahead},
                        {{"dp", means, t.gradients}, dp, leaving},
                        {{"dp", means + " of experts", t.expert_gradients}, experts, leaving},
                        {{"dp", "all_gather of updated weights", t.updated}, dp, When::behind},
                        {{"dp", "all_gather of updated experts", t.expert_updated}, experts, When::behind},
                        {{"control", "tp: loss and norm", t.tp_control}, tp, When::behind},
                        {{"control", "pp: loss and norm", t.pp_control}, pp, When::behind},
                        {{"control", "dp: flags, loss, weight and norm", t.dp_control}, dp, When::behind}};
  std::erase_if(all, [](const Flow& f) { return f.cost.sending.bytes == 0; });
  return all;
}

}  // namespace cost

std::vector<TrafficCost> traffic_of(const TransformerSizes& model, const TrainingPlan& plan, int number,
                                    Location where) {
  const CallScope call("traffic_of", where);
  cost::check(model, plan);
  cost::check_stage(plan, number);
  std::vector<TrafficCost> out;
  for (cost::Flow& flow : cost::flows_of(cost::Stage(model, plan, number), model, plan)) {
    out.push_back(std::move(flow.cost));
  }
  return out;
}

}  // namespace weft::distributed
