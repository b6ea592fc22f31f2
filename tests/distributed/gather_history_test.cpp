// Records of several ranks as one history.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/distributed/gather_history.hpp>
#include <weft/distributed/parallelize.hpp>
#include <weft/ops/loss.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GatherHistory, NamesOfOneTensorAreAdjacentAndNameTheRank) {
  on_all_ranks([](const Group& group) {
    const Tensor both = input_of(1, {3}).requires_grad_(), own = input_of(2, {2}).requires_grad_();
    const std::string name = "own" + std::to_string(group.rank());
    GradientRecorder recorder(NamedTensors{{"both", both}, {name, own}});
    for (int step = 0; step < 3; ++step) {
      for (const Tensor& t : {both, own}) t.set_grad({});
      ((both * static_cast<double>(group.rank() + 1)).sum() + own.sum()).backward();
      recorder.step(step + 0.5);
    }
    const History all = gather_history(recorder.history(), group);
    if (group.rank() != 0) {
      EXPECT_TRUE(all.watched.empty() && all.steps.empty());
      return;
    }
    const auto ranks = static_cast<size_t>(group.size());
    ASSERT_EQ(all.watched.size(), 2 * ranks);
    ASSERT_EQ(all.steps.size(), 3u);
    EXPECT_EQ(all.steps[2].loss, 2.5);
    for (size_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(all.watched[r].name, "both @" + std::to_string(r));
      EXPECT_NEAR(all.steps[1].observations[r].gradient->rms(), static_cast<double>(r + 1), 1e-4);  // figures of a text
    }
    EXPECT_EQ(all.watched[ranks].name, "own0 @0");
  });
}

TEST(GatherHistory, MemoryIsRecordedPerRank) {
  on_all_ranks([](const Group& group) {
    GradientRecorder recorder(NamedTensors{{"x", input_of(1, {3}).requires_grad_()}});
    recorder.step();
    History own = recorder.history();
    own.memory.push_back({.device = "cpu", .totals = {{0, 100, 50}}, .step = 0, .curve = {{.at = 0, .bytes = {100}}}});
    const History all = gather_history(own, group);
    if (group.rank() != 0) return;
    ASSERT_EQ(all.memory.size(), static_cast<size_t>(group.size()));
    EXPECT_EQ(all.memory.back().device, "cpu @" + std::to_string(group.size() - 1));
    EXPECT_EQ(all.memory.back().totals.at(0).peak, 100u);
    EXPECT_EQ(all.memory.back().curve.at(0).sum(), 100u);
  });
}

TEST(GatherHistory, ProgramFactsNameTheRank) {
  for (const bool sick : {true, false}) {
    on_all_ranks([&](const Group& group) {
      nn::Linear first(4, 8), second(8, 1);
      nn::Sequential net(first, second);
      optim::SGD optimizer(net.parameters(), {.lr = 0.01});
      GradientRecorder recorder(net);
      for (int step = 0; step < 8; ++step) {
        optimizer.zero_grad();
        const Tensor x = input_of(step + 10 * group.rank(), {6, 4}), h = tanh(first(x));
        const Tensor loss = mse_loss(second(sick ? h.detach() : h), x.sum(1, true));
        loss.backward();
        optimizer.step();
        recorder.step(loss.item<double>());
      }
      const History all = gather_history(recorder.history(), group);
      if (group.rank() != 0) return;
      const auto ranks = static_cast<size_t>(group.size());
      EXPECT_EQ(all.traces.size(), recorder.history().traces.size());
      EXPECT_EQ(all.traces[0].passages.size(), ranks * recorder.history().traces[0].passages.size());
      EXPECT_EQ(all.program.losses.size(), 1u);
      EXPECT_EQ(all.program.optimizer_steps.size(), recorder.history().program.optimizer_steps.size());
      EXPECT_EQ(all.program.optimizer_steps[0].parameters.size(),
                ranks * recorder.history().program.optimizer_steps[0].parameters.size());
      for (const Arrival& a : all.traces[0].arrivals) {
        EXPECT_LT(a.index, all.watched.size());
        EXPECT_LT(a.from, static_cast<int32_t>(all.traces[0].passages.size()));
      }
      std::string said;
      for (const Suspect& s : find_suspects(all)) said += s.text + '\n';
      EXPECT_EQ(said.find("`detach`") != said.npos || said.find("detach at ") != said.npos, sick) << said;
      for (size_t r = 0; r < std::min<size_t>(ranks, 2); ++r) {
        EXPECT_EQ(said.find("0.weight @" + std::to_string(r)) != said.npos, sick) << said;
      }
    });
  }
}

TEST(GatherHistory, SuspectsNameTheRankOfAStage) {
  LocalWorld(4, {.timeout_seconds = 60}).run([](const Group& group) {
    manual_seed(1);
    const nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 8), nn::Linear(8, 4));
    const ParallelModel parallel = parallelize(model, {.mesh = Mesh({2, 2}, {"dp", "pp"}, group), .shard_stage = 3});
    EXPECT_EQ(parallel.named_children().size(), 2u);
    GradientRecorder recorder(parallel);
    ParallelTraining training(parallel, optim::SGD(parallel.parameters(), {.lr = 0.01}));
    for (int step = 0; step < 4; ++step) {
      const Tensor x = input_of(step, {2, 4});
      // The second replica's rows have a hole in the last step.
      if (step == 3 && parallel.data_parallel().rank() == 1) x[0] = std::numeric_limits<double>::quiet_NaN();
      training.zero_grad();
      const double loss =
          training.backward(x, x.clone().nan_to_num(), [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); });
      const auto whole = training.whole_parameters();
      recorder.step(loss);
    }
    const History all = gather_history(recorder.history(), group);
    if (group.rank() != 0) return;
    const std::vector<Suspect> suspects = find_suspects(all);
    ASSERT_FALSE(suspects.empty());
    EXPECT_EQ(suspects[0].trouble, Trouble::non_finite);
    EXPECT_THAT(suspects[0].text, AllOf(HasSubstr("@2"), HasSubstr("0")));
    for (const Watched& w : all.watched) {
      const bool is_of_the_hole = w.name.ends_with("@2") || w.name.ends_with("@3");
      EXPECT_EQ(w.bad_gradient.has_value() || w.bad_value.has_value(), is_of_the_hole) << w.name;
    }
  });
}

}  // namespace
}  // namespace weft::distributed
