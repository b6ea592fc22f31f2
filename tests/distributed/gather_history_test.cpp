// What recorders of several ranks saw, as one history.
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

TEST(GatherHistory, NamesOfOneTensorStandTogetherAndTellTheRank) {
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
      EXPECT_NEAR(all.steps[1].of[r].gradient->rms(), static_cast<double>(r + 1), 1e-4);  // figures of a text
    }
    EXPECT_EQ(all.watched[ranks].name, "own0 @0");
  });
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
