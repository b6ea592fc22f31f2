// The example's GPT has the losses of one process by every plan.
#include <gtest/gtest.h>

#include "ranks.hpp"

#include "../../examples/parallel_gpt.hpp"

namespace weft::distributed {
namespace {

const parallel_gpt::Text& corpus() {
  static const parallel_gpt::Text text(WEFT_SOURCE_DIR "/examples/data/corpus.txt");
  return text;
}

std::vector<double> losses_by(const std::string& plan, int steps) {
  std::vector<double> out;
  const parallel_gpt::Plan parsed = parallel_gpt::plan_of(plan);
  LocalWorld(parsed.ranks(), {.timeout_seconds = 120}).run([&](const Group& group) {
    const std::vector<double> losses = parallel_gpt::train(parsed, group, corpus(), steps);
    if (group.rank() == 0) out = losses;
  });
  return out;
}

class ParallelGpt : public ::testing::TestWithParam<const char*> {};

TEST_P(ParallelGpt, HasTheLossesOfOneProcess) {
  constexpr int steps = 50;
  static const std::vector<double> dense = losses_by("dp1", steps), of_experts = losses_by("ep1", steps);
  const std::vector<double>& alone = parallel_gpt::plan_of(GetParam()).has_experts ? of_experts : dense;
  EXPECT_LT(alone.back(), alone.front() - 0.5);
  const std::vector<double> losses = losses_by(GetParam(), steps);
  ASSERT_EQ(losses.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 1e-5 * alone[i]) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(Plans, ParallelGpt,
                         ::testing::Values("dp2", "dp4", "tp2", "tp4", "pp2", "pp4", "sp2", "sp4", "dp2-sp2", "pp2-sp2",
                                           "dp2-tp2", "dp2-pp2", "pp2-tp2", "dp2-zero1", "dp2-zero2", "dp4-zero2",
                                           "dp2-zero3", "dp4-zero3", "dp2-tp2-zero1", "dp2-tp2-zero3", "dp2-sp2-zero3",
                                           "dp2-pp2-zero3", "dp2-pp2-tp2", "dp2-pp2-sp2-zero2", "ep2", "ep4", "dp2-ep2",
                                           "ep2-tp2", "ep2-pp2", "ep2-zero1", "dp2-ep2-zero2", "dp2-ep2-zero3",
                                           "ep2-sp2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ParallelGptPlan, IsReadOrRefused) {
  const parallel_gpt::Plan plan = parallel_gpt::plan_of("dp2-pp4-tp8-zero1");
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.pp, 4);
  EXPECT_EQ(plan.tp, 8);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_EQ(plan.ranks(), 64);
  EXPECT_FALSE(plan.has_experts);
  for (const char* wrong : {"", "dp", "xp2", "dp2-", "2", "dp2tp2"}) {
    EXPECT_THROW(parallel_gpt::plan_of(wrong), ValueError) << wrong;
  }
}

}  // namespace
}  // namespace weft::distributed
