// Runs of several ranks: saved by some, resumed by others.
#include <cstdlib>
#include <filesystem>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ranks.hpp"

#include <weft/distributed/training_state.hpp>
#include <weft/io/safetensors.hpp>

#include <collected_warnings.hpp>
#include <message_of.hpp>

#include "killed_process.hpp"
#include "ranks_folder.hpp"

namespace weft::distributed {
namespace {

namespace fs = std::filesystem;
const LocalWorldOptions patient{.timeout_seconds = 60};

struct Net : nn::Layer<Net> {
  ColumnParallelLinear up;
  RowParallelLinear down;
  nn::Linear out{6, 3}, frozen{3, 3};
  explicit Net(const Group& tp) : up(4, 24, {.group = tp}), down(24, 6, {.group = tp}) {
    WEFT_REGISTER(up, down, out, frozen);
    frozen.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) const { return frozen(out(tanh(down(gelu(up(x)))))); }
  io::ShardedState parts() const { return sharded_state(*this); }
  std::vector<nn::NamedTensor> trained() const {
    std::vector<nn::NamedTensor> named;
    for (const nn::NamedTensor& p : named_parameters()) {
      if (p.tensor.requires_grad()) named.push_back(p);
    }
    return named;
  }
};

std::vector<Tensor> tensors_of(const std::vector<nn::NamedTensor>& named) {
  std::vector<Tensor> out;
  for (const nn::NamedTensor& p : named) out.push_back(p.tensor);
  return out;
}

struct Plan {
  int dp = 1, tp = 1;
  int zero = 0;  // 0: every rank has the whole state
  DType dtype = f32;
  int ranks() const { return dp * tp; }
  std::string text() const { return fmt::format("dp{}-tp{}-zero{}", dp, tp, zero); }
};

/// One rank's run by a plan, with masks of its own where `dropout`.
struct Trainee {
  Plan plan;
  Mesh mesh;
  RngTracker tracker;
  Net net;
  std::optional<optim::AdamW> whole;
  std::optional<DataParallel> replicas;
  std::optional<ShardedOptimizer> sharded;

  Trainee(const Plan& p, const Group& group, uint64_t seed)
      : plan(p),
        mesh({p.dp, p.tp}, {"dp", "tp"}, group),
        tracker(model_parallel_seed(seed, mesh.group("tp"))),
        net(mesh.group("tp")) {
    net.to(plan.dtype);
    optim::AdamW optimizer(std::vector{net.trained()[0].tensor}, {.lr = 0.01});
    const std::vector<Tensor> all = tensors_of(net.trained());
    optimizer.add_group({all.begin() + 1, all.end()}, {.lr = 0.02, .weight_decay = 0});
    if (plan.zero > 0) {
      sharded.emplace(std::move(optimizer), ShardedOptimizerOptions{.stage = plan.zero, .group = mesh.group("dp")});
    } else {
      whole.emplace(std::move(optimizer));
      replicas.emplace(all, DataParallelOptions{.group = mesh.group("dp")});
    }
  }
  ShardedRun parts() {
    return {.model = net.parts(),
            .parameters = net.trained(),
            .optimizer = whole ? &*whole : nullptr,
            .sharded_optimizer = sharded ? &*sharded : nullptr,
            .generators = tracker.generators()};
  }
  optim::Optimizer& optimizer() { return whole ? *whole : sharded->optimizer(); }

  /// The losses of the whole batch, which has 24 rows whatever the plan.
  std::vector<double> train(int from, int to, bool drops = false) {
    const Group& dp = mesh.group("dp");
    const int64_t rows = 24 / dp.size();
    std::vector<double> losses;
    for (int step = from; step < to; ++step) {
      const double factor = 0.5 * (1 + std::cos(3.14159 * step / 10));
      optimizer().set_lr(0.01 * factor, 0), optimizer().set_lr(0.02 * factor, 1);
      if (sharded) sharded->zero_grad();
      else whole->zero_grad();
      Tensor x = input_of(step, {24, 4}).narrow(0, rows * dp.rank(), rows).to(plan.dtype);
      const Tensor y = input_of(100 + step, {24, 3}).narrow(0, rows * dp.rank(), rows).to(plan.dtype);
      if (drops) x = x + 0.1 * randn_like(x);
      Tensor hidden = gelu(net.up(x));
      if (drops) {
        const auto own = tracker.use("local");
        hidden = dropout(hidden, 0.3);
      }
      const Tensor loss = mse_loss(net.frozen(net.out(tanh(net.down(hidden)))), y);
      loss.backward();
      if (sharded) {
        sharded->reduce_gradients();
        sharded->step();
      } else {
        replicas->finish();
        whole->step();
      }
      losses.push_back(all_reduce(loss.detach().to(f64), dp, ReduceOp::avg).item<double>());
    }
    return losses;
  }
};

void goes_on_bit_for_bit(const Plan& plan, const Group& group) {
  const RanksFolder folder(group);
  Trainee straight(plan, group, 5);
  straight.train(0, 10, true);

  Trainee first(plan, group, 5);
  first.train(0, 5, true);
  const io::Path saved = save_training_state(
      folder.path(), first.parts(),
      {.step = 5, .epoch = 1, .best_metric = 0.5, .documents = {{"sampler", "[3]"}}, .tensors = {{"t", arange(3)}}},
      group);
  EXPECT_EQ(saved.string(), (folder.path() / "step-00000005").string());

  Trainee second(plan, group, 77);
  second.train(0, 2, true);
  const io::RunState state = load_training_state(folder.path(), second.parts(), group);
  EXPECT_EQ(state.step, 5);
  EXPECT_EQ(state.epoch, 1);
  EXPECT_EQ(state.best_metric, 0.5);
  EXPECT_EQ(state.documents, (std::map<std::string, std::string>{{"sampler", "[3]"}}));
  EXPECT_TRUE(equal(state.tensors.at("t"), arange(3)));
  second.train(5, 10, true);
  for (const auto& [name, tensor] : straight.net.state_dict()) {
    EXPECT_TRUE(same_bits(second.net.state_dict().at(name), tensor)) << name << " of " << plan.text();
  }
  EXPECT_EQ(second.tracker.state(), straight.tracker.state());
  barrier(group);
}

TEST(DistributedRun, ResumesBitForBitOnAsManyRanks) {
  on_all_ranks([](const Group& group) {
    const int n = group.size();
    for (const int zero : {0, 1, 2}) {
      goes_on_bit_for_bit({.dp = n, .zero = zero}, group);
      if (zero > 0) goes_on_bit_for_bit({.dp = n, .zero = zero, .dtype = bf16}, group);
      goes_on_bit_for_bit({.tp = n, .zero = zero}, group);
      if (n % 2 == 0) goes_on_bit_for_bit({.dp = n / 2, .tp = 2, .zero = zero}, group);
    }
  });
}

TEST(DistributedRun, HasTheLossesOfTheOldRanksOnOthers) {
  const std::vector<Plan> plans = {
      {.dp = 2, .zero = 1}, {.dp = 4, .zero = 2}, {.tp = 2}, {}, {.dp = 2, .tp = 2, .zero = 1}, {.dp = 3}};
  std::vector<double> expected;
  LocalWorld(1, patient).run([&](const Group& group) { expected = Trainee({}, group, 5).train(0, 8); });
  for (const Plan& from : plans) {
    const TemporaryFolder folder;
    LocalWorld(from.ranks(), patient).run([&](const Group& group) {
      Trainee run(from, group, 5);
      run.train(0, 4);
      save_training_state(folder.path(), run.parts(), {.step = 4}, group);
    });
    for (const Plan& to : plans) {
      LocalWorld(to.ranks(), patient).run([&](const Group& group) {
        Trainee run(to, group, 9);
        EXPECT_EQ(load_training_state(folder.path(), run.parts(), group).step, 4);
        const std::vector<double> losses = run.train(4, 8);
        for (size_t i = 0; i < losses.size(); ++i) {
          EXPECT_NEAR(losses[i], expected[4 + i], 1e-6) << from.text() << " to " << to.text() << ", step " << 4 + i;
        }
      });
    }
  }
}

TEST(DistributedRun, OnOtherRanksDifferentGeneratorsResumeFromSeedAndRank) {
  const TemporaryFolder folder;
  const auto state_of = [](const Generator& local) {
    return ShardedRun{.model = io::unsharded({{"w", ones({2})}}),
                      .generators = {{"local", const_cast<Generator*>(&local)}}};
  };
  GeneratorState common;
  LocalWorld(2, patient).run([&](const Group& group) {
    manual_seed(3);
    rand({100});
    if (group.rank() == 0) common = default_generator().state();
    const Generator local(50 + static_cast<uint64_t>(group.rank()));
    save_training_state(folder.path(), state_of(local), {.step = 1}, group);
  });
  for (const int ranks : {2, 3}) {
    const CollectedWarnings warnings;
    std::vector<GeneratorState> own(static_cast<size_t>(ranks));
    LocalWorld(ranks, patient).run([&](const Group& group) {
      const Generator local(1);
      manual_seed(9);
      load_training_state(folder.path(), state_of(local), group);
      own[static_cast<size_t>(group.rank())] = local.state();
      EXPECT_EQ(default_generator().state(), common);
    });
    if (ranks == 2) {
      EXPECT_TRUE(warnings.texts.empty());
      EXPECT_EQ(own[0], (GeneratorState{50, 0, 0}));
      EXPECT_EQ(own[1], (GeneratorState{51, 0, 0}));
      continue;
    }
    ASSERT_EQ(warnings.texts.size(), 1u);
    EXPECT_NE(warnings.texts[0].find("2 ranks saved the state that 3 load"), std::string::npos) << warnings.texts[0];
    for (size_t r = 0; r < own.size(); ++r) EXPECT_EQ(own[r], (GeneratorState{50, 1 + r, 0}));
  }
}

TEST(DistributedRun, WithoutTheOptimizerOnlyWeightsAreLoaded) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    Trainee saved({.dp = group.size(), .zero = 1}, group, 5);
    saved.train(0, 2);
    save_training_state(folder.path(), {.model = saved.net.parts(), .generators = saved.tracker.generators()},
                        {.step = 2}, group);
    for (const int zero : {0, 1}) {
      Trainee run({.dp = group.size(), .zero = zero}, group, 6);
      const Tensor before = run.net.out.weight.detach().clone();
      EXPECT_NE(message_of<ValueError>([&] {
                  load_training_state(folder.path(), run.parts(), group);
                }).find("holds no optimizer's state"),
                std::string::npos);
      EXPECT_TRUE(equal(run.net.out.weight.detach(), before));
      load_training_state(folder.path(), run.parts(), group, {.weights_only = true});
      EXPECT_TRUE(equal(run.net.out.weight.detach(), saved.net.out.weight.detach()));
    }
    barrier(group);
  });
}

TEST(DistributedRun, FrozenParametersHaveNoEntriesAndTheModelIsMerged) {
  const TemporaryFolder folder;
  LocalWorld(2, patient).run([&](const Group& group) {
    Trainee run({.tp = 2}, group, 5);
    run.train(0, 2);
    save_training_state(folder / "run", run.parts(), {.step = 2}, group);
  });
  const io::Path state = folder / "run" / "step-00000002";
  const io::TensorStore optimizer = io::open_state_dict(state / "optimizer");
  for (const auto& [key, info] : optimizer.entries()) {
    EXPECT_FALSE(key.starts_with("frozen")) << key;
  }
  EXPECT_TRUE(optimizer.entries().contains("up.weight.exp_avg"));
  io::merge_sharded(state / "model", folder / "merged");
  EXPECT_EQ(io::load_sharded(folder / "merged").at("up.weight").shape(), (Dims{24, 4}));
  nn::Linear layer(2, 2);
  EXPECT_NE(message_of<ValueError>([&] { io::load_training_state(folder / "run", {layer}); }).find("is in parts"),
            std::string::npos);
}

TEST(DistributedRun, MasterWeightsThatWereNotSavedBecomeTheWeights) {
  const TemporaryFolder folder;
  LocalWorld(2, patient).run([&](const Group& group) {
    Trainee saved({.dp = 2, .zero = 0, .dtype = bf16}, group, 5);
    saved.train(0, 2);
    save_training_state(folder.path(), saved.parts(), {.step = 2}, group);
  });
  const CollectedWarnings warnings;
  LocalWorld(2, patient).run([&](const Group& group) {
    Trainee run({.dp = 2, .zero = 1, .dtype = bf16}, group, 6);
    load_training_state(folder.path(), run.parts(), group);
    const Tensor loaded = run.net.out.weight.detach().clone();
    run.optimizer().set_lr(0);
    for (const Tensor& p : run.net.parameters()) {
      if (p.requires_grad()) p.set_grad(zeros_like(p.detach()));
    }
    run.sharded->step();
    EXPECT_TRUE(equal(run.net.out.weight.detach(), loaded));
  });
  ASSERT_FALSE(warnings.texts.empty());
  EXPECT_NE(warnings.texts[0].find("no master weights"), std::string::npos) << warnings.texts[0];
}

TEST(DistributedRun, AMismatchLeavesTheRunAndTheFolderUnchanged) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    Trainee run({.dp = group.size(), .zero = 0}, group, 5);
    run.train(0, 1);
    save_training_state(folder.path(), run.parts(), {.step = 1}, group);
    ShardedRun nameless = run.parts();
    if (group.rank() + 1 == group.size()) nameless.parameters.clear();
    try {
      save_training_state(folder.path(), nameless, {.step = 2}, group);
      ADD_FAILURE() << "nothing was raised";
    } catch (const ValueError&) {
      EXPECT_EQ(group.rank() + 1, group.size());
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("rank {} could not save", group.size() - 1)),
                std::string::npos);
    }
    EXPECT_THROW(save_training_state(folder.path(), run.parts(), {.step = 2, .accumulated = 1}, group), ValueError);
    EXPECT_THROW(save_training_state(folder.path(), run.parts(), {.step = 2, .documents = {{"rng-1", "{}"}}}, group),
                 ValueError);
    barrier(group);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path().string()), {}), 1);

    const Tensor before = run.net.out.weight.detach().clone();
    run.train(1, 2);
    const Tensor now = run.net.out.weight.detach().clone();
    ShardedRun wider = run.parts();
    wider.model.emplace("another", io::unsharded({{"a", ones({2})}}).at("a"));
    EXPECT_THROW(load_training_state(folder.path(), wider, group), KeyError);
    optim::SGD sgd(tensors_of(run.net.trained()), {.lr = 0.1});
    ShardedRun other = run.parts();
    other.optimizer = &sgd;
    EXPECT_THROW(load_training_state(folder.path(), other, group), ValueError);
    EXPECT_TRUE(equal(run.net.out.weight.detach(), now));
    load_training_state(folder.path(), run.parts(), group);
    EXPECT_TRUE(equal(run.net.out.weight.detach(), before));
    barrier(group);
  });
}

TEST(DistributedRun, KeepsTheNewestCompleteStates) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    const ShardedRun run{.model = io::unsharded({{"w", ones({2})}})};
    if (group.rank() == 0) fs::create_directories(fs::path((folder.path() / "step-00000000").string()));
    for (int64_t step = 1; step <= 5; ++step) {
      save_training_state(folder.path(), run, {.step = step}, group, {.keep_last = 2});
    }
    const std::vector<io::Path> states = io::training_states(folder.path());
    ASSERT_EQ(states.size(), 2u);
    EXPECT_EQ(states[0].string(), (folder.path() / "step-00000004").string());
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path().string()), {}), 3);
    barrier(group);
    save_training_state(folder.path(), run, {.step = 4, .epoch = 7}, group);
    EXPECT_EQ(load_training_state(states[0], run, group).epoch, 7);
    barrier(group);
  });
}

[[noreturn]] void save_until_killed(const std::string& folder) {
  int64_t step = io::training_states(folder).empty() ? 0 : io::read_run_state(folder).step;
  LocalWorld(3, patient).run([&](const Group& group) {
    for (int64_t next = step + 1;; ++next) {
      const Tensor own = full({50, 4}, static_cast<double>(next));
      const ShardedRun run{.model = {{"w", {own, Dims{150, 4}, Dims{int64_t{50} * group.rank(), 0}}}}};
      save_training_state(folder, run, {.step = next}, group, {.keep_last = 2});
    }
  });
  std::_Exit(0);
}

constexpr const char* until_killed = "WEFT_TEST_SAVES_RUN_TO";
[[maybe_unused]] const auto* const saving_run =
    ::testing::AddGlobalTestEnvironment(new WorkUntilKilled(until_killed, save_until_killed));

TEST(DistributedRunKilled, AtAnyMomentTheNewestStateIsWhole) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  int64_t newest = 0, moved = 0;
  for (int kill = 0; kill < 15; ++kill) {
    ASSERT_NO_FATAL_FAILURE(run_and_kill(until_killed, folder.path(), {50000, 300000}, random));
    if (io::training_states(folder.path()).empty()) continue;
    const Tensor w = zeros({150, 4});
    const ShardedRun run{.model = io::unsharded({{"w", w}})};
    int64_t step = 0;
    LocalWorld(1, patient).run([&](const Group& group) { step = load_training_state(folder.path(), run, group).step; });
    ASSERT_TRUE(equal(w, full({150, 4}, static_cast<double>(step)))) << step;
    ASSERT_GE(step, newest);
    moved += step > newest;
    newest = step;
  }
  EXPECT_GT(moved, 3);
}

}  // namespace
}  // namespace weft::distributed
