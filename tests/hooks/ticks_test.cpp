#include <weft/hooks/detail/ticks.hpp>

#include <gmock/gmock.h>

#include <limits>

namespace weft::detail {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Ticks, StepIsTheLeastRoundOneThatIsCoarseEnough) {
  EXPECT_EQ(round_step(90, 4), 50);
  EXPECT_EQ(round_step(90, 5), 20);
  EXPECT_EQ(round_step(100, 5), 20);
  EXPECT_EQ(round_step(101, 5), 50);
  EXPECT_EQ(round_step(1, 5), 0.2);
  EXPECT_EQ(round_step(0.003, 3), 0.001);
}

TEST(Ticks, AreMultiplesOfTheStepInsideTheRange) {
  EXPECT_THAT(round_ticks(0, 90, 4), ElementsAre(0, 50));
  EXPECT_THAT(round_ticks(0, 90, 5), ElementsAre(0, 20, 40, 60, 80));
  EXPECT_THAT(round_ticks(23, 68, 5), ElementsAre(30, 40, 50, 60));
  EXPECT_THAT(round_ticks(-0.7, 0.4, 4), ElementsAre(-0.5, 0));
}

TEST(Ticks, PrintAsTheyAreMeant) {
  EXPECT_THAT(round_ticks(0, 0.7, 7), ElementsAre(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7));
  EXPECT_FALSE(std::signbit(round_ticks(-1, 1, 2)[1]));
}

TEST(Ticks, OfAnAxisThatCountsAreWhole) {
  EXPECT_THAT(round_ticks(0, 2, 8, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(round_ticks(7, 7, 8, 1), ElementsAre(7));
}

TEST(Ticks, NoRangeBreaksThem) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), huge = std::numeric_limits<double>::max();
  for (const auto& [low, high] : {std::pair{1.0, 0.0},
                                  {0.0, infinity},
                                  {std::nan(""), 1.0},
                                  {0.0, std::nan("")},
                                  {-huge, huge},
                                  {0.0, 5e-324},
                                  {1, 1 + 0x1p-52}}) {
    EXPECT_THAT(round_ticks(low, high, 5), IsEmpty()) << low << " to " << high;
  }
  EXPECT_LE(round_ticks(0, huge, 5).size(), 6u);
  EXPECT_LE(round_ticks(1e-300, 7e-300, 5).size(), 6u);
  EXPECT_THAT(round_ticks(3, 3, 5), ElementsAre(3));
}

}  // namespace
}  // namespace weft::detail
