// Auxiliary losses of mixtures of experts on stages, replicas and sequence shards beside one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <weft/distributed/parallelize.hpp>
#include <weft/nn/moe.hpp>

#include <message_of.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using Tensors = std::vector<Tensor>;
using enum PipelineSchedule;

constexpr int64_t width = 6, experts = 4;
constexpr double balance_weight = 0.5, z_weight = 0.1;

struct Mixing : nn::Layer<Mixing> {
  nn::Linear linear;
  nn::MoE moe;
  Mixing() : linear(width, width), moe(width, 5, experts, {.balance_weight = balance_weight, .z_weight = z_weight}) {
    WEFT_REGISTER(linear, moe);
  }
  Tensor forward(const Tensor& x) const { return x + moe(tanh(linear(x))); }
  /// The result, and the losses that `forward` adds.
  std::pair<Tensor, Tensor> with_losses(const Tensor& x) const {
    const auto [y, balance, z, counts] = moe.forward_with_losses(tanh(linear(x)));
    return {x + y, balance_weight * balance + z_weight * z};
  }
};

std::vector<Mixing> layers_of(int count) {
  manual_seed(3);
  std::vector<Mixing> out(static_cast<size_t>(count));
  for (Mixing& layer : out) layer = Mixing();
  return out;
}

std::pair<Tensor, Tensor> through(const std::vector<Mixing>& layers, Tensor x) {
  Tensor losses = zeros({});
  for (const Mixing& layer : layers) {
    const auto [y, own] = layer.with_losses(x);
    x = y;
    losses = losses + own;
  }
  return {x, losses};
}

void expect_near(const Tensor& got, const Tensor& expected, const std::string& name) {
  ASSERT_TRUE(got.defined()) << name;
  const double largest = amax(abs(expected)).item<double>();
  EXPECT_TRUE(allclose(got, expected, 1e-4, 1e-5 * largest)) << name;
}
void expect_same_gradients(const nn::Module& got, const nn::Module& expected, const std::string& text) {
  const auto own = got.named_parameters(), all = expected.named_parameters();
  for (size_t i = 0; i < own.size(); ++i) expect_near(own[i].tensor.grad(), all[i].tensor.grad(), text + own[i].name);
}

// ---- a Pipeline alone ----
Tensor input_of_micro_batch(int m) { return input_of(m, {5, width}); }
Tensor task_of(int m, const Tensor& y) { return mse_loss(y, input_of(200 + m, {5, width})); }
double weight_of(int m) { return std::array{1., 0., 5., 2.}[static_cast<size_t>(m % 4)]; }

/// backward of the sum of factor(m) · (task + auxiliary losses) on one rank.
void accumulate(const std::vector<Mixing>& layers, int first, int last, const std::function<double(int)>& factor) {
  for (int m = first; m < last; ++m) {
    const auto [y, losses] = through(layers, input_of_micro_batch(m));
    ((task_of(m, y) + losses) * factor(m)).backward();
  }
}

struct Chunks {
  std::vector<Mixing> layers;
  std::vector<size_t> own;
  Pipeline pipeline;
};
Chunks chunks_on(const Group& stages, PipelineSchedule schedule, int micro_batches, int chunks) {
  const std::vector<Mixing> layers = layers_of(stages.size() * chunks);
  std::vector<size_t> own;
  std::vector<PipelineChunk> parts;
  for (int c = 0; c < chunks; ++c) {
    own.push_back(static_cast<size_t>(c * stages.size() + stages.rank()));
    parts.push_back({[layer = layers[own.back()]](std::span<const Tensor> x) { return Tensors{layer(x[0])}; }});
  }
  return {layers, own, Pipeline(parts, {.schedule = schedule, .micro_batches = micro_batches, .group = stages})};
}

void expect_factors_of_losses(const Group& group, PipelineSchedule schedule, bool weighted, int chunks = 1) {
  const int count = schedule == interleaved ? 2 * group.size() : 4;
  const Chunks chunked = chunks_on(group, schedule, count, chunks);
  PipelineStep step{.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                    .loss = [](int m, std::span<const Tensor> y) { return task_of(m, y[0]); }};
  if (weighted) step.weight = weight_of;
  chunked.pipeline.run(step);
  const std::vector<Mixing> whole = layers_of(group.size() * chunks);
  double sum = 0;
  for (int m = 0; m < count; ++m) sum += weight_of(m);
  accumulate(whole, 0, count, [&](int m) { return weighted ? weight_of(m) / sum : 1. / count; });
  for (const size_t i : chunked.own) {
    expect_same_gradients(chunked.layers[i], whole[i], std::string(name(schedule)) + (weighted ? " weighted " : " "));
  }
}

TEST(AuxiliaryLosses, OfAPipelinesStagesHaveTheFactorsOfTheirMicroBatches) {
  on_all_ranks([](const Group& group) {
    for (const bool weighted : {false, true}) {
      for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
        expect_factors_of_losses(group, schedule, weighted);
      }
      expect_factors_of_losses(group, interleaved, weighted, 2);
    }
  });
}

TEST(AuxiliaryLosses, OfAPipelinesStagesHaveTheBitsOfAccumulationOnOneRank) {
  on_all_ranks([](const Group& group) {
    for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
      const Chunks chunked = chunks_on(group, schedule, 3, 1);
      chunked.pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                            .loss = [](int m, std::span<const Tensor> y) { return task_of(m, y[0]); }});
      const std::vector<Mixing> whole = layers_of(group.size());
      for (int m = 0; m < 3; ++m) {
        Tensor x = input_of_micro_batch(m);
        for (const Mixing& layer : whole) x = layer(x);
        const nn::AuxiliaryLossScale scale(1. / 3);
        (task_of(m, x) / 3).backward();
      }
      const auto own = chunked.layers[chunked.own[0]].named_parameters(),
                 expected = whole[chunked.own[0]].named_parameters();
      for (size_t i = 0; i < own.size(); ++i) {
        EXPECT_TRUE(same_bits(own[i].tensor.grad(), expected[i].tensor.grad())) << name(schedule) << own[i].name;
      }
    }
  });
}

TEST(AuxiliaryLosses, ScalesAroundAPipelineMultiply) {
  on_all_ranks([](const Group& group) {
    for (const PipelineSchedule schedule : {one_f_one_b, zero_bubble}) {
      const Chunks chunked = chunks_on(group, schedule, 4, 1);
      const nn::AuxiliaryLossScale scale(64);
      chunked.pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                            .loss = [](int m, std::span<const Tensor> y) { return task_of(m, y[0]) * 64; }});
      const std::vector<Mixing> whole = layers_of(group.size());
      accumulate(whole, 0, 4, [](int) { return 64. / 4; });
      expect_same_gradients(chunked.layers[chunked.own[0]], whole[chunked.own[0]], name(schedule));
    }
  });
}

// Two replicas, each of which has other micro-batches with other weights.
TEST(AuxiliaryLosses, OfReplicasOfAPipelineHaveTheFactorsOfTheirMicroBatches) {
  for (const int stages : {1, 2, 3}) {
    for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
      LocalWorld(2 * stages, {.timeout_seconds = 60}).run([&](const Group& group) {
        const Mesh mesh({2, stages}, {"dp", "pp"}, group);
        const Group& replicas = mesh.group("dp");
        const Chunks chunked = chunks_on(mesh.group("pp"), schedule, 3, 1);
        const auto at = [&](int m) { return 3 * replicas.rank() + m; };
        const double mean =
            chunked.pipeline.run({.input = [&](int m) { return Tensors{input_of_micro_batch(at(m))}; },
                                  .loss = [&](int m, std::span<const Tensor> y) { return task_of(at(m), y[0]); },
                                  .weight = [&](int m) { return weight_of(at(m)); },
                                  .mean_weight = [&](double own) { return mean_weight(own, replicas); }});
        const std::vector<Mixing> whole = layers_of(stages);
        double sum = 0, expected = 0;
        for (int m = 0; m < 6; ++m) sum += weight_of(m);
        for (int m = 0; m < 6; ++m) {
          expected += task_of(m, through(whole, input_of_micro_batch(m)).first).item<double>() * weight_of(m) / sum;
        }
        accumulate(whole, 0, 6, [&](int m) { return weight_of(m) / sum; });
        const Mixing& own = chunked.layers[chunked.own[0]];
        for (Tensor p : own.parameters()) p.set_grad(all_reduce(p.grad(), replicas, ReduceOp::avg));
        expect_same_gradients(own, whole[chunked.own[0]], name(schedule));
        EXPECT_NEAR(all_reduce(tensor(mean, f64), replicas, ReduceOp::avg).item<double>(), expected, 1e-5);
      });
    }
  }
}

TEST(AuxiliaryLosses, WeightsThatAreNoneAreRefused) {
  for (const double wrong : {-1., std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto run = [&](const Group& group) {
      chunks_on(group, one_f_one_b, 4, 1)
          .pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                         .loss = [](int m, std::span<const Tensor> y) { return task_of(m, y[0]); },
                         .weight = [&](int m) { return m == 2 ? wrong : 1; }});
    };
    EXPECT_THAT(message_of<ValueError>([&] { LocalWorld(1).run(run); }),
                ::testing::HasSubstr("the weight of micro-batch 2 is"));
  }
}

// ---- by a plan ----
struct Cut {
  const char* name;
  Dims shape;  // dp, pp, ep
  PipelineSchedule schedule = one_f_one_b;
  int micro_batches = 2;
  int chunks = 1;
  bool splits_experts = false;
};

/// A replica's rows, in micro-batches. Replicas and micro-batches have different weights.
struct Rows {
  Tensors inputs, targets;
};
Rows rows_of(int replica, int micro_batches) {
  const int64_t own = replica == 0 ? 3 : 5;
  const Tensor x = input_of(10 + replica, {own * micro_batches, width});
  const Tensor target = input_of(300 + replica, {own * micro_batches, width});
  return {x.chunk(micro_batches, 0), target.chunk(micro_batches, 0)};
}
double count_of(const Tensor& target) { return sum(target.select(1, 0) > 0).item<double>(); }
Tensor squared(const Tensor& y, const Tensor& target) { return mse_loss(y, target); }

/// Gradients of one process. `joined`: the routers' losses cover the micro-batches m of all replicas together.
nn::Sequential one_process(const std::vector<Mixing>& layers, int replicas, int micro_batches, bool joined) {
  std::vector<Rows> rows;
  double sum = 0;
  for (int r = 0; r < replicas; ++r) {
    rows.push_back(rows_of(r, micro_batches));
    for (const Tensor& target : rows.back().targets) sum += count_of(target);
  }
  for (size_t m = 0; m < static_cast<size_t>(micro_batches); ++m) {
    Tensors all;
    double factors = 0;
    for (const Rows& own : rows) {
      all.push_back(own.inputs[m]);
      const double factor = count_of(own.targets[m]) / sum;
      factors += factor;
      const auto [y, losses] = through(layers, own.inputs[m]);
      ((squared(y, own.targets[m]) + (joined ? 0 : 1) * losses) * factor).backward();
    }
    if (joined) (through(layers, cat(all)).second * factors).backward();
  }
  nn::Sequential model;
  for (const Mixing& layer : layers) model.append(layer);
  return model;
}

class AuxiliaryLossesByPlan : public ::testing::TestWithParam<Cut> {};

TEST_P(AuxiliaryLossesByPlan, HaveTheGradientsOfOneProcess) {
  const Cut& c = GetParam();
  const int layers = static_cast<int>(c.shape[1]) * c.chunks;
  LocalWorld(static_cast<int>(c.shape.product()), {.timeout_seconds = 60}).run([&](const Group& group) {
    const Mesh mesh(c.shape, {"dp", "pp", "ep"}, group);
    nn::Sequential model;
    for (const Mixing& layer : layers_of(layers)) model.append(layer);
    ParallelPlan plan{.mesh = mesh, .schedule = c.schedule, .chunks = c.chunks, .micro_batches = c.micro_batches};
    if (c.splits_experts) plan.splits = {{"moe$", ExpertParallelOptions{}}};
    const ParallelModel parallel = parallelize(model, plan);
    ParallelTraining training(parallel, optim::SGD(parallel.parameters(), {.lr = 1}));
    const Group& replicas = parallel.data_parallel();
    const Rows rows = rows_of(replicas.rank(), c.micro_batches);
    training.backward(cat(rows.inputs), cat(rows.targets), squared, count_of);
    training.clip_grad_norm(1e9);

    const nn::Sequential whole = one_process(layers_of(layers), replicas.size(), c.micro_batches, c.splits_experts);
    std::map<std::string, Tensor> expected;
    for (const auto& [name, p] : whole.named_parameters()) expected.emplace(name, p.grad());
    for (const auto& [name, p] : parallel.named_parameters()) {
      const int64_t own = p.size(0);
      const bool is_part = own != expected.at(name).size(0);
      expect_near(p.grad(),
                  is_part ? expected.at(name).narrow(0, own * mesh.group("ep").rank(), own) : expected.at(name), name);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, AuxiliaryLossesByPlan,
    ::testing::Values(Cut{"One", {1, 1, 1}, one_f_one_b, 3}, Cut{"Replicas", {2, 1, 1}, one_f_one_b, 3},
                      Cut{"TwoStages", {1, 2, 1}, f_then_b, 3}, Cut{"ThreeStages", {1, 3, 1}, one_f_one_b, 4},
                      Cut{"ZeroBubble", {1, 3, 1}, zero_bubble, 4}, Cut{"Chunks", {1, 2, 1}, interleaved, 4, 2},
                      Cut{"ReplicasOfStages", {2, 2, 1}}, Cut{"ReplicasOfThreeStages", {2, 3, 1}, zero_bubble, 3},
                      Cut{"Experts", {1, 1, 2}, one_f_one_b, 2, 1, true},
                      Cut{"ReplicasOfExperts", {2, 1, 2}, one_f_one_b, 2, 1, true},
                      Cut{"StagesOfExperts", {1, 2, 2}, zero_bubble, 3, 1, true},
                      Cut{"All", {2, 2, 2}, one_f_one_b, 2, 1, true}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- sequence shards ----
nn::Sequential sequence_model() {
  manual_seed(5);
  return nn::Sequential(nn::Linear(width, width),
                        nn::MoE(width, 5, experts, {.balance_weight = balance_weight, .z_weight = z_weight}),
                        nn::Linear(width, width));
}

/// Trains one step on sequences [2, 6, width] of each replica.
void expect_sequence_gradients(const Group& group, const Dims& shape, bool splits_experts) {
  const Mesh mesh(shape, {"ep", "pp", "tp"}, group);
  ParallelPlan plan{.mesh = mesh,
                    .splits = {{"^0$", ToSequenceParts{}},
                               {"^1$", OnSequenceParts{}},
                               {"^2$", ColumnParallelOptions{.gather_output = true}}},
                    .sequence_parallel = true,
                    .micro_batches = 2};
  if (splits_experts) plan.splits.push_back({"^1$", ExpertParallelOptions{}});
  const nn::Sequential model = sequence_model(), whole = sequence_model();
  const ParallelModel parallel = parallelize(model, plan);
  ParallelTraining training(parallel, optim::SGD(parallel.parameters(), {.lr = 1}));
  const Group& replicas = parallel.data_parallel();
  const auto x_of = [](int r) { return input_of(r, {2, 6, width}); };
  training.backward(x_of(replicas.rank()), 2 * x_of(replicas.rank()), squared);
  training.clip_grad_norm(1e9);

  const auto& moe = whole[1].as<nn::MoE>();
  for (int m = 0; m < 2; ++m) {
    Tensors all;
    for (int r = 0; r < replicas.size(); ++r) all.push_back(x_of(r).narrow(0, m, 1));
    const Tensors batches = splits_experts ? Tensors{cat(all)} : all;
    for (const Tensor& batch : batches) {
      const auto [y, balance, z, counts] = moe.forward_with_losses(whole[0](batch));
      const Tensor loss = squared(whole[2](y), 2 * batch) + balance_weight * balance + z_weight * z;
      (loss / static_cast<double>(2 * batches.size())).backward();
    }
  }
  std::map<std::string, Tensor> expected;
  for (const auto& [name, p] : whole.named_parameters()) expected.emplace(name, p.grad());
  for (const auto& [name, p] : parallel.named_parameters()) {
    const int64_t own = p.size(0);
    const int part = mesh.group(name.starts_with("2") ? "tp" : "ep").rank();
    const bool is_part = own != expected.at(name).size(0);
    expect_near(p.grad(), is_part ? expected.at(name).narrow(0, own * part, own) : expected.at(name), name);
  }
}

TEST(AuxiliaryLosses, OfSequenceShardsCountOnceInTheSumOverRanks) {
  for (const bool splits_experts : {false, true}) {
    for (const Dims& shape : {Dims{1, 1, 2}, Dims{1, 1, 3}, Dims{2, 1, 2}, Dims{1, 3, 2}, Dims{2, 2, 3}}) {
      SCOPED_TRACE(shape.text() + (splits_experts ? " experts" : ""));
      LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run([&](const Group& group) {
        expect_sequence_gradients(group, shape, splits_experts);
      });
    }
  }
}

TEST(AuxiliaryLosses, OfSequenceShardsCoverTheWholeSequence) {
  LocalWorld(2).run([](const Group& group) {
    const nn::Sequential model = sequence_model(), whole = sequence_model();
    parallelize(model,
                {.mesh = Mesh({2}, {"tp"}, group), .splits = {{"^1$", OnSequenceParts{}}}, .sequence_parallel = true});
    const Tensor x = input_of(1, {2, 6, width});
    const nn::MoEOutput out = model[1].as<nn::MoE>().forward_with_losses(x.narrow(1, 3 * group.rank(), 3));
    const nn::MoEOutput expected = whole[1].as<nn::MoE>().forward_with_losses(x);
    EXPECT_TRUE(equal(out.counts, expected.counts));
    expect_near(out.balance_loss.detach(), expected.balance_loss.detach(), "balance");
    expect_near(out.z_loss.detach(), expected.z_loss.detach(), "z");
  });
}

}  // namespace
}  // namespace weft::distributed
