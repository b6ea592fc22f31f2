#include <algorithm>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/backends/watch/dispatch_log.hpp>
#include <weft/hooks/config.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/settings.hpp>

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class F>
std::string said_by(F function) {
  ::testing::internal::CaptureStderr();
  function();
  return ::testing::internal::GetCapturedStderr();
}

TEST(DispatchLog, HasALineForEachKernelWithOpOperandsAndPlace) {
  const Tensor x = ones({2, 3}), w = ones({3, 4});
  const std::string said = said_by([&] {
    const DispatchLogGuard guard;
    matmul(x, w);
  });
  EXPECT_THAT(said,
              HasSubstr("[dispatch] matmul: matmul float32 [2, 4] on cpu <- float32 [2, 3] on cpu, float32 [3, 4] "
                        "on cpu"));
  EXPECT_THAT(said, HasSubstr("dispatch_log_test.cpp:"));
}

TEST(DispatchLog, InnerGuardsApplyUntilTheirScopeEnds) {
  if (detail::logs_dispatch()) GTEST_SKIP() << "WEFT_LOG is set";
  const Tensor x = ones({2});
  EXPECT_EQ(said_by([&] { exp(x); }), "");
  const std::string said = said_by([&] {
    const DispatchLogGuard outer;
    {
      const DispatchLogGuard quiet(false);
      exp(x);
      const DispatchLogGuard again;
      log(x);
    }
    sin(x);
  });
  EXPECT_THAT(said, AllOf(Not(HasSubstr("] exp:")), HasSubstr("] log:"), HasSubstr("] sin:")));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2);
  EXPECT_EQ(said_by([&] { exp(x); }), "");
}

TEST(DispatchLog, TheEnvironmentTurnsItOnAndConfigNamesIt) {
  // A process of its own, since a program reads the environment when it starts.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("WEFT_LOG", "dispatch", 1);
  EXPECT_EXIT(
      {
        if (!detail::logs_dispatch()) std::_Exit(2);
        exp(ones({2}));
        {
          const DispatchLogGuard quiet(false);
          log(ones({2}));
        }
        std::_Exit(config().find("WEFT_LOG=dispatch") == std::string::npos ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), AllOf(HasSubstr("] exp:"), Not(HasSubstr("] log:"))));
  unsetenv("WEFT_LOG");
}

}  // namespace
}  // namespace weft
