// Orders of work in pipelines, as pure data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <weft/distributed/pipeline.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft::distributed {
namespace {

using ::testing::HasSubstr;
using Kind = PipelineAction::Kind;
using enum PipelineSchedule;

TEST(PipelinePlan, WorkedCases) {
  const PipelinePlan plan = plan_pipeline(one_f_one_b, 2, 3);
  EXPECT_EQ(text(plan.stages[0]), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text(plan.stages[1]), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(text(plan_pipeline(f_then_b, 2, 3).stages[1]), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(plan_pipeline(one_f_one_b, 4, 2).stages[0]), "F0 F1 B0 B1");
  EXPECT_EQ(text(plan_pipeline(interleaved, 2, 2, 2).stages[1]), "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1");
  EXPECT_EQ(text(plan_pipeline(zero_bubble, 2, 3).stages[1]), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
}
TEST(PipelinePlan, BubblesEqualTheFormulas) {
  EXPECT_NEAR(simulate(plan_pipeline(one_f_one_b, 4, 8)).bubble, .2727, 5e-5);
  EXPECT_NEAR(simulate(plan_pipeline(interleaved, 4, 8, 2)).bubble, .1579, 5e-5);
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      const double one = static_cast<double>(p - 1) / (m + p - 1);
      EXPECT_NEAR(simulate(plan_pipeline(f_then_b, p, m)).bubble, one, 1e-12) << p << " " << m;
      EXPECT_NEAR(simulate(plan_pipeline(one_f_one_b, p, m)).bubble, one, 1e-12) << p << " " << m;
      for (int v = 1; v <= 4 && m % p == 0; ++v) {
        EXPECT_NEAR(simulate(plan_pipeline(interleaved, p, m, v)).bubble, (p - 1.0) / (v * m + p - 1), 1e-12)
            << p << " " << m << " " << v;
      }
    }
  }
}
TEST(PipelinePlan, ZeroBubbleWaitsForTheFirstForwardsAlone) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = p; m <= 16; ++m) {
      EXPECT_NEAR(simulate(plan_pipeline(zero_bubble, p, m)).bubble, (p - 1.0) / (3 * m + p - 1), 1e-12)
          << p << " " << m;
    }
  }
}
TEST(PipelinePlan, NoStageWaitsForEverAndNoneKeepsMoreThanItMay) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, zero_bubble}) {
        const PipelineTimes times = simulate(plan_pipeline(schedule, p, m));
        for (int stage = 0; stage < p; ++stage) {
          const int most = schedule == f_then_b ? m : schedule == one_f_one_b ? p - stage : p;
          EXPECT_LE(times.kept[static_cast<size_t>(stage)], most) << name(schedule) << " " << p << " " << m;
        }
      }
      for (int v = 1; v <= 4 && m % p == 0; ++v) simulate(plan_pipeline(interleaved, p, m, v));
    }
  }
}
TEST(PipelinePlan, MicroBatchesPassEachChunkInOrder) {
  for (const PipelineSchedule schedule : {f_then_b, one_f_one_b, interleaved, zero_bubble}) {
    const PipelinePlan plan = plan_pipeline(schedule, 4, 8, schedule == interleaved ? 3 : 1);
    for (const auto& actions : plan.stages) {
      for (const PipelineAction& a : actions) {
        const auto earlier = [&](const PipelineAction& b) {
          return &b < &a && b.kind == a.kind && b.chunk == a.chunk && b.micro_batch > a.micro_batch;
        };
        EXPECT_TRUE(std::ranges::none_of(actions, earlier)) << text(actions);
      }
    }
  }
}
TEST(PipelinePlan, NumbersThatDoNotFitAreRefused) {
  EXPECT_THROW(plan_pipeline(one_f_one_b, 0, 1), ValueError);
  EXPECT_THROW(plan_pipeline(one_f_one_b, 1, 0), ValueError);
  EXPECT_THROW(plan_pipeline(interleaved, 2, 2, 0), ValueError);
  EXPECT_THROW(plan_pipeline(zero_bubble, 2, 2, 2), ValueError);
  EXPECT_THAT(message_of<ValueError>([] { plan_pipeline(interleaved, 4, 6, 2); }),
              HasSubstr("4 stages do not divide 6 micro-batches"));
}

std::string fault_of(const std::vector<std::vector<PipelineAction>>& stages) {
  return message_of<ValueError>([&] { simulate({stages, 1, 1}); });
}
TEST(PipelinePlan, TheSimulatorFindsInvalidSchedules) {
  const PipelineAction f{Kind::forward, 0}, b{Kind::backward, 0}, i{Kind::input_gradient, 0},
      w{Kind::weight_gradient, 0};
  EXPECT_THAT(fault_of({{f, b}, {}}), HasSubstr("B0 of stage 0 waits for ever"));
  EXPECT_THAT(fault_of({{b, f}}), HasSubstr("B0 of stage 0 has no forward before it"));
  EXPECT_THAT(fault_of({{f, w, i}}), HasSubstr("W0 of stage 0 has no gradient of inputs before it"));
  EXPECT_THAT(fault_of({{f, b, b}}), HasSubstr("B0 of stage 0 is done twice"));
  EXPECT_THAT(fault_of({{f, i}}), HasSubstr("without a backward"));
  EXPECT_THAT(fault_of({{{Kind::forward, 1}}}), HasSubstr("F1 of stage 0 is not of this pipeline"));
  const auto crossed = [] {
    simulate({{{{Kind::forward, 0}, {Kind::backward, 1}, {Kind::forward, 1}, {Kind::backward, 0}}}, 2, 1});
  };
  EXPECT_THROW(crossed(), ValueError);
}

}  // namespace
}  // namespace weft::distributed
