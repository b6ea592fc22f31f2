// Estimates the cost of training a transformer on a mesh of devices, without running it.
//   ./weft plan gpt3 --plan dp16-sp8-pp8-zero1 --batch 1536 --machine h100
//   ./weft plan --layers 32 --width 4096 --heads 32 --devices 1024 --batch 1024
//   ./weft plan --layers 4 --width 256 --dtype float32 --plan dp2 --machine this --ranks 2
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "parallel_gpt.hpp"

using namespace weft;
using namespace weft::distributed;

namespace {

struct Wish {
  std::string model, machine = "h100", schedule;
  std::vector<std::string> plans;
  TransformerSizes sizes;
  int devices = 0, ranks = 0, steps = 0;
  int64_t batch = 0;
};

/// Calls f(group) on the ranks of mpirun, or else on `threads` threads. Returns this process's result.
template <class F>
auto on_ranks(int threads, F f) {
  const Group all = world();
  if (all.size() > 1) return f(all);
  std::optional<decltype(f(all))> out;
  LocalWorld(threads).run([&](const Group& group) {
    const auto own = f(group);
    if (group.rank() == 0) out = own;
  });
  return *out;
}

Machine measured(const Wish& wish) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int wanted = wish.plans.empty() ? cores : training_plan(wish.plans[0]).devices();
  return on_ranks(wish.ranks > 0 ? wish.ranks : std::min(cores, wanted),
                  [](const Group& group) { return measure_machine(group); });
}

/// The mean of two measurements.
Machine between(const Machine& a, const Machine& b) {
  Machine out = a;
  out.flops = out.narrow_flops = (a.flops + b.flops) / 2;
  out.memory_bandwidth = (a.memory_bandwidth + b.memory_bandwidth) / 2;
  out.links[0].bytes_per_second = (a.links[0].bytes_per_second + b.links[0].bytes_per_second) / 2;
  out.links[0].latency = (a.links[0].latency + b.links[0].latency) / 2;
  return out;
}

struct Run {
  double seconds = 0;  ///< of a step, median
  int64_t bytes = 0;   ///< sent by rank 0 per step
};
/// Trains on random tokens.
Run run_steps(const TransformerSizes& sizes, const TrainingPlan& plan, int steps, const Group& group) {
  const Mesh mesh({plan.dp, plan.pp, plan.tp}, {"dp", "pp", "tp"}, group);
  manual_seed(1);
  nn::Sequential whole = parallel_gpt::gpt(sizes);
  whole.to(sizes.dtype);
  const int64_t rows = plan.batch / plan.dp;
  const ParallelModel model = parallelize(whole, {.mesh = mesh,
                                                  .splits = parallel_gpt::splits(),
                                                  .sequence_parallel = plan.sequence_parallel,
                                                  .schedule = plan.schedule,
                                                  .chunks = plan.chunks,
                                                  .micro_batches = static_cast<int>(rows / plan.micro_batch),
                                                  .shard_stage = plan.shard_stage});
  ParallelTraining training(model, optim::AdamW(model.parameters(), {.lr = 1e-4}));
  const auto loss = [&](const Tensor& logits, const Tensor& targets) {
    return parallel_cross_entropy(logits, targets, {.group = model.tensor_parallel()});
  };
  const Tensor tokens = randint(0, sizes.vocabulary, {rows, sizes.sequence});
  Run out;
  std::vector<double> seconds;
  for (int step = 0; step < steps + 2; ++step) {
    barrier(group);
    const int64_t before = group.sent_bytes();
    const auto begin = std::chrono::steady_clock::now();
    training.zero_grad();
    training.backward(tokens, tokens, loss);
    training.clip_grad_norm(1.0);
    training.step();
    out.bytes = group.sent_bytes() - before;
    barrier(group);
    if (step >= 2) {
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::ranges::nth_element(seconds, seconds.begin() + steps / 2);
  out.seconds = seconds[static_cast<size_t>(steps / 2)];
  return out;
}

PipelineSchedule schedule_named(const std::string& wanted) {
  for (const auto schedule : {PipelineSchedule::f_then_b, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                              PipelineSchedule::zero_bubble}) {
    if (wanted == name(schedule)) return schedule;
  }
  throw ValueError("there is no schedule " + wanted);
}

TrainingPlan plan_of(const Wish& wish, const std::string& words) {
  TrainingPlan plan = training_plan(words);
  if (wish.batch > 0) plan.batch = wish.batch;
  if (!wish.schedule.empty()) plan.schedule = schedule_named(wish.schedule);
  return plan;
}

std::string plan_table(const Wish& wish, Machine machine) {
  const TrainingPlan plan = plan_of(wish, wish.plans[0]);
  if (wish.steps == 0) return text(cost_of(wish.sizes, plan, machine));
  if (plan.checkpoint || wish.sizes.experts > 0) throw ValueError("checkpoints and experts are not run here");
  const Run run =
      on_ranks(plan.devices(), [&](const Group& group) { return run_steps(wish.sizes, plan, wish.steps, group); });
  // Averages with a second measurement after the run, because the load of the machine may vary.
  if (wish.machine == "this") machine = between(machine, measured(wish));
  const StepCost cost = cost_of(wish.sizes, plan, machine);
  double bytes = 0;
  for (const TrafficCost& t : traffic_of(wish.sizes, plan, 0)) bytes += t.sending.bytes;
  return text(cost) + fmt::format(
                          "measured {:.1f} ms a step, {:.2f} of the prediction\n"
                          "         rank 0 sent {} bytes, predicted {:.0f}\n",
                          1e3 * run.seconds, run.seconds / cost.seconds, run.bytes, bytes);
}

std::string comparison(const Wish& wish, const Machine& machine) {
  if (wish.steps > 0) throw ValueError("one plan is run, not several");
  std::vector<StepCost> costs;
  for (const std::string& words : wish.plans) costs.push_back(cost_of(wish.sizes, plan_of(wish, words), machine));
  return text(std::span<const StepCost>(costs));
}

std::string best_table(const Wish& wish, const Machine& machine) {
  const int64_t batch = wish.batch > 0 ? wish.batch : wish.devices;
  const std::vector<StepCost> best = best_plans(wish.sizes, wish.devices, {.batch = batch}, machine);
  if (best.empty()) throw ValueError("no plan fits; more devices, or another batch, may");
  return fmt::format("{} x {}, {} sequences of {} a step\n\n", wish.devices, machine.name, batch, wish.sizes.sequence) +
         text(std::span(best));
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  int64_t layers = 0, width = 0, heads = 0, hidden = 0, vocabulary = 0, sequence = 0, experts = 0, chosen = 0;
  std::string dtype;
  CLI::App app(
      "Works out the cost of a training step of a transformer on many devices: memory, bytes sent, time, by a plan or "
      "by "
      "the best ones that fit. Nothing is run, but for --machine this.");
  app.add_option("model", wish.model, "gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt-22b, gpt3, gpt-530b or gpt-1t");
  app.add_option("--layers", layers, "sizes of the model; with a named one, its sizes that change");
  app.add_option("--width", width);
  app.add_option("--heads", heads);
  app.add_option("--hidden", hidden, "of a block's second half; 4 widths");
  app.add_option("--vocabulary", vocabulary);
  app.add_option("--sequence", sequence, "tokens");
  app.add_option("--experts", experts, "of a mixture in each block");
  app.add_option("--experts-per-token", chosen);
  app.add_option("--dtype", dtype, "of the weights: bfloat16, float16 or float32");
  auto* const plan =
      app.add_option("--plan", wish.plans,
                     "such as dp8-tp8-pp4-zero1: replicas, tensor-parallel ranks (sp: sequences in parts, "
                     "too), stages, optimizers in parts; ep4 ranks with their own experts, v2 chunks, "
                     "mb4 sequences in a micro-batch, ckpt1 checkpoints; several --plan are compared");
  plan->allow_extra_args(false);
  app.add_option("--devices", wish.devices, "prints the ten best plans for so many")->excludes(plan);
  app.add_option("--batch", wish.batch, "sequences of a step; by default one micro-batch of each replica");
  app.add_option("--schedule", wish.schedule, "f_then_b, one_f_one_b, interleaved or zero_bubble")->needs(plan);
  app.add_option("--machine", wish.machine, "h100, a100, or this, which is measured")->capture_default_str();
  app.add_option("--run", wish.steps, "trains this many steps by the plan on this machine, and prints their time")
      ->needs(plan);
  app.add_option(
      "--ranks", wish.ranks,
      "threads that measure this machine; as many as devices and cores by default, or processes under mpirun");
  CLI11_PARSE(app, argc, argv);
  try {
    if (wish.plans.empty() && wish.devices == 0) throw ValueError("say --plan dp8-tp8-pp4-zero1, or --devices 1024");
    if (!wish.model.empty()) wish.sizes = transformer_named(wish.model);
    for (const auto& [given, size] : {std::pair(layers, &wish.sizes.layers),
                                      {width, &wish.sizes.width},
                                      {heads, &wish.sizes.heads},
                                      {hidden, &wish.sizes.hidden},
                                      {vocabulary, &wish.sizes.vocabulary},
                                      {sequence, &wish.sizes.sequence},
                                      {experts, &wish.sizes.experts},
                                      {chosen, &wish.sizes.experts_per_token}}) {
      if (given != 0) *size = given;
    }
    if (!dtype.empty()) {
      const std::optional<DType> found = find_dtype(dtype);
      if (!found) throw ValueError("there is no dtype " + dtype);
      wish.sizes.dtype = *found;
    }
    const Machine machine = wish.machine == "this" ? measured(wish) : machine_named(wish.machine);
    const std::string table = wish.plans.empty()       ? best_table(wish, machine)
                              : wish.plans.size() == 1 ? plan_table(wish, machine)
                                                       : comparison(wish, machine);
    if (world().rank() == 0) std::cout << table;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
