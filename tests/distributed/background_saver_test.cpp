// States of ranks that are saved while their program continues.
#include <cstdlib>
#include <filesystem>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ranks.hpp"

#include <weft/distributed/sharded_state.hpp>
#include <weft/distributed/training_state.hpp>

#include <collected_warnings.hpp>

#include "killed_process.hpp"
#include "ranks_folder.hpp"

namespace weft::distributed {
namespace {

namespace fs = std::filesystem;
const LocalWorldOptions patient{.timeout_seconds = 60};

io::ShardedState rows_of(const Tensor& rows, const Group& group) {
  const int64_t own = rows.size(0);
  return {{"w", {rows, Dims{own * group.size(), rows.size(1)}, Dims{own * group.rank(), 0}}}};
}

TEST(DistributedBackground, ParametersMayChangeAndCollectivesRunDuringASave) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    const Tensor rows = full({2000, 50}, 1.0), same = full({300}, 1.0);
    io::ShardedState state = rows_of(rows, group);
    state.merge(io::unsharded({{"same", same}}));
    BackgroundSaver saver(group);
    for (int64_t save = 1; save <= 4; ++save) {
      EXPECT_EQ(saver.save(state, folder.path()), save);
      rows.fill_(static_cast<double>(save + 1));
      same.fill_(static_cast<double>(save + 1));
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(all_reduce(tensor(1.0), group).item<float>(), static_cast<float>(group.size()));
      }
    }
    saver.wait();
    saver.wait();
    for (int64_t save = 1; save <= 4; ++save) {
      const io::TensorStore store = io::open_state_dict(folder.path(), save);
      EXPECT_TRUE(equal(store.get("w"), full({2000 * group.size(), 50}, static_cast<double>(save)))) << save;
      EXPECT_TRUE(equal(store.get("same"), full({300}, static_cast<double>(save)))) << save;
    }
    barrier(group);
  });
}

TEST(DistributedBackground, AWriteErrorOfOneRankRaisesOnAllRanks) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    const int bad = group.size() - 1;
    if (group.rank() == bad) {
      fs::create_directories(fs::path(folder.path().string()) / fmt::format("{}_2.safetensors", bad) / "in the way");
    }
    barrier(group);
    const io::ShardedState state = rows_of(ones({2, 3}), group);
    const auto fails = [&](const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "nothing was raised";
      } catch (const IoError& error) {
        const std::string text = error.what(), own = fmt::format("{}_2.safetensors", bad);
        const std::string expected = group.rank() == bad ? own : fmt::format("rank {} could not save", bad);
        EXPECT_NE(text.find(expected), text.npos) << text;
      }
    };
    BackgroundSaver saver(group);
    EXPECT_EQ(saver.save(state, folder.path(), {.id = 1}), 1);
    EXPECT_EQ(saver.save(state, folder.path(), {.id = 2}), 2);
    fails([&] { saver.wait(); });
    saver.save(state, folder.path(), {.id = 2});
    fails([&] { saver.save(state, folder.path(), {.id = 3}); });
    EXPECT_EQ(saver.save(state, folder.path(), {.id = 4}), 4);
    saver.wait();
    EXPECT_EQ(io::state_ids(folder.path()), (std::vector<int64_t>{1, 4}));
    barrier(group);
  });
}

TEST(DistributedBackground, PartsThatDoNotFitAreRefusedAtOnce) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    BackgroundSaver saver(group);
    EXPECT_THROW(
        saver.save({{"w", {ones({2}), Dims{2 * group.size() + 1}, Dims{int64_t{2} * group.rank()}}}}, folder.path()),
        ValueError);
    EXPECT_EQ(saver.save(rows_of(ones({2, 3}), group), folder.path()), 1);
    saver.wait();
    barrier(group);
  });
}

TEST(DistributedBackground, AFailedSaveThatWasNotWaitedForWarns) {
  const CollectedWarnings warnings;
  LocalWorld(1, patient).run([](const Group& group) {
    const RanksFolder folder(group);
    fs::create_directories(fs::path(folder.path().string()) / "0_1.safetensors" / "in the way");
    BackgroundSaver(group).save(rows_of(ones({2, 3}), group), folder.path(), {.id = 1});
  });
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_NE(warnings.texts[0].find("was not saved"), std::string::npos) << warnings.texts[0];
}

TEST(DistributedBackground, TrainingContinuesDuringASaveAndResumesFromIt) {
  on_all_ranks([](const Group& group) {
    const RanksFolder folder(group);
    const auto model_of = [](uint64_t seed) {
      manual_seed(seed);
      return nn::Sequential(nn::Linear(4, 24), nn::Tanh(), nn::Linear(24, 2));
    };
    const auto steps = [&](const nn::Sequential& net, ShardedOptimizer& optimizer, int from, int to) {
      std::vector<float> losses;
      for (int step = from; step < to; ++step) {
        const Tensor loss = sum(square(net(input_of(step, {5, 4})))) + 0 * sum(rand({2}));
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        losses.push_back(loss.item<float>() + rand({1}).item<float>());
      }
      return losses;
    };
    const auto optimizer_of = [&](const nn::Sequential& net) {
      return ShardedOptimizer(optim::AdamW(net.parameters(), {.lr = 0.05}),
                              ShardedOptimizerOptions{.stage = 1, .group = group});
    };
    const auto run_of = [](const nn::Sequential& net, ShardedOptimizer& optimizer) {
      return ShardedRun{.model = io::unsharded(net.state_dict()),
                        .parameters = net.named_parameters(),
                        .sharded_optimizer = &optimizer};
    };
    const nn::Sequential net = model_of(1);
    ShardedOptimizer optimizer = optimizer_of(net);
    BackgroundSaver saver(group);
    std::vector<float> expected;
    for (int step = 0; step < 6; ++step) {
      if (step > 0) {
        io::RunState state{.step = step};
        state.documents["config"] = "{}";
        state.tensors["mask"] = full({3}, static_cast<double>(step));
        const io::Path made = saver.save(run_of(net, optimizer), state, folder.path(), {.keep_last = 2});
        EXPECT_EQ(made, io::Path(folder.path()) / fmt::format("step-{:08}", step));
      }
      const float loss = steps(net, optimizer, step, step + 1)[0];
      if (step >= 5) expected.push_back(loss);
    }
    saver.wait();
    EXPECT_EQ(io::training_states(folder.path()).size(), 2u);
    const nn::Sequential other = model_of(9);
    ShardedOptimizer resumed = optimizer_of(other);
    const io::RunState state = load_training_state(folder.path(), run_of(other, resumed), group);
    EXPECT_EQ(state.step, 5);
    EXPECT_TRUE(equal(state.tensors.at("mask"), full({3}, 5.0)));
    EXPECT_EQ(steps(other, resumed, 5, 6), expected);
    barrier(group);
  });
}

[[noreturn]] void save_until_killed(const std::string& folder) {
  const std::vector<int64_t> ids = io::state_ids(folder);
  const int64_t newest = ids.empty() ? 0 : ids.back();
  LocalWorld(3, patient).run([&](const Group& group) {
    BackgroundSaver saver(group);
    for (int64_t id = newest + 1;; ++id) {
      const Tensor rows = full({500, 20}, static_cast<double>(id));
      saver.save(rows_of(rows, group), folder, {.id = id});
      rows.fill_(-1);
    }
  });
  std::_Exit(0);
}

constexpr const char* until_killed = "WEFT_TEST_SAVES_TO";
[[maybe_unused]] const auto* const saving_process =
    ::testing::AddGlobalTestEnvironment(new WorkUntilKilled(until_killed, save_until_killed));

TEST(DistributedBackgroundKilled, AtAnyMomentLeavesWholeStates) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  int64_t newest = 0, moved = 0;
  for (int kill = 0; kill < 15; ++kill) {
    ASSERT_NO_FATAL_FAILURE(run_and_kill(until_killed, folder.path(), {30000, 250000}, random));
    const std::vector<int64_t> ids = io::state_ids(folder.path());
    if (ids.empty()) continue;
    for (const int64_t id : ids) {
      if (id <= newest - 3) continue;
      const Tensor w = io::open_state_dict(folder.path(), id).get("w");
      ASSERT_TRUE(equal(w, full({1500, 20}, static_cast<double>(id)))) << id << " of " << ids.back();
    }
    moved += ids.back() > newest;
    newest = ids.back();
  }
  EXPECT_GT(moved, 3);
}

}  // namespace
}  // namespace weft::distributed
