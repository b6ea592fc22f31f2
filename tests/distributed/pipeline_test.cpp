// Pipelines on ranks beside the whole model on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include <message_of.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;
using enum PipelineSchedule;

constexpr int width = 6;

/// The parts of one model, each made alike on every rank.
std::vector<nn::Linear> model(int parts) {
  manual_seed(11);
  std::vector<nn::Linear> out;
  for (int i = 0; i < parts; ++i) out.emplace_back(width, width);
  return out;
}
Tensor input_of_micro_batch(int m) { return input_of(m, {3, width}); }
Tensor loss_of(int m, const Tensor& y) { return mse_loss(y, input_of(200 + m, {3, width})); }

/// Gradients of all parts and the mean loss, by accumulation on one rank.
double accumulate(const std::vector<nn::Linear>& parts, int micro_batches) {
  double losses = 0;
  for (int m = 0; m < micro_batches; ++m) {
    Tensor x = input_of_micro_batch(m);
    for (const nn::Linear& part : parts) x = tanh(part(x));
    const Tensor loss = loss_of(m, x);
    losses += loss.item<double>();
    (loss / micro_batches).backward();
  }
  return losses / micro_batches;
}

void expect_same_gradients(const Group& group, PipelineSchedule schedule, int micro_batches, int chunks) {
  const std::vector<nn::Linear> whole = model(group.size() * chunks), mine = model(group.size() * chunks);
  const double expected = accumulate(whole, micro_batches);
  std::vector<PipelineChunk> parts;
  for (int c = 0; c < chunks; ++c) {
    const nn::Linear& part = mine[static_cast<size_t>(c * group.size() + group.rank())];
    parts.push_back({[&part](std::span<const Tensor> x) { return Tensors{tanh(part(x[0]))}; }});
  }
  const Pipeline pipeline(parts, {.schedule = schedule, .micro_batches = micro_batches, .group = group});
  const PipelineStep step{.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                          .loss = [](int m, std::span<const Tensor> y) { return loss_of(m, y[0]); }};
  for (const int repetition : {0, 1}) {
    EXPECT_EQ(pipeline.run(step), expected);
    for (int c = 0; c < chunks; ++c) {
      const auto i = static_cast<size_t>(c * group.size() + group.rank());
      EXPECT_TRUE(same_bits(mine[i].weight.grad(), whole[i].weight.grad())) << name(schedule) << repetition;
      EXPECT_TRUE(same_bits(mine[i].bias.grad(), whole[i].bias.grad())) << name(schedule) << repetition;
      for (Tensor p : mine[i].parameters()) p.set_grad({});
    }
  }
}

TEST(Pipeline, GradientsEqualAccumulationOnOneRankBitForBit) {
  on_all_ranks([](const Group& group) {
    for (const int micro_batches : {1, 2, 5, 8}) {
      for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
        expect_same_gradients(group, schedule, micro_batches, 1);
      }
    }
  });
}
TEST(Pipeline, MicroBatchesCountByTheirWeights) {
  on_all_ranks([](const Group& group) {
    const std::vector<nn::Linear> whole = model(group.size()), mine = model(group.size());
    const std::vector<double> weights = {1, 0, 5, 2};
    double expected = 0;
    for (int m = 0; m < 4; ++m) {
      const double weight = weights[static_cast<size_t>(m)];
      if (weight == 0) continue;
      Tensor y = input_of_micro_batch(m);
      for (const nn::Linear& layer : whole) y = tanh(layer(y));
      const Tensor loss = loss_of(m, y) * (weight / 8);
      expected += loss.item<double>();
      loss.backward();
    }
    const nn::Linear& part = mine[static_cast<size_t>(group.rank())];
    const Pipeline pipeline({{[&](std::span<const Tensor> x) { return Tensors{tanh(part(x[0]))}; }}},
                            {.micro_batches = 4, .group = group});
    const auto step = [&](double first) {
      return PipelineStep{
          .input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
          .loss =
              [](int m, std::span<const Tensor> y) {
                EXPECT_NE(m, 1) << "it has no sample that counts";
                return loss_of(m, y[0]);
              },
          .weight = [&weights, first](int m) { return m == 0 ? first : weights[static_cast<size_t>(m)]; }};
    };
    EXPECT_NEAR(pipeline.run(step(1)), expected, 1e-6);
    EXPECT_TRUE(allclose(part.weight.grad(), whole[static_cast<size_t>(group.rank())].weight.grad(), 1e-4, 1e-7));
  });
}
TEST(Pipeline, ChunksThatAreInterleavedGiveTheSame) {
  on_all_ranks([](const Group& group) {
    for (const int chunks : {1, 2, 3}) {
      expect_same_gradients(group, interleaved, group.size(), chunks);
      expect_same_gradients(group, interleaved, 2 * group.size(), chunks);
    }
  });
}

// Two activations, one that is undefined now and then, indices, and a constant; shapes differ between micro-batches.
TEST(Pipeline, TensorsOfAnySortPassBetweenStages) {
  on_all_ranks([](const Group& group) {
    for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
      const auto input = [](int m) {
        const Tensor x = input_of(m, {2 + m, width});
        return Tensors{x, m % 2 == 0 ? Tensor() : x * 2, arange(2 + m), x[0] > 0, zeros({0, 3})};
      };
      const auto stage = [](const nn::Linear& part, std::span<const Tensor> x) {
        EXPECT_EQ(x.size(), 5u);
        EXPECT_EQ(x[2].dtype(), i64);
        EXPECT_EQ(x[3].dtype(), boolean);
        EXPECT_FALSE(x[3].requires_grad());
        EXPECT_EQ(x[4].shape(), (Dims{0, 3}));
        const Tensor y = tanh(part(x[0])) * x[3].to(f32) + x[2].unsqueeze(1).to(f32);
        return Tensors{y, x[1].defined() ? x[1] * y : Tensor(), x[2], x[3], x[4]};
      };
      const auto loss = [](std::span<const Tensor> y) {
        return mean(square(y[0])) + (y[1].defined() ? mean(y[1]) : tensor(0.f));
      };
      const std::vector<nn::Linear> whole = model(group.size()), mine = model(group.size());
      for (int m = 0; m < 4; ++m) {
        Tensors x = input(m);
        for (const nn::Linear& part : whole) x = stage(part, x);
        (loss(x) / 4).backward();
      }
      const auto at = static_cast<size_t>(group.rank());
      const Pipeline pipeline({{[&](std::span<const Tensor> x) { return stage(mine[at], x); }}},
                              {.schedule = schedule, .micro_batches = 4, .group = group});
      pipeline.run({.input = input, .loss = [&](int, std::span<const Tensor> y) { return loss(y); }});
      EXPECT_TRUE(same_bits(mine[at].weight.grad(), whole[at].weight.grad())) << name(schedule);
    }
  });
}
TEST(Pipeline, StagesWithoutGradientsPassNone) {
  on_all_ranks([](const Group& group) {
    for (const PipelineSchedule schedule : {one_f_one_b, zero_bubble}) {
      const std::vector<nn::Linear> parts = model(group.size());
      nn::Linear part = parts[static_cast<size_t>(group.rank())];
      const bool is_frozen = group.rank() == 0 && group.size() > 1;
      part.requires_grad_(!is_frozen);
      const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                                EXPECT_EQ(x[0].requires_grad(), group.rank() > 1);
                                return Tensors{part(x[0])};
                              }}},
                              {.schedule = schedule, .micro_batches = 3, .group = group});
      pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                    .loss = [](int m, std::span<const Tensor> y) { return loss_of(m, y[0]); }});
      EXPECT_EQ(part.weight.grad().defined(), !is_frozen);
    }
  });
}

TEST(Pipeline, KeepsAtMostThePlannedMicroBatches) {
  LocalWorld(4).run([](const Group& group) {
    const std::vector<nn::Linear> parts = model(4);
    const nn::Linear& part = parts[static_cast<size_t>(group.rank())];
    int kept = 0, most = 0;
    const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                              most = std::max(most, ++kept);
                              return Tensors{part(x[0])};
                            }}},
                            {.micro_batches = 8, .group = group});
    const HookHandle hook = part.weight.register_post_accumulate_grad_hook([&](const Tensor&) { --kept; });
    pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                  .loss = [](int m, std::span<const Tensor> y) { return loss_of(m, y[0]); }});
    EXPECT_EQ(most, 4 - group.rank());
  });
}
TEST(Pipeline, HooksOfGradientsSeeThoseOfWeightsAfterTheyAreComputedApart) {
  LocalWorld(2).run([](const Group& group) {
    const std::vector<nn::Linear> parts = model(2);
    const nn::Linear& part = parts[static_cast<size_t>(group.rank())];
    int forwards = 0;
    std::vector<int> calls;
    const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                              ++forwards;
                              return Tensors{part(x[0])};
                            }}},
                            {.schedule = zero_bubble, .micro_batches = 3, .group = group});
    const HookHandle hook =
        part.weight.register_post_accumulate_grad_hook([&](const Tensor&) { calls.push_back(forwards); });
    pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                  .loss = [](int m, std::span<const Tensor> y) { return loss_of(m, y[0]); }});
    // F0 F1 B0 W0 F2 B1 W1 B2 W2, and F0 B0 F1 B1 W0 F2 B2 W1 W2
    EXPECT_EQ(calls, (std::vector<int>{2, 3, 3}));
  });
}

TEST(Pipeline, StagesMayBeOnADevice) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  LocalWorld(2).run([](const Group& group) {
    const auto gradient = [&](const Device& device, PipelineSchedule schedule) {
      nn::Linear part = model(2)[static_cast<size_t>(group.rank())];
      part.to(device);
      const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                                EXPECT_EQ(x[0].device(), device);
                                return Tensors{tanh(part(x[0]))};
                              }}},
                              {.schedule = schedule, .micro_batches = 3, .device = device, .group = group});
      pipeline.run({.input = [&](int m) { return Tensors{input_of_micro_batch(m).to(device)}; },
                    .loss =
                        [&](int m, std::span<const Tensor> y) {
                          return mse_loss(y[0], input_of(200 + m, {3, width}).to(device));
                        }});
      return part.weight.grad().to(Device());
    };
    for (const PipelineSchedule schedule : {one_f_one_b, zero_bubble}) {
      EXPECT_TRUE(allclose(gradient(Device("hpu"), schedule), gradient(Device(), schedule), 1e-5, 1e-6));
    }
  });
}

// Stages with sharded layers: both send to each other, in either half of a backward.
TEST(Pipeline, StagesMayBeTensorParallel) {
  LocalWorld(4).run([](const Group& group) {
    const Mesh mesh({2, 2}, {"pp", "tp"}, group);
    const Group &pp = mesh.group("pp"), &tp = mesh.group("tp");
    struct Block {
      ColumnParallelLinear up;
      RowParallelLinear down;
    };
    for (const bool in_parts : {false, true}) {
      for (const PipelineSchedule schedule : {one_f_one_b, zero_bubble}) {
        manual_seed(5);
        std::vector<std::pair<nn::Linear, nn::Linear>> whole;
        for (int i = 0; i < 2; ++i) whole.push_back({nn::Linear(width, 8), nn::Linear(8, width)});
        for (int m = 0; m < 4; ++m) {
          Tensor x = input_of(m, {4, width});
          for (const auto& [up, down] : whole) x = down(tanh(up(x)));
          (mse_loss(x, input_of(200 + m, {4, width})) / 4).backward();
        }
        manual_seed(5);
        std::vector<Block> blocks;
        for (int i = 0; i < 2; ++i) {
          blocks.push_back({ColumnParallelLinear(width, 8, {.sequence_parallel = in_parts, .group = tp}),
                            RowParallelLinear(8, width, {.sequence_parallel = in_parts, .group = tp})});
        }
        const auto at = static_cast<size_t>(pp.rank());
        const Block& block = blocks[at];
        const Pipeline pipeline(
            {{[&](std::span<const Tensor> x) { return Tensors{block.down(tanh(block.up(x[0])))}; }}},
            {.schedule = schedule, .micro_batches = 4, .group = pp});
        pipeline.run({.input =
                          [&](int m) {
                            const Tensor x = input_of(m, {4, width});
                            return Tensors{in_parts ? scatter_to_tensor_parallel(x, tp, 0) : x};
                          },
                      .loss =
                          [&](int m, std::span<const Tensor> y) {
                            const Tensor all = in_parts ? gather_from_tensor_parallel(y[0], tp, 0) : y[0];
                            return mse_loss(all, input_of(200 + m, {4, width}));
                          }});
        const auto same = [](const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-5, 1e-6); };
        EXPECT_TRUE(same(all_gather(block.up.weight.grad(), tp), whole[at].first.weight.grad()));
        EXPECT_TRUE(same(all_gather(block.down.weight.grad(), tp, 1), whole[at].second.weight.grad()));
        EXPECT_TRUE(same(block.down.bias.grad(), whole[at].second.bias.grad()));
      }
    }
  });
}

// ---- weights on several stages ----
TEST(Pipeline, SharedWeightsBeginAsTheirOwnersAndGetTheSumOfTheirGradients) {
  on_all_ranks([](const Group& group) {
    const int last = group.size() - 1;
    const bool has_weight = group.rank() == 0 || group.rank() == last;
    const std::vector<nn::Linear> whole = model(group.size()), mine = model(group.size());
    const Tensor table = input_of(5, {10, width}).requires_grad_();
    const Tensor own = group.rank() == 0 ? table.detach().clone() : zeros({10, width});
    if (has_weight) own.requires_grad_();
    const auto ids = [](int m) { return tensor({m, m + 1, 2 * m}); };
    const auto loss = [&](int m, const Tensor& y, const Tensor& head) {
      return cross_entropy(matmul(y, head.t()), ids(m));
    };
    const auto at = static_cast<size_t>(group.rank());
    const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                              return Tensors{tanh(mine[at](group.rank() == 0 ? embedding(own, x[0]) : x[0]))};
                            }}},
                            {.micro_batches = 4,
                             .shared = {{.weight = has_weight ? own : Tensor(),
                                         .ranks = last == 0 ? std::vector<int>{0} : std::vector<int>{0, last}}},
                             .group = group});
    EXPECT_TRUE(!has_weight || same_bits(own.detach(), table.detach()));
    for (int repetition = 0; repetition < 2; ++repetition) {  // gradients of earlier steps are not summed again
      for (int m = 0; m < 4; ++m) {
        Tensor x = embedding(table, ids(m));
        for (const nn::Linear& part : whole) x = tanh(part(x));
        (loss(m, x, table) / 4).backward();
      }
      pipeline.run({.input = [&](int m) { return Tensors{ids(m)}; },
                    .loss = [&](int m, std::span<const Tensor> y) { return loss(m, y[0], own); }});
      EXPECT_TRUE(!has_weight || allclose(own.grad(), table.grad(), 1e-5, 1e-6));
      EXPECT_TRUE(allclose(mine[at].weight.grad(), whole[at].weight.grad(), 1e-5, 1e-6));
    }
    Tensors parameters = mine[at].parameters(), all{table};
    if (has_weight) parameters.push_back(own);
    for (const nn::Linear& part : whole) {
      for (const Tensor& p : part.parameters()) all.push_back(p);
    }
    const double expected = optim::total_grad_norm(all).item<double>();
    EXPECT_NEAR(pipeline.gradient_norm(parameters), expected, 1e-5 * expected);
  });
}

TEST(Pipeline, GradientNormsWhoseSquaresOverflow) {
  LocalWorld(2).run([&](const Group& group) {
    const Tensor p = zeros({2}, {.dtype = f64}).requires_grad_();
    p.set_grad(full({2}, group.rank() == 0 ? 3e300 : 4e300, {.dtype = f64}));
    const auto forward = [](std::span<const Tensor> x) { return Tensors{x[0]}; };
    const Pipeline pipeline({PipelineChunk{.forward = forward}}, {.group = group});
    EXPECT_NEAR(pipeline.gradient_norm(std::array{p}) / 1e300, 5 * std::sqrt(2.), 1e-12);
  });
}

// ---- errors ----
TEST(Pipeline, AnErrorOnAStageReachesEveryRank) {
  for (const int failing : {0, 1, 2}) {
    std::atomic<int> told = 0;
    EXPECT_THROW(LocalWorld(3, {.timeout_seconds = 30}).run([&](const Group& group) {
      const std::vector<nn::Linear> parts = model(3);
      int calls = 0;
      const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                                if (group.rank() == failing && ++calls == 3) throw ShapeError("third micro-batch");
                                return Tensors{parts[static_cast<size_t>(group.rank())](x[0])};
                              }}},
                              {.micro_batches = 6, .group = group});
      const auto step = [&] {
        pipeline.run({.input = [](int m) { return Tensors{input_of_micro_batch(m)}; },
                      .loss = [](int m, std::span<const Tensor> y) { return loss_of(m, y[0]); }});
      };
      // Caught here, so that only the pipeline itself can tell the others.
      if (group.rank() == failing) {
        EXPECT_THAT(message_of<ShapeError>(step), HasSubstr("third micro-batch"));
      } else {
        EXPECT_THAT(message_of<DistributedError>(step), HasSubstr("third micro-batch"));
      }
      ++told;
      barrier(group);
    }),
                 DistributedError);
    EXPECT_EQ(told, 3);
  }
}
TEST(Pipeline, WrongArgumentsAreRefused) {
  const Group alone = world();
  const PipelineChunk chunk{[](std::span<const Tensor> x) { return Tensors(x.begin(), x.end()); }};
  EXPECT_THROW(Pipeline({chunk}, {.micro_batches = 0, .group = alone}), ValueError);
  EXPECT_THROW(Pipeline({}, {.group = alone}), ValueError);
  EXPECT_THROW(Pipeline({chunk, chunk}, {.group = alone}), ValueError);
  EXPECT_THROW(Pipeline({PipelineChunk{}}, {.group = alone}), ValueError);
  EXPECT_THROW(Pipeline({chunk}, {.shared = {{.ranks = {0}}}, .group = alone}), ValueError);
  EXPECT_THROW(Pipeline({chunk}, {.shared = {{.ranks = {}}}, .group = alone}), ValueError);
}
TEST(Pipeline, StagesThatDifferAreFound) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group& group) {
    const PipelineChunk chunk{[](std::span<const Tensor> x) { return Tensors(x.begin(), x.end()); }};
    EXPECT_THAT(message_of<ValueError>([&] { Pipeline({chunk}, {.micro_batches = 2 + group.rank(), .group = group}); }),
                HasSubstr("stages 0 and 1 differ in their number of micro-batches"));
    const std::vector<PipelineChunk> chunks(static_cast<size_t>(group.rank() + 1), chunk);
    EXPECT_THAT(message_of<ValueError>(
                    [&] { Pipeline(chunks, {.schedule = interleaved, .micro_batches = 2, .group = group}); }),
                HasSubstr("number of chunks"));
  });
}
TEST(Pipeline, AStepNeedsItsInputAndALossOfOneElement) {
  const auto run = [](const PipelineStep& step) {
    LocalWorld(1).run([&](const Group& group) {
      Pipeline({{[](std::span<const Tensor> x) { return Tensors(x.begin(), x.end()); }}}, {.group = group}).run(step);
    });
  };
  const auto input = [](int) { return Tensors{zeros({2})}; };
  const auto loss = [](int, std::span<const Tensor> y) { return y[0]; };
  EXPECT_THROW(run({.loss = loss}), ValueError);
  EXPECT_THROW(run({.input = input}), ValueError);
  EXPECT_THROW(run({.input = input, .loss = loss}), ShapeError);
  EXPECT_NO_THROW(run({.input = input, .loss = [](int, std::span<const Tensor> y) { return y[0].sum(); }}));
}

}  // namespace
}  // namespace weft::distributed
