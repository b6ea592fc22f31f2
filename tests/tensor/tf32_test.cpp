#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/hooks/config.hpp>
#include <weft/tensor/tf32.hpp>

namespace weft {
namespace {

bool is_overridden() { return detail::tf32_override().has_value(); }

TEST(Tf32, IsOffUntilItIsSwitchedOnForAllThreadsOrInAGuard) {
  if (is_overridden()) GTEST_SKIP() << "NVIDIA_TF32_OVERRIDE is set";
  EXPECT_FALSE(tf32_state().matmul);
  {
    const Tf32Guard on({.matmul = true});
    EXPECT_TRUE(tf32_state().matmul);
    const Tf32Guard off({});
    EXPECT_FALSE(tf32_state().matmul);
    std::thread([] { EXPECT_FALSE(tf32_state().matmul); }).join();
  }
  set_tf32({.matmul = true});
  std::thread([] { EXPECT_TRUE(tf32_state().matmul); }).join();
  EXPECT_THAT(config(), ::testing::HasSubstr("TF32 in products: on"));
  set_tf32({});
  EXPECT_FALSE(tf32_state().matmul);
  EXPECT_THAT(config(), ::testing::HasSubstr("TF32 in products: off"));
}

TEST(Tf32, TheEnvironmentIs0Or1OrUnset) {
  EXPECT_EQ(detail::tf32_override_from("0"), false);
  EXPECT_EQ(detail::tf32_override_from("1"), true);
  for (const char* text : {"", "2", "on", "01"}) EXPECT_EQ(detail::tf32_override_from(text), std::nullopt) << text;
  EXPECT_EQ(detail::tf32_override_from(nullptr), std::nullopt);
}

TEST(Tf32, TheEnvironmentWinsOverTheProgram) {
  // A process of its own, which has not read the environment yet.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool on : {false, true}) {
    EXPECT_EXIT(
        {
          setenv("NVIDIA_TF32_OVERRIDE", on ? "1" : "0", 1);
          set_tf32({.matmul = !on});
          const Tf32Guard guard({.matmul = !on});
          const bool wins = tf32_state().matmul == on && config().find("NVIDIA_TF32_OVERRIDE") != std::string::npos;
          std::_Exit(wins ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace weft
