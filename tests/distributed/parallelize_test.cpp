// Models for one process, trained by plans, beside one process.
#include <gtest/gtest.h>

#include <weft/distributed/parallelize.hpp>
#include <weft/distributed/sharded_state.hpp>
#include <weft/nn/batch_norm.hpp>
#include <weft/nn/moe.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/ops/loss.hpp>
#include <weft/optim/clip_grad.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

constexpr int64_t width = 8, rows = 8;

/// A layer with a possibly shared weight.
struct Mix : nn::Layer<Mix> {
  nn::Linear up, down;
  Mix() : up(width, 4 * width), down(4 * width, width) { WEFT_REGISTER(up, down); }
  Tensor forward(const Tensor& x) const { return x + down(tanh(up(x))); }
};

/// The last layer has the first one's weights.
nn::Sequential tied_model() {
  manual_seed(2);
  const Mix ends;
  return nn::Sequential(ends, Mix(), nn::LayerNorm(width), Mix(), nn::Linear(width, width), ends);
}

Tensor squared(const Tensor& y, const Tensor& target) { return mse_loss(y, target); }

struct Trained {
  std::vector<double> losses, norms;
};

optim::AdamW adam(const std::vector<Tensor>& parameters) { return optim::AdamW(parameters, {.lr = 0.02}); }

Trained alone(const nn::Sequential& model, int steps) {
  Trained run;
  optim::AdamW optimizer = adam(model.parameters());
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = squared(model(input_of(step, {rows, width})), input_of(100 + step, {rows, width}));
    loss.backward();
    run.losses.push_back(loss.item<double>());
    run.norms.push_back(optim::clip_grad_norm_(model.parameters(), 0.3).item<double>());
    optimizer.step();
  }
  return run;
}

Trained by_plan(const nn::Sequential& model, const ParallelPlan& plan, int steps) {
  Trained run;
  const ParallelModel parallel = parallelize(model, plan);
  ParallelTraining training(parallel, adam(parallel.parameters()));
  const int replicas = parallel.data_parallel().size();
  const int64_t own = rows / replicas, first = own * parallel.data_parallel().rank();
  for (int step = 0; step < steps; ++step) {
    training.zero_grad();
    run.losses.push_back(training.backward(input_of(step, {rows, width}).narrow(0, first, own),
                                           input_of(100 + step, {rows, width}).narrow(0, first, own), squared));
    run.norms.push_back(training.clip_grad_norm(0.3));
    training.step();
  }
  return run;
}

struct Case {
  const char* name;
  Dims shape;
  std::vector<std::string> names = {"dp", "pp", "tp"};
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1, micro_batches = 2, shard_stage = 0;
  std::vector<std::string> cuts = {};
};

class Plans : public ::testing::TestWithParam<Case> {};

TEST_P(Plans, LossesAndNormsEqualOneProcess) {
  constexpr int steps = 6;
  const Case& c = GetParam();
  const Trained expected = alone(tied_model(), steps);
  LocalWorld(static_cast<int>(c.shape.product()), {.timeout_seconds = 60}).run([&](const Group& group) {
    const ParallelPlan plan{
        .mesh = Mesh(c.shape, c.names, group),
        .splits = {{"up$", ColumnParallelOptions{}}, {"down$", RowParallelOptions{}}},
        .cuts = c.cuts,
        .schedule = c.schedule,
        .chunks = c.chunks,
        .micro_batches = c.micro_batches,
        .shard_stage = c.shard_stage,
    };
    const Trained run = by_plan(tied_model(), plan, steps);
    for (int i = 0; i < steps; ++i) {
      const auto k = static_cast<size_t>(i);
      EXPECT_NEAR(run.losses[k], expected.losses[k], 1e-5 * expected.losses[k]) << i;
      EXPECT_NEAR(run.norms[k], expected.norms[k], 1e-4 * expected.norms[k]) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Plans,
    ::testing::Values(Case{"One", Dims{1}, {"dp"}}, Case{"Replicas", Dims{4}, {"dp"}, {}, 1, 1},
                      Case{"ReplicasOfMicroBatches", Dims{2}, {"dp"}, {}, 1, 4},
                      Case{"Layers", Dims{4}, {"tp"}, {}, 1, 1},
                      Case{"LayersOuter", Dims{2, 2}, {"tp", "dp"}, {}, 1, 1, 1},
                      Case{"Stages", Dims{3}, {"pp"}, PipelineSchedule::one_f_one_b, 1, 4},
                      Case{"StagesCut", Dims{2}, {"pp"}, PipelineSchedule::f_then_b, 1, 4, 0, {"1"}},
                      Case{"Chunks", Dims{2}, {"pp"}, PipelineSchedule::interleaved, 3, 4},
                      Case{"ZeroBubble", Dims{2, 2}, {"pp", "tp"}, PipelineSchedule::zero_bubble, 1, 4},
                      Case{"All", Dims{2, 2, 2}, {"dp", "pp", "tp"}, PipelineSchedule::one_f_one_b, 1, 2, 1},
                      Case{"AllInParts", Dims{2, 2, 2}, {"dp", "pp", "tp"}, PipelineSchedule::one_f_one_b, 1, 2, 3},
                      Case{"LayersInParts", Dims{2, 2}, {"dp", "tp"}, {}, 1, 2, 3}),
    [](const auto& info) { return std::string(info.param.name); });

/// A net with all kinds of members: blocks, rows, tied and frozen weights, buffers.
nn::Sequential saved_model(uint64_t seed) {
  manual_seed(seed);
  const Mix ends;
  return nn::Sequential(ends, nn::TransformerBlock(width, 4), nn::BatchNorm1d(6), nn::TransformerBlock(width, 4), ends);
}

struct Place {
  Dims shape;
  int shard_stage;
};

Trained some_steps(const nn::Sequential& model, const Group& group, const Place& place, int from, int to,
                   const std::filesystem::path& load, const std::filesystem::path& save) {
  const ParallelPlan plan{.mesh = Mesh(place.shape, {"dp", "pp", "tp"}, group),
                          .splits = {{"qkv$", ColumnParallelOptions{.blocks = 3}},
                                     {"up$", ColumnParallelOptions{}},
                                     {"proj$|down$", RowParallelOptions{}}},
                          .shard_stage = place.shard_stage,
                          .bucket_bytes = 300};
  const ParallelModel parallel = parallelize(model, plan);
  ParallelTraining training(parallel, adam(parallel.parameters()));
  if (!load.empty()) training.load_sharded_state(load);
  Trained run;
  for (int step = from; step < to; ++step) {
    training.zero_grad();
    // All replicas have the same rows, so that batch norm's statistics do not depend on their number.
    run.losses.push_back(
        training.backward(input_of(step, {2, 6, width}), input_of(100 + step, {2, 6, width}), squared));
    training.step();
  }
  if (!save.empty()) save_state_dict(training.sharded_state(), save, group);
  return run;
}

TEST(Parallelize, ARunResumesByAnotherPlan) {
  const std::vector<Place> places{{Dims{1, 1, 1}, 0}, {Dims{1, 1, 4}, 0}, {Dims{2, 1, 2}, 1}, {Dims{2, 2, 1}, 3},
                                  {Dims{2, 1, 2}, 3}, {Dims{1, 2, 2}, 0}, {Dims{4, 1, 1}, 2}};
  const auto on = [](const Place& place, const auto& body) {
    LocalWorld(static_cast<int>(place.shape.product()), {.timeout_seconds = 60}).run(body);
  };
  std::vector<double> expected;
  on(places[0],
     [&](const Group& group) { expected = some_steps(saved_model(4), group, places[0], 0, 6, {}, {}).losses; });
  for (size_t i = 0; i < places.size(); ++i) {
    const TemporaryFolder folder;
    const Place &first = places[i], &second = places[(i + 3) % places.size()];
    on(first, [&](const Group& group) { some_steps(saved_model(4), group, first, 0, 3, {}, folder.path()); });
    on(second, [&](const Group& group) {
      const Trained run = some_steps(saved_model(5), group, second, 3, 6, folder.path(), {});
      for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(run.losses[k], expected[k + 3], 1e-6) << i << " step " << k;
    });
    // The state is one of the whole model, with the names that one process has.
    const io::TensorStore store = io::open_state_dict(folder.path());
    for (const auto& [name, value] : saved_model(4).state_dict()) {
      EXPECT_EQ(store.entries().at(name).shape, value.shape()) << name;
    }
  }
}

TEST(Parallelize, AWholeRunResumesByAnotherPlan) {
  const std::vector<Place> places{{Dims{1, 1, 1}, 0}, {Dims{2, 1, 2}, 3}, {Dims{1, 2, 2}, 0}, {Dims{4, 1, 1}, 3}};
  const auto steps = [](const Group& group, const Place& place, int from, int to, const std::filesystem::path& folder) {
    const ParallelModel parallel = parallelize(saved_model(static_cast<uint64_t>(4 + from)),
                                               {.mesh = Mesh(place.shape, {"dp", "pp", "tp"}, group),
                                                .splits = {{"qkv$", ColumnParallelOptions{.blocks = 3}},
                                                           {"up$", ColumnParallelOptions{}},
                                                           {"down$", RowParallelOptions{}},
                                                           {"proj$", RowParallelOptions{}}},
                                                .shard_stage = place.shard_stage});
    ParallelTraining training(parallel, adam(parallel.parameters()));
    if (from > 0) {
      EXPECT_EQ(load_training_state(folder, training.run(), group).step, from);
    }
    std::vector<double> losses;
    for (int step = from; step < to; ++step) {
      training.zero_grad();
      losses.push_back(training.backward(input_of(step, {2, 6, width}), input_of(100 + step, {2, 6, width}), squared));
      training.step();
    }
    if (from == 0) save_training_state(folder, training.run(), {.step = to}, group);
    return losses;
  };
  const auto on = [](const Place& place, const auto& body) {
    LocalWorld(static_cast<int>(place.shape.product()), {.timeout_seconds = 60}).run(body);
  };
  std::vector<double> expected;
  on(places[0], [&](const Group& group) {
    const TemporaryFolder unused;
    expected = steps(group, places[0], 0, 6, unused.path());
  });
  for (size_t i = 0; i < places.size(); ++i) {
    const TemporaryFolder folder;
    const Place& second = places[(i + 1) % places.size()];
    on(places[i], [&](const Group& group) { steps(group, places[i], 0, 3, folder.path()); });
    on(second, [&](const Group& group) {
      const std::vector<double> losses = steps(group, second, 3, 6, folder.path());
      for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(losses[k], expected[k + 3], 1e-6) << i << " step " << k;
    });
  }
}

TEST(Parallelize, EveryRankHasTheFirstOnesModelAndItsPartAlone) {
  LocalWorld(4).run([](const Group& group) {
    manual_seed(static_cast<uint64_t>(group.rank()));
    const nn::Sequential model(Mix(), Mix(), nn::Linear(width, 1));
    const Tensor expected = broadcast(model.parameters()[0].detach().clone(), 0, group);
    const ParallelModel parallel = parallelize(
        model,
        {.mesh = Mesh({2, 2}, {"pp", "tp"}, group), .splits = {{"up$", ColumnParallelOptions{}}}, .cuts = {"1"}});
    const std::vector<nn::NamedTensor> own = parallel.named_parameters();
    EXPECT_EQ(own.size(), parallel.pipeline().rank() == 0 ? 4u : 6u);
    if (parallel.pipeline().rank() == 0) {
      EXPECT_EQ(own[0].name, "0.up.weight");
      const int64_t part = 2 * width;
      EXPECT_TRUE(equal(own[0].tensor.detach(), expected.narrow(0, part * parallel.tensor_parallel().rank(), part)));
      EXPECT_TRUE(isnan(model.parameters().back().detach()).all().item<bool>());
    }
    EXPECT_THROW(parallel(ones({1, width})), ValueError);
  });
}

/// Drops, where sequences are in parts and where they are whole.
struct Dropping : nn::Layer<Dropping> {
  nn::Linear up{width, width}, down{width, width};
  nn::Dropout dropout{0.5};
  Dropping() { WEFT_REGISTER(up, down, dropout); }
  Tensor forward(const Tensor& x) const { return dropout(down(up(x))); }
};

TEST(Parallelize, SequencePartsDropElementsOfTheirOwn) {
  LocalWorld(2).run([](const Group& group) {
    manual_seed(1);
    const auto model = parallelize(
        Dropping(),
        {.mesh = Mesh({2}, {"tp"}, group),
         .splits = {{"up$", ColumnParallelOptions{}}, {"down$", RowParallelOptions{}}, {"dropout$", OnSequenceParts{}}},
         .sequence_parallel = true});
    const Tensor y = model(ones({1, 16, width}));
    const Tensor all = all_gather((y.detach() != 0).unsqueeze(0), group);
    EXPECT_FALSE(equal(all[0], all[1]));
    const Tensor next = all_gather(randn({1}), group);
    EXPECT_TRUE(equal(next[0], next[1])) << "generators stand alike";
  });
}

nn::Sequential mixing_model(double balance_weight, double z_weight) {
  manual_seed(4);
  return nn::Sequential(nn::Linear(width, width),
                        nn::MoE(width, 2 * width, 4, {.balance_weight = balance_weight, .z_weight = z_weight}), Mix());
}

std::vector<double> mixing_losses(const Group& group, const Dims& shape, int micro_batches, int shard_stage = 0) {
  const std::vector<std::string> names{"dp", "pp", "ep"};
  const ParallelPlan plan{.mesh = Mesh(shape, {names.end() - shape.size(), names.end()}, group),
                          .splits = {{"1$", ExpertParallelOptions{}}},
                          .micro_batches = micro_batches,
                          .shard_stage = shard_stage};
  return by_plan(mixing_model(0.5, 0.1), plan, 5).losses;
}

TEST(Parallelize, MixturesCarryTheirLossesOnEveryMesh) {
  std::vector<double> alone, in_two;
  const nn::Sequential model = mixing_model(0, 0);
  optim::AdamW optimizer = adam(model.parameters());
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const auto [y, balance, z, counts] =
        model[1].as<nn::MoE>().forward_with_losses(model[0](input_of(step, {rows, width})));
    const Tensor loss = squared(model[2](y), input_of(100 + step, {rows, width}));
    (loss + 0.5 * balance + 0.1 * z).backward();
    alone.push_back(loss.item<double>());
    optim::clip_grad_norm_(model.parameters(), 0.3);
    optimizer.step();
  }
  const auto expect = [](const Dims& shape, const std::vector<double>& expected, int micro_batches, int shard_stage) {
    LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run([&](const Group& group) {
      const std::vector<double> losses = mixing_losses(group, shape, micro_batches, shard_stage);
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
    });
  };
  expect({1, 1}, alone, 1, 0);
  expect({1, 2}, alone, 1, 0);
  expect({1, 4}, alone, 1, 1);
  LocalWorld(1).run([&](const Group& group) { in_two = mixing_losses(group, {1, 1}, 2); });
  EXPECT_GT(std::abs(in_two.back() - alone.back()), 1e-4 * alone.back()) << "balances of parts are others";
  expect({2, 1}, in_two, 2, 0);
  expect({3, 1}, in_two, 2, 1);
  expect({2, 2}, alone, 1, 0);
  for (const int stage : {0, 1, 2}) expect({2, 1, 2}, alone, 1, stage);
  expect({2, 1, 1}, alone, 1, 0);
}

// Of the rows of one batch, replicas and micro-batches have unequally many that count.
TEST(Parallelize, ReplicasAndMicroBatchesCountByTheirSamples) {
  const auto model_of = [] {
    manual_seed(3);
    return nn::Sequential(Mix(), nn::Linear(width, 5));
  };
  const Tensor x = input_of(1, {8, width}), all_targets = tensor({1, 2, 3, -100, -100, 4, -100, -100});
  const ParallelLoss loss = [](const Tensor& y, const Tensor& target) { return cross_entropy(y, target); };
  const ParallelWeight tokens = [](const Tensor& target) { return sum(target != -100).item<double>(); };
  for (const bool weighted : {false, true}) {
    const Tensor targets = weighted ? all_targets : abs(all_targets).remainder(5);
    const nn::Sequential whole = model_of();
    const Tensor right = loss(whole(x), targets);
    right.backward();
    const double norm = optim::total_grad_norm(whole.parameters()).item<double>();
    struct Cut {
      Dims shape;
      int micro_batches, shard_stage;
    };
    for (const Cut& cut : {Cut{{2, 1}, 1, 0}, Cut{{2, 1}, 2, 0}, Cut{{1, 1}, 4, 0}, Cut{{2, 2}, 2, 0},
                           Cut{{1, 2}, 4, 0}, Cut{{2, 1}, 2, 2}}) {
      LocalWorld(static_cast<int>(cut.shape.product()), {.timeout_seconds = 30}).run([&](const Group& group) {
        const ParallelModel model = parallelize(model_of(), {.mesh = Mesh(cut.shape, {"dp", "pp"}, group),
                                                             .micro_batches = cut.micro_batches,
                                                             .shard_stage = cut.shard_stage});
        ParallelTraining training(model, adam(model.parameters()));
        // Replicas of 2 and 6 rows where these are the weights.
        const bool splits = cut.shape[0] == 2, is_first = model.data_parallel().rank() == 0;
        const int64_t first = splits && !is_first ? 2 : 0, count = !splits ? 8 : is_first ? 2 : 6;
        const Tensor own = x.narrow(0, first, count), target = targets.narrow(0, first, count);
        const double value =
            weighted ? training.backward(own, target, loss, tokens) : training.backward(own, target, loss);
        EXPECT_NEAR(value, right.item<double>(), 1e-5) << cut.micro_batches << weighted;
        EXPECT_NEAR(training.clip_grad_norm(100), norm, 1e-4) << cut.micro_batches << weighted;
      });
    }
  }
}

TEST(Parallelize, AStepThatIsLeftOutChangesNothing) {
  for (const int stage : {0, 1, 2, 3}) {
    LocalWorld(2, {.timeout_seconds = 30}).run([&](const Group& group) {
      manual_seed(1);
      const ParallelModel model =
          parallelize(nn::Sequential(Mix(), Mix()), {.mesh = Mesh({2}, {"dp"}, group), .shard_stage = stage});
      ParallelTraining training(model, adam(model.parameters()));
      const Tensor x = input_of(group.rank(), {2, width});
      const double first = training.backward(x, x * 2, squared);
      EXPECT_THROW(training.backward(x, x * 2, squared), ValueError) << "the first one's gradients are there";
      training.zero_grad();
      EXPECT_EQ(training.backward(x, x * 2, squared), first);
      EXPECT_GT(training.clip_grad_norm(1), 0);
      training.zero_grad();
      EXPECT_EQ(training.backward(x, x * 2, squared), first);
      training.step();
      EXPECT_NE(training.backward(x, x * 2, squared), first);
    });
  }
}

TEST(Parallelize, RefusesPlansThatDoNotFit) {
  LocalWorld(2).run([](const Group& group) {
    const Mesh stages({2}, {"pp"}, group), tp({2}, {"tp"}, group);
    const auto refuses = [](const auto& model, const ParallelPlan& plan) {
      EXPECT_THROW(parallelize(model, plan), ValueError);
    };
    refuses(Mix(), {.mesh = Mesh({2}, {"xp"}, group)});
    refuses(Mix(), {.mesh = Mesh({2}, {}, group)});
    refuses(Mix(), {.mesh = stages});
    refuses(nn::Sequential(Mix()), {.mesh = stages});
    refuses(nn::Sequential(Mix(), Mix()), {.mesh = stages, .cuts = {"7"}});
    refuses(nn::Sequential(Mix(), Mix()), {.mesh = stages, .cuts = {"0"}});
    refuses(Mix(), {.mesh = tp, .splits = {{"nothing", RowParallelOptions{}}}});
    refuses(Mix(), {.mesh = tp, .splits = {{"(", RowParallelOptions{}}}});
    refuses(Mix(), {.mesh = tp, .splits = {{"up$", RowParallelOptions{}}, {"up$", ColumnParallelOptions{}}}});
    refuses(Mix(), {.mesh = tp, .micro_batches = 0});
    refuses(Mix(), {.mesh = tp, .shard_stage = 4});
    const ParallelModel model = parallelize(Mix(), {.mesh = tp, .micro_batches = 3});
    ParallelTraining training(model, adam(model.parameters()));
    EXPECT_THROW(training.backward(ones({4, width}), ones({4, width}), squared), ValueError);
    EXPECT_THROW(training.clip_grad_norm(-1), ValueError);
    const ParallelModel sharded = parallelize(Mix(), {.mesh = Mesh({2}, {"dp"}, group), .shard_stage = 1});
    EXPECT_THROW(ParallelTraining(sharded, optim::LBFGS(sharded.parameters(), {})), ValueError);
  });
}

}  // namespace
}  // namespace weft::distributed
