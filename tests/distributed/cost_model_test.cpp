// Costs of training steps by hand, and against traffic and memory of the example's GPT.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ranks.hpp"

#include "../../examples/parallel_gpt.hpp"

namespace weft::distributed {
namespace {

const parallel_gpt::Text& corpus() {
  static const parallel_gpt::Text text(WEFT_SOURCE_DIR "/examples/data/corpus.txt");
  return text;
}

/// The example's GPT, and its plan: stages get one sequence at a time.
TransformerSizes sizes_of_example() { return parallel_gpt::sizes_of((corpus().characters + 7) / 8 * 8); }
TrainingPlan plan_of_example(const std::string& text) {
  TrainingPlan plan = training_plan(text);
  plan.batch = parallel_gpt::batch;
  plan.micro_batch = plan.pp > 1 ? 1 : plan.batch / plan.dp;
  return plan;
}

/// The bytes that each rank sends before and during the steps.
std::vector<int64_t> bytes_sent(const std::string& plan, int steps) {
  const parallel_gpt::Plan parsed = parallel_gpt::plan_of(plan);
  std::vector<int64_t> out(static_cast<size_t>(parsed.ranks()));
  LocalWorld(parsed.ranks(), {.timeout_seconds = 120}).run([&](const Group& group) {
    parallel_gpt::train(parsed, group, corpus(), steps);
    out[static_cast<size_t>(group.rank())] = group.sent_bytes();
  });
  return out;
}

class CostOfPlan : public ::testing::TestWithParam<const char*> {};

TEST_P(CostOfPlan, CountsEveryByteOfAStep) {
  const TrainingPlan plan = plan_of_example(GetParam());
  const std::vector<int64_t> one = bytes_sent(GetParam(), 1), two = bytes_sent(GetParam(), 2);
  for (size_t rank = 0; rank < one.size(); ++rank) {
    const int stage = static_cast<int>(rank) / plan.tp % plan.pp;
    double bytes = 0;
    std::string parts;
    for (const TrafficCost& t : traffic_of(sizes_of_example(), plan, stage)) {
      bytes += t.sending.bytes;
      parts += t.kind + ' ' + t.what + ' ' + std::to_string(t.sending.bytes) + '\n';
    }
    EXPECT_EQ(static_cast<double>(two[rank] - one[rank]), bytes) << "rank " << rank << '\n' << parts;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, CostOfPlan,
                         ::testing::Values("dp1", "dp2", "dp4", "tp2", "tp4", "pp2", "pp4", "sp2", "sp4", "dp2-sp2",
                                           "pp2-sp2", "dp2-tp2", "dp2-pp2", "pp2-tp2", "dp2-zero1", "dp2-zero2",
                                           "dp4-zero2", "dp2-zero3", "dp4-zero3", "dp2-tp2-zero1", "dp2-tp2-zero3",
                                           "dp2-pp2-zero3", "dp2-pp2-tp2", "dp2-pp2-sp2-zero2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// ---- memory ----
/// Bytes of all ranks together: before a second step's backward, behind it, and at most meanwhile.
struct Held {
  double before_backward = 0, behind_backward = 0, most = 0;
};
Held held_by(const std::string& text) {
  const TrainingPlan plan = plan_of_example(text);
  const TransformerSizes sizes = sizes_of_example();
  LocalWorld ranks(plan.devices(), {.timeout_seconds = 60});
  const auto before = static_cast<double>(memory_stats().allocated);
  const auto now = [&](const Group& group, double& out) {
    barrier(group);
    if (group.rank() == 0) out = static_cast<double>(memory_stats().allocated) - before;
    barrier(group);
  };
  Held held;
  ranks.run([&](const Group& group) {
    const Mesh mesh({plan.dp, plan.pp, plan.tp}, {"dp", "pp", "tp"}, group);
    manual_seed(1);
    const ParallelModel model = parallelize(parallel_gpt::gpt(sizes), {.mesh = mesh,
                                                                       .splits = parallel_gpt::splits(),
                                                                       .sequence_parallel = plan.sequence_parallel,
                                                                       .shard_stage = plan.shard_stage});
    ParallelTraining training(model, optim::AdamW(model.parameters(), {.lr = 3e-3}));
    const Tensor windows = corpus().windows(1, 0, plan.micro_batch);
    const Tensor x = windows.narrow(1, 0, sizes.sequence), y = windows.narrow(1, 1, sizes.sequence);
    for (int step = 0; step < 2; ++step) {
      training.zero_grad();
      if (step == 1 && group.rank() == 0) reset_peak();
      training.backward(x, y, [&](const Tensor& logits, const Tensor& targets) {
        const Tensor loss = parallel_cross_entropy(logits, targets, {.group = model.tensor_parallel()});
        if (step == 1) now(group, held.before_backward);
        return loss;
      });
      training.clip_grad_norm(1.0);
      if (step == 1) now(group, held.behind_backward);
      training.step();
    }
    barrier(group);
    if (group.rank() == 0) held.most = static_cast<double>(memory_stats().peak_allocated) - before;
    barrier(group);
  });
  return held;
}

TEST(CostModel, MemoryEqualsTheAllocators) {
  for (const char* text : {"dp1", "dp2", "tp2", "sp2", "dp2-zero1", "dp2-zero2", "dp2-zero3", "dp4-zero3", "tp4"}) {
    const TrainingPlan plan = plan_of_example(text);
    const MemoryCost cost = memory_of(sizes_of_example(), plan, 0);
    const double ranks = plan.devices();
    const Held held = held_by(text);
    const double state = cost.weights + cost.optimizer;
    EXPECT_NEAR(held.before_backward / ranks / (state + cost.activations), 1, 0.02) << text;
    EXPECT_NEAR(held.behind_backward / ranks / (state + cost.gradients), 1, 0.01) << text;
    // Activations go while gradients come, and ranks do not need most at once.
    EXPECT_LT(held.most / ranks, 1.02 * cost.total()) << text;
    EXPECT_GE(held.most, held.before_backward) << text;
    if (plan.devices() == 1) {
      EXPECT_GT(held.most, 0.9 * cost.total());
    }
  }
}

// ---- by hand ----
/// One of 12 · 2 · 2 elements in matrices: width 2, hidden 8.
constexpr TransformerSizes tiny{.layers = 2, .width = 2, .heads = 2, .vocabulary = 6, .sequence = 4, .dtype = bf16};

TEST(CostModel, CountsParametersAndOperations) {
  // A block: norms 8, qkv 12 + 6, proj 4 + 2, up 16 + 8, down 16 + 2. Embeddings 12 + 8, a norm 4 and a head 12.
  EXPECT_EQ(parameter_count(tiny), 2 * 74 + 20 + 16);
  // 6 for each of 2 · 48 + 12 elements of matrices, and 12 · layers · sequence · width.
  EXPECT_EQ(flops_per_token(tiny), 6 * 108 + 12 * 2 * 4 * 2);
  EXPECT_NEAR(parameter_count(transformer_named("gpt3")), 175e9, 1e9);
  EXPECT_NEAR(parameter_count(transformer_named("gpt-22b")), 22e9, 1e9);
  EXPECT_NEAR(parameter_count(transformer_named("gpt-530b")), 530e9, 2e9);
  EXPECT_NEAR(parameter_count(transformer_named("gpt-1t")), 1008e9, 3e9);
  EXPECT_THROW(transformer_named("gpt5"), KeyError);
}

TEST(CostModel, ParametersEqualThoseOfTheModel) {
  int64_t count = 0;
  for (const Tensor& p : parallel_gpt::gpt(sizes_of_example()).parameters()) count += p.numel();
  EXPECT_EQ(parameter_count(sizes_of_example()), static_cast<double>(count));
}

TEST(CostModel, OperationsEqualThoseOfASummary) {
  const TransformerSizes sizes = sizes_of_example();
  const nn::Sequential model = parallel_gpt::gpt(sizes);
  const Tensor ids = zeros({2, sizes.sequence}, i64);
  const nn::Summary summary = nn::summary(model, ids);
  const auto tokens = static_cast<double>(2 * sizes.sequence);
  EXPECT_EQ(3 * 2 * static_cast<double>(summary.total().multiply_adds), flops_per_token(sizes) * tokens);
}

TEST(CostModel, StagesOfOptimizersHoldTheBytesOfTheirDescription) {
  const auto bytes = [](int stage) {
    const MemoryCost m = memory_of(tiny, {.dp = 4, .shard_stage = stage, .batch = 4}, 0);
    return (m.weights + m.gradients + m.optimizer) / parameter_count(tiny);
  };
  EXPECT_EQ(bytes(0), 16);
  EXPECT_EQ(bytes(1), 4 + 12 / 4.0);
  EXPECT_EQ(bytes(2), 2 + 14 / 4.0);
  EXPECT_EQ(bytes(3), 16 / 4.0);
  // Gradients that are added up are whole.
  const MemoryCost adding = memory_of(tiny, {.dp = 4, .shard_stage = 2, .batch = 8}, 0);
  EXPECT_EQ(adding.gradients, 2 * parameter_count(tiny));
}

TEST(CostModel, ActivationsAreKorthikantisWithoutMasks) {
  // s b h (10 + 24 / t) bytes, minus two masks of s b h each, plus a per-head copy of attention's output, 2 s b h / t.
  const TransformerSizes wide{.layers = 8, .width = 1024, .heads = 8, .vocabulary = 512, .sequence = 128};
  const auto block = [&](const TrainingPlan& plan) { return memory_of(wide, plan, 0).activations / 2; };
  const double sbh = 128 * 1024;
  for (const int tp : {1, 2, 8}) {
    // Besides means and deviations of norms, and sums of heads.
    const double numbers = 4 * 128 * (4 + 8.0 / tp);
    EXPECT_EQ(block({.pp = 4, .tp = tp, .batch = 1}), sbh * (8 + 26.0 / tp) + numbers) << tp;
  }
  // Of norms' inputs a part, of their results all.
  EXPECT_EQ(block({.pp = 4, .tp = 8, .sequence_parallel = true, .batch = 1}),
            sbh * (4 / 8.0 + 4 + 26 / 8.0) + 4 * 128 * (4 / 8.0 + 1));
  EXPECT_EQ(block({.pp = 4, .batch = 1, .checkpoint = true}), 2 * sbh);
  // The first of four stages keeps four micro-batches of one_f_one_b.
  EXPECT_EQ(block({.pp = 4, .batch = 16, .checkpoint = true}), 4 * 2 * sbh);
  EXPECT_EQ(block({.pp = 4, .batch = 16, .schedule = PipelineSchedule::f_then_b, .checkpoint = true}), 16 * 2 * sbh);
}

TEST(CostModel, CollectivesSendAsRingsDo) {
  EXPECT_EQ(sent_by_all_reduce(1 << 20, 4).bytes, 1.5 * (1 << 20));
  EXPECT_EQ(sent_by_all_reduce(1 << 20, 4).messages, 6);
  EXPECT_EQ(sent_by_all_reduce(100, 4).bytes, 300);  // in one round
  EXPECT_EQ(sent_by_all_reduce(1 << 20, 1).bytes, 0);
  EXPECT_EQ(sent_by_exchange(1 << 20, 4).bytes, 0.75 * (1 << 20));
  EXPECT_EQ(sent_by_exchange(1 << 20, 4).messages, 3);
}

/// Four per node; traffic between nodes has a tenth of the speed.
const Machine machine{.name = "a machine",
                      .flops = 1e12,
                      .narrow_flops = 2e12,
                      .achievable = 0.5,
                      .memory = 1e9,
                      .memory_bandwidth = 1e15,
                      .links = {{4, 1e9, 1e-6}, {0, 1e8, 1e-5}}};

TEST(CostModel, TrafficBetweenNodesIsSlower) {
  EXPECT_DOUBLE_EQ(seconds_of({3e6, 3}, machine, 4, 1), 3e-3 + 3e-6);
  EXPECT_DOUBLE_EQ(seconds_of({3e6, 3}, machine, 4, 4), 3e-2 + 3e-5);
  // Of seven others three are in the node.
  EXPECT_DOUBLE_EQ(seconds_of({7e6, 7}, machine, 8, 1), 3e-3 + 3e-6 + 4e-2 + 4e-5);
  EXPECT_EQ(seconds_of({1e6, 1}, machine, 1, 1), 0);
}

TEST(CostModel, TimeIsComputePlusExposedTraffic) {
  const TransformerSizes sizes{.layers = 4, .width = 64, .heads = 4, .vocabulary = 128, .sequence = 64};
  const StepCost alone = cost_of(sizes, {.batch = 8, .micro_batch = 8}, machine);
  // Half of 2e12 a second; memory takes no time.
  EXPECT_NEAR(alone.seconds, flops_per_token(sizes) * 8 * 64 / 1e12, 1e-3 * alone.seconds);
  EXPECT_NEAR(alone.utilization, 0.5, 1e-3);
  EXPECT_EQ(alone.bubble, 0);

  const StepCost two = cost_of(sizes, {.dp = 2, .batch = 16, .micro_batch = 8}, machine);
  ASSERT_EQ(two.traffic[0].kind, "dp");
  EXPECT_EQ(two.traffic[0].sending.bytes, 2 * parameter_count(sizes));
  EXPECT_EQ(two.traffic[0].hidden, two.traffic[0].seconds);  // beside backward
  EXPECT_LT(two.seconds, 1.02 * alone.seconds);
  Machine busy = machine;
  busy.overlap = 0;
  EXPECT_NEAR(cost_of(sizes, {.dp = 2, .batch = 16, .micro_batch = 8}, busy).seconds,
              two.seconds + two.traffic[0].seconds, 1e-9);

  const TrainingPlan stages{.pp = 4, .batch = 8, .micro_batch = 1};
  TransformerSizes many_words = sizes;
  many_words.vocabulary = 4096;
  const StepCost pipeline = cost_of(many_words, stages, machine);
  EXPECT_NEAR(pipeline.bubble, 3 / 11.0, 1e-9);
  EXPECT_EQ(pipeline.slowest_stage, 3);  // it has the head
}

TEST(CostModel, TimesOfPartsAddUp) {
  const TransformerSizes gpt3 = transformer_named("gpt3");
  for (const char* text :
       {"dp1024-zero3", "dp128-tp8-zero2-mb4", "dp16-sp8-pp8-zero1", "dp8-tp8-pp16-v2-ckpt1", "dp32-pp32-zero1-mb2"}) {
    TrainingPlan plan = training_plan(text);
    plan.batch = 2048;
    const StepCost c = cost_of(gpt3, plan, machine_named("a100"));
    double parts = c.compute + c.recompute + c.optimizer + c.waiting;
    for (const TrafficCost& t : c.traffic) {
      parts += t.seconds - t.hidden;
      EXPECT_LE(t.hidden, t.seconds) << text;
    }
    EXPECT_NEAR(parts / c.seconds, 1, 1e-9) << text;
  }
}

TEST(CostModel, LongPipelinesGoByFormulas) {
  Machine fast = machine;
  fast.memory = 1e15;
  const TransformerSizes sizes{.layers = 64, .width = 64, .heads = 4, .vocabulary = 128, .sequence = 64};
  for (const auto& [schedule, chunks, bubble] : {std::tuple(PipelineSchedule::one_f_one_b, 1, 31 / (64 + 31.0)),
                                                 {PipelineSchedule::f_then_b, 1, 31 / (64 + 31.0)},
                                                 {PipelineSchedule::interleaved, 2, 31 / (2 * 64 + 31.0)}}) {
    // 2,048 or 4,096 actions are simulated, twice as many are not.
    const TrainingPlan plan{.pp = 32, .batch = 64, .schedule = schedule, .chunks = chunks};
    TrainingPlan longer = plan;
    longer.batch = 256;
    EXPECT_NEAR(cost_of(sizes, plan, fast).bubble, bubble, 1e-9) << name(schedule);
    EXPECT_NEAR(cost_of(sizes, longer, fast).bubble, 31 / (31 + 256.0 * chunks), 1e-9) << name(schedule);
    if (schedule == PipelineSchedule::f_then_b) continue;
    const double kept = memory_of(sizes, plan, 0).activations, more = memory_of(sizes, longer, 0).activations;
    EXPECT_EQ(kept, more) << name(schedule);
  }
}

TEST(CostModel, ExpertsAreSharedOutAndTokensGoToThem) {
  const TransformerSizes dense{.layers = 4, .width = 64, .heads = 4, .vocabulary = 128, .sequence = 64, .dtype = f32};
  TransformerSizes mixture = dense;
  mixture.experts = 8;
  mixture.experts_per_token = 2;
  // A hidden layer for each expert, and a row of the router.
  const double hidden_layer = 2 * 64 * 256 + 256 + 64;
  EXPECT_EQ(parameter_count(mixture), parameter_count(dense) + 4 * (7 * hidden_layer + 8 * 64));
  const TrainingPlan plan{.dp = 8, .ep = 4, .batch = 8};
  const double own = parameter_count(mixture) - 4 * 6 * hidden_layer;
  EXPECT_EQ(memory_of(mixture, plan, 0).weights, 4 * own);
  double sent = 0, reduced = 0;
  for (const TrafficCost& t : traffic_of(mixture, plan, 0)) {
    sent += t.kind == "ep" ? t.sending.bytes : 0;
    reduced += t.what == "all_reduce of gradients of experts" ? t.sending.bytes : 0;
  }
  // There and back, forwards and backwards, of two rows for each token, three quarters to other ranks.
  EXPECT_EQ(sent, 4 * 4 * 0.75 * (2 * 64 * 64 * 4));
  EXPECT_EQ(reduced, 4 * (4 * 2 * hidden_layer));  // two replicas: 2 (2 - 1) / 2
  EXPECT_THROW(cost_of(dense, plan, machine), ValueError);
}

TEST(CostModel, PlansAreReadOrRefused) {
  const TrainingPlan plan = training_plan("dp2-sp8-pp4-zero1-v2-mb3-ckpt1");
  EXPECT_EQ(plan.devices(), 64);
  EXPECT_TRUE(plan.sequence_parallel && plan.checkpoint);
  EXPECT_EQ(plan.schedule, PipelineSchedule::interleaved);
  EXPECT_EQ(plan.batch, 6);
  EXPECT_EQ(text(plan), "dp2-pp4-v2-sp8-zero1-mb3-ckpt1");
  EXPECT_EQ(text(training_plan(text(plan))), text(plan));
  for (const char* wrong : {"", "dp", "xp2", "dp2-", "2", "dp2tp2", "dp99999999999"}) {
    EXPECT_THROW(training_plan(wrong), ValueError) << wrong;
  }
}

TEST(CostModel, RejectsImpossiblePlans) {
  const TransformerSizes sizes{.layers = 4, .width = 64, .heads = 4, .vocabulary = 128, .sequence = 64};
  const auto refuses = [&](const TrainingPlan& plan) { EXPECT_THROW(cost_of(sizes, plan, machine), ValueError); };
  refuses({.tp = 8});  // of 4 heads
  refuses({.dp = 2, .batch = 3});
  refuses({.pp = 8, .batch = 8});               // of 4 blocks
  refuses({.pp = 2, .batch = 2, .chunks = 2});  // not interleaved
  refuses({.pp = 4, .batch = 2, .schedule = PipelineSchedule::interleaved});
  refuses({.dp = 0});
  refuses({.shard_stage = 4});
  refuses({.dp = 2, .ep = 2, .batch = 2});  // without experts
  EXPECT_THROW(cost_of(sizes, {}, Machine{}), ValueError);
  EXPECT_THROW(memory_of(sizes, {}, 1), IndexError);
  EXPECT_THROW(traffic_of(sizes, {}, -1), IndexError);
  EXPECT_THROW(machine_named("abacus"), KeyError);
}

// ---- searching ----
TEST(CostModel, TheBestPlanIsTheFastestThatFits) {
  const TransformerSizes sizes{.layers = 8, .width = 1024, .heads = 8, .vocabulary = 1024, .sequence = 256};
  const std::vector<StepCost> best = best_plans(sizes, 16, {.batch = 64, .count = 1000}, machine);
  ASSERT_GT(best.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(best, {}, &StepCost::seconds));
  for (const StepCost& c : best) {
    EXPECT_EQ(c.plan.devices(), 16);
    EXPECT_LE(c.memory.total(), machine.memory);
    EXPECT_EQ(c.seconds, cost_of(sizes, c.plan, machine).seconds);
  }
  Machine small = machine;
  small.memory = 1e3;
  EXPECT_TRUE(best_plans(sizes, 16, {.batch = 64}, small).empty());
  EXPECT_THROW(best_plans(sizes, 0, {.batch = 64}, machine), ValueError);
}

TEST(CostModel, TablesNameTheLimitOfAPlan) {
  const TransformerSizes gpt3 = transformer_named("gpt3");
  TrainingPlan plan = training_plan("dp16-sp8-pp8-zero1");
  plan.batch = 1536;
  const std::string table = text(cost_of(gpt3, plan, machine_named("h100")));
  EXPECT_NE(table.find("1024 x h100"), std::string::npos) << table;
  EXPECT_NE(table.find("limit    compute"), std::string::npos) << table;
  const std::string large = text(cost_of(gpt3, training_plan("dp1"), machine_named("a100")));
  EXPECT_NE(large.find("limit    memory"), std::string::npos) << large;
}

TEST(CostModel, MeasuredMachinesAreAlikeOnAllRanks) {
  LocalWorld(2, {.timeout_seconds = 60}).run([](const Group& group) {
    const Machine own = measure_machine(group);
    EXPECT_GT(own.flops, 0);
    EXPECT_GT(own.links.at(0).bytes_per_second, 0);
    const Tensor numbers = tensor({own.flops, own.memory_bandwidth, own.links[0].latency}, f64);
    EXPECT_TRUE(same_bits(all_reduce(numbers, group, ReduceOp::max), numbers));
    EXPECT_GT(cost_of(sizes_of_example(), plan_of_example("dp2"), own).seconds, 0);
  });
}

}  // namespace
}  // namespace weft::distributed
