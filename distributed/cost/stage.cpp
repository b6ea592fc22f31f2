// Memory on a device of one stage.
#include <algorithm>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "stage-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace cost {

namespace {

void divides(int64_t divisor, int64_t n, const char* divisors, const char* what) {
  if (divisor >= 1 && n >= 1 && n % divisor == 0) return;
  raise<ValueError>({.problem = fmt::format("{} {} do not divide {} {}", divisor, divisors, n, what)});
}

}  // namespace

void check(const TransformerSizes& model, const TrainingPlan& plan) {
  const auto hidden = model.hidden > 0 ? model.hidden : 4 * model.width;
  for (const auto& [what, n] : {std::pair<const char*, int64_t>{"layers", model.layers},
                                {"width", model.width},
                                {"vocabulary", model.vocabulary},
                                {"sequence", model.sequence},
                                {"dp", plan.dp},
                                {"pp", plan.pp},
                                {"tp", plan.tp},
                                {"ep", plan.ep},
                                {"chunks", plan.chunks},
                                {"micro_batch", plan.micro_batch},
                                {"bucket_bytes", plan.bucket_bytes}}) {
    expect_at_least(what, n, 1);
  }
  if (!is_floating(model.dtype)) raise_value("dtype", "a floating-point dtype", model.dtype);
  if (plan.shard_stage < 0 || plan.shard_stage > 3) {
    raise_value("shard_stage", "0 to 3", plan.shard_stage);
  }
  divides(model.heads, model.width, "heads", "features");
  divides(plan.tp, model.heads, "ranks", "heads");
  divides(plan.tp, hidden, "ranks", "hidden features");
  divides(plan.tp, model.vocabulary, "ranks", "words of the vocabulary");
  if (plan.sequence_parallel) divides(plan.tp, model.sequence, "ranks", "places of a sequence");
  divides(plan.dp * plan.micro_batch, plan.batch, "sequences, one micro-batch of each replica,", "of a batch");
  divides(plan.ep, plan.dp, "ranks with experts of their own", "replicas");
  if (plan.ep > 1 || model.experts > 0) divides(plan.ep, model.experts, "ranks", "experts");
  if (int64_t{plan.pp} * plan.chunks > model.layers) {
    raise<ValueError>(
        {.problem = fmt::format("{} stages of {} chunks are cut from {} layers", plan.pp, plan.chunks, model.layers)});
  }
  if (plan.chunks > 1 && plan.schedule != PipelineSchedule::interleaved) {
    raise_value("chunks", fmt::format("1 with schedule {}", name(plan.schedule)), plan.chunks);
  }
  if (plan.schedule == PipelineSchedule::interleaved)
    divides(plan.pp, micro_batches_of(plan), "stages", "micro-batches");
}

void check_stage(const TrainingPlan& plan, int stage) {
  if (stage >= 0 && stage < plan.pp) return;
  raise<IndexError>({.problem = fmt::format("stage {} of {}", stage, plan.pp)});
}

Sizes::Sizes(const TransformerSizes& model, const TrainingPlan& plan)
    : width(static_cast<double>(model.width)),
      hidden(static_cast<double>(model.hidden > 0 ? model.hidden : 4 * model.width)),
      heads(static_cast<double>(model.heads)),
      vocabulary(static_cast<double>(model.vocabulary)),
      sequence(static_cast<double>(model.sequence)),
      experts(static_cast<double>(model.experts)),
      experts_per_token(model.experts > 0 ? static_cast<double>(model.experts_per_token) : 1),
      item(static_cast<double>(itemsize(model.dtype))),
      tp(plan.tp),
      tokens(static_cast<double>(plan.micro_batch * model.sequence)),
      sequence_parts(plan.sequence_parallel ? plan.tp : 1) {}

Stage::Stage(const TransformerSizes& model, const TrainingPlan& plan, int number_)
    : number(number_), is_first(number_ == 0), is_last(number_ == plan.pp - 1) {
  const int64_t parts = int64_t{plan.pp} * plan.chunks;
  for (int64_t part = number; part < parts; part += plan.pp) {
    blocks += (part + 1) * model.layers / parts - part * model.layers / parts;
  }
}

Elements& Elements::operator+=(const Elements& other) {
  dense += other.dense;
  experts += other.experts;
  tensors += other.tensors;
  return *this;
}

Elements elements_of_block(const Sizes& s, const TrainingPlan& plan) {
  const double attention = (4 * s.width * s.width + 3 * s.width) / s.tp + s.width;
  const double hidden_layer = (2 * s.width * s.hidden + s.hidden) / s.tp + s.width, norms = 4 * s.width;
  if (s.experts == 0) return {norms + attention + hidden_layer, 0, 12};
  const double own = s.experts / plan.ep;
  return {norms + attention + s.width * s.experts, own * hidden_layer, 9 + 4 * static_cast<int64_t>(own)};
}
Elements elements_of_embedding(const Sizes& s) { return {s.vocabulary * s.width / s.tp + s.sequence * s.width, 0, 2}; }
Elements elements_of_head(const Sizes& s) { return {2 * s.width + s.vocabulary * s.width / s.tp, 0, 3}; }

Elements elements_of(const Stage& stage, const Sizes& s, const TrainingPlan& plan) {
  const Elements block = elements_of_block(s, plan);
  const auto blocks = static_cast<double>(stage.blocks);
  Elements all{blocks * block.dense, blocks * block.experts, stage.blocks * block.tensors};
  if (stage.is_first) all += elements_of_embedding(s);
  if (stage.is_last) all += elements_of_head(s);
  return all;
}

int64_t micro_batches_of(const TrainingPlan& plan) { return plan.batch / (plan.dp * plan.micro_batch); }

double kept_by(const TrainingPlan& plan, int stage) {
  const int64_t count = micro_batches_of(plan), stages = plan.pp;
  if (stages == 1) return 1;
  if (stages * count * plan.chunks <= most_simulated) {
    const PipelinePlan order = plan_pipeline(plan.schedule, plan.pp, static_cast<int>(count), plan.chunks);
    return static_cast<double>(simulate(order).kept[static_cast<size_t>(stage)]) / plan.chunks;
  }
  switch (plan.schedule) {
    case PipelineSchedule::f_then_b:
      return static_cast<double>(count);
    case PipelineSchedule::one_f_one_b:
      return static_cast<double>(std::min(stages - stage, count));
    case PipelineSchedule::interleaved:
      return static_cast<double>(
                 std::min(2 * (stages - 1 - stage) + (plan.chunks - 1) * stages + 1, count * plan.chunks)) /
             plan.chunks;
    case PipelineSchedule::zero_bubble:
      return static_cast<double>(std::min(stages, count));
  }
  return 0;
}

double activations_of_block(const Sizes& s) {
  // Per token: inputs and outputs of both norms; sharded layers read the outputs whole.
  const double norms = 2 * s.width / s.sequence_parts + 2 * s.width;
  // Queries, keys, values, attention output by head and by token, and the hidden layer before and after gelu.
  const double attention = 5 * s.width / s.tp, hidden = 2 * s.hidden / s.tp * s.experts_per_token;
  // Means and deviations of the norms, and logsumexp of each head, in float32.
  const double numbers = 4 * (4 / s.sequence_parts + s.heads / s.tp);
  const double experts = s.experts > 0 ? 2 * s.experts_per_token * s.width : 0;
  return s.tokens * (s.item * (norms + attention + hidden + experts) + numbers);
}

double bytes_of_state(DType dtype) {
  const auto item = static_cast<double>(itemsize(dtype));
  // Adam's two moments, and a master copy of narrower weights.
  return item < 4 ? 12 : 2 * item;
}

double flops_of_blocks(const Stage& stage, const Sizes& s) {
  const double matrices = 4 * s.width * s.width + 2 * s.width * s.hidden * s.experts_per_token;
  const double attention = 2 * s.sequence * s.width;
  return static_cast<double>(stage.blocks) * 2 * s.tokens * (matrices + attention) / s.tp;
}
double flops_of(const Stage& stage, const Sizes& s) {
  return flops_of_blocks(stage, s) + (stage.is_last ? 2 * s.tokens * s.width * s.vocabulary / s.tp : 0);
}

}  // namespace cost

namespace {

/// Weights, gradients and optimizer state.
MemoryCost model_memory(const cost::Elements& all, const TransformerSizes& model, const TrainingPlan& plan) {
  const auto item = static_cast<double>(itemsize(model.dtype));
  const double dp = plan.dp, expert_dp = dp / plan.ep;
  const double in_parts = all.dense / dp + all.experts / expert_dp;
  // With several micro-batches, all gradients exist until those of the last one are sent.
  const bool adds_up = cost::micro_batches_of(plan) > 1;
  return {.weights = item * (plan.shard_stage == 3 ? in_parts : all.total()),
          .gradients = item * (plan.shard_stage >= 2 && !adds_up ? in_parts : all.total()),
          .optimizer = cost::bytes_of_state(model.dtype) * (plan.shard_stage >= 1 ? in_parts : all.total())};
}

}  // namespace

MemoryCost memory_of(const TransformerSizes& model, const TrainingPlan& plan, int number, Location where) {
  const CallScope call("memory_of", where);
  cost::check(model, plan);
  cost::check_stage(plan, number);
  const cost::Sizes s(model, plan);
  const cost::Stage stage(model, plan, number);
  MemoryCost out = model_memory(cost::elements_of(stage, s, plan), model, plan);
  const double block = cost::activations_of_block(s), kept = cost::kept_by(plan, number);
  const double input = s.activations() / s.sequence_parts;
  out.activations = kept * static_cast<double>(stage.blocks) * (plan.checkpoint ? input : block);
  // These peaks do not coincide: the loss, a recomputed block, and copies of gradients in buckets, which are sent
  // together or one by one.
  if (plan.checkpoint) out.temporaries = block;
  if (stage.is_last) {
    // The norm's input and result, and the logits; loss and its gradient are computed in float32.
    const double logits = s.tokens * s.vocabulary / s.tp;
    out.activations += input + s.activations() + s.tokens * 8 / s.sequence_parts + s.item * logits;
    out.temporaries = std::max(out.temporaries, 2 * std::max(4.0, s.item) * logits);
  }
  if (plan.dp > 1) {
    const double all = s.item * cost::elements_of(stage, s, plan).total(),
                 bucket = static_cast<double>(plan.bucket_bytes);
    out.temporaries = std::max(out.temporaries, plan.shard_stage >= 2 ? std::min(all, bucket) : all);
  }
  if (plan.shard_stage == 3 && plan.dp > 1) {
    // The module that computes, and the prefetched one.
    const double unit =
        std::max({cost::elements_of_block(s, plan).total(), stage.is_first ? cost::elements_of_embedding(s).total() : 0,
                  stage.is_last ? cost::elements_of_head(s).total() : 0});
    out.temporaries += s.item * 2 * unit;
  }
  return out;
}

double parameter_count(const TransformerSizes& sizes) {
  const TrainingPlan alone;
  const cost::Stage whole(sizes, alone, 0);
  return cost::elements_of(whole, cost::Sizes(sizes, alone), alone).total();
}

double flops_per_token(const TransformerSizes& sizes) {
  const TrainingPlan alone;
  const cost::Sizes s(sizes, alone);
  return 3 * cost::flops_of(cost::Stage(sizes, alone, 0), s) / s.tokens;
}

}  // namespace weft::distributed
