// Duration of a step.
#include <algorithm>
#include <cmath>

#include "../../tensor/error.hpp"
#include "stage-inl.hpp"

namespace weft::distributed {

namespace {

using cost::Line;
using cost::Sizes;
using cost::Stage;
using cost::StageTraffic;

void check(const Machine& machine) {
  bool is_complete = machine.flops > 0 && machine.narrow_flops > 0 && machine.achievable > 0 && machine.memory > 0 &&
                     machine.memory_bandwidth > 0 && !machine.links.empty();
  for (const MachineLink& link : machine.links) is_complete &= link.bytes_per_second > 0 && link.latency >= 0;
  if (is_complete) return;
  raise<ValueError>({.problem = "a machine has speeds, memory and links, all above 0"});
}

/// Seconds of a micro-batch on a stage.
struct Compute {
  double forward = 0, backward = 0, recompute = 0;
};

Compute compute_of(const Stage& stage, const Sizes& s, const TransformerSizes& model, const TrainingPlan& plan,
                   const Machine& machine) {
  const double speed = cost::peak_of(machine, model.dtype) * machine.achievable;
  const double bytes = machine.memory_bandwidth, blocks = static_cast<double>(stage.blocks);
  // Activations are written and read in forward; in backward they are read, and equally large gradients are written
  // once and read twice.
  const double kept = blocks * cost::activations_of_block(s) / bytes,
               gradients = cost::elements_of(stage, s, plan).total() * s.item / bytes;
  Compute out;
  out.forward = cost::flops_of(stage, s) / speed + 2 * kept;
  out.backward = 2 * cost::flops_of(stage, s) / speed + 4 * kept;
  // Gradients are written; with several micro-batches they are also read and accumulated.
  out.backward += (cost::micro_batches_of(plan) > 1 ? 3 : 1) * gradients;
  if (plan.checkpoint) out.recompute = cost::flops_of_blocks(stage, s) / speed + 2 * kept;
  return out;
}

double optimizer_seconds(const Stage& stage, const Sizes& s, const TransformerSizes& model, const TrainingPlan& plan,
                         const Machine& machine) {
  const cost::Elements all = cost::elements_of(stage, s, plan);
  const double dp = plan.dp, own = all.dense / dp + all.experts * plan.ep / dp;
  // The norm reads gradients; the update reads them, and reads and writes weights and state.
  const double each = 4 * s.item + 2 * cost::bytes_of_state(model.dtype);
  return (plan.shard_stage > 0 ? own : all.total()) * each / machine.memory_bandwidth;
}

/// Durations of a micro-batch on one stage, including communication.
PipelineCosts costs_of(const Compute& compute, const StageTraffic& t, const TrainingPlan& plan,
                       const Machine& machine) {
  const auto seconds = [&](const Sending& sending, Line line) {
    return seconds_of(sending, machine, line.ranks, line.stride);
  };
  const Line tp = cost::tp_line(plan), ep = cost::ep_line(plan), pp = cost::pp_line(plan), dp = cost::dp_line(plan);
  const double weights = seconds(t.weights, dp) / 2;
  const double computing = compute.forward + compute.recompute + compute.backward;
  const auto beside = [&](double part) { return std::max(0.0, weights - machine.overlap * part); };
  PipelineCosts out;
  out.forward = compute.forward + seconds(t.tp_forward, tp) + seconds(t.ep_forward, ep) + seconds(t.pp_forward, pp) +
                beside(compute.forward);
  const double sent = seconds(t.tp_recompute, tp) + seconds(t.tp_backward, tp) + seconds(t.ep_backward, ep) +
                      seconds(t.pp_backward, pp) + beside(computing - compute.forward);
  out.backward = compute.recompute + compute.backward + sent;
  out.input_gradient = compute.recompute + compute.backward / 2 + sent;
  out.weight_gradient = compute.backward / 2;
  return out;
}

PipelineTimes pipeline_times(const TrainingPlan& plan, PipelineCosts costs) {
  const int64_t count = cost::micro_batches_of(plan), stages = plan.pp;
  const double chunks = plan.chunks, all = costs.forward + costs.backward, m = static_cast<double>(count);
  for (double* c : {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient}) *c /= chunks;
  if (stages * count * plan.chunks <= cost::most_simulated) {
    return simulate(plan_pipeline(plan.schedule, plan.pp, static_cast<int>(count), plan.chunks), costs);
  }
  double filling = static_cast<double>(stages - 1) * all / chunks;
  if (plan.schedule == PipelineSchedule::zero_bubble) {
    filling =
        static_cast<double>(stages - 1) * std::max(0.0, costs.forward + costs.input_gradient - costs.weight_gradient);
  }
  return {.total = m * all + filling, .bubble = filling / (m * all + filling), .kept = {}};
}

/// Traffic of a device in a step, how much of it is hidden by compute, and the seconds after backward.
struct Traffic {
  std::vector<TrafficCost> costs = {};
  double behind = 0;
};
Traffic traffic_of(const Stage& stage, const TransformerSizes& model, const TrainingPlan& plan, const Machine& machine,
                   const Compute& compute) {
  const auto count = static_cast<double>(cost::micro_batches_of(plan));
  const auto beside = [&](double seconds, double computing) { return std::min(seconds, machine.overlap * computing); };
  // Only the last micro-batch's backward can hide it.
  double room = machine.overlap * compute.backward;
  Traffic out;
  for (cost::Flow& flow : cost::flows_of(stage, model, plan)) {
    TrafficCost& t = flow.cost;
    t.seconds = seconds_of(t.sending, machine, flow.line.ranks, flow.line.stride);
    if (flow.when == cost::When::ahead) {
      t.hidden = beside(t.seconds / 2, count * compute.forward) +
                 beside(t.seconds / 2, count * (compute.backward + compute.recompute));
    }
    if (flow.when == cost::When::alongside) {
      t.hidden = std::min(t.seconds, room);
      room -= t.hidden;
    }
    if (flow.when == cost::When::alongside || flow.when == cost::When::behind) out.behind += t.seconds - t.hidden;
    out.costs.push_back(std::move(t));
  }
  return out;
}

}  // namespace

StepCost cost_of(const TransformerSizes& model, const TrainingPlan& plan, const Machine& machine, Location where) {
  const CallScope call("cost_of", where);
  cost::check(model, plan);
  check(machine);
  StepCost out{.model = model, .plan = plan, .machine = machine, .micro_batches = cost::micro_batches_of(plan)};
  const Sizes s(model, plan);
  const auto count = static_cast<double>(out.micro_batches);
  PipelineCosts slowest;
  double longest = -1, behind = 0;
  for (int p = 0; p < plan.pp; ++p) {
    const Stage stage(model, plan, p);
    const MemoryCost memory = memory_of(model, plan, p);
    if (p == 0 || memory.total() > out.memory.total()) {
      out.memory = memory;
      out.memory_stage = p;
    }
    const Compute compute = compute_of(stage, s, model, plan, machine);
    const PipelineCosts costs = costs_of(compute, StageTraffic(stage, model, plan), plan, machine);
    Traffic traffic = traffic_of(stage, model, plan, machine, compute);
    const double optimizer = optimizer_seconds(stage, s, model, plan, machine);
    const double all = count * (costs.forward + costs.backward) + traffic.behind + optimizer;
    if (all <= longest) continue;
    longest = all;
    slowest = costs;
    behind = traffic.behind;
    out.slowest_stage = p;
    out.compute = count * (compute.forward + compute.backward);
    out.recompute = count * compute.recompute;
    out.optimizer = optimizer;
    out.traffic = std::move(traffic.costs);
  }
  const PipelineTimes times = pipeline_times(plan, slowest);
  out.bubble = times.bubble;
  out.waiting = times.total - count * (slowest.forward + slowest.backward);
  out.seconds = times.total + behind + out.optimizer;
  const double tokens = static_cast<double>(plan.batch * model.sequence);
  out.fits = out.memory.total() <= machine.memory;
  out.tokens_per_second = tokens / out.seconds;
  out.utilization =
      flops_per_token(model) * out.tokens_per_second / (cost::peak_of(machine, model.dtype) * plan.devices());
  return out;
}

}  // namespace weft::distributed
