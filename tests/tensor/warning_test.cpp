#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collected_warnings.hpp"

#include <weft/tensor/warning.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Warnings : public testing::Test {
 protected:
  CollectedWarnings collected;
  std::vector<std::string>& texts = collected.texts;
};

void odd(const char* op, Location where = {}) { warn({.op = op, .problem = "odd", .remedy = "do less"}, where); }

TEST_F(Warnings, ComeOnceForEachPlaceAndOp) {
  for (int i = 0; i < 3; ++i) odd("one");
  EXPECT_EQ(texts.size(), 1u);
  odd("one"), odd("two"), odd("one");
  EXPECT_EQ(texts.size(), 3u);
  odd("nowhere", Location::none()), odd("nowhere", Location::none());
  EXPECT_EQ(texts.size(), 4u);
}

TEST_F(Warnings, ContainProblemLocationAndRemedy) {
  const int line = __LINE__ + 1;
  odd("op");
  EXPECT_THAT(texts, ElementsAre(testing::AllOf(StartsWith("[op] odd\n  do less, at "), HasSubstr("warning_test.cpp"),
                                                EndsWith(":" + std::to_string(line)))));
}

TEST_F(Warnings, AHandlerMayThrowAndIsGivenBack) {
  set_warning_handler([](const Warning&) { throw std::runtime_error("no warnings here"); });
  EXPECT_THROW(odd("thrown"), std::runtime_error);
  EXPECT_TRUE(set_warning_handler({}));
  EXPECT_FALSE(set_warning_handler({}));
}

TEST_F(Warnings, GoToStandardErrorWithoutAHandler) {
  set_warning_handler({});
  testing::internal::CaptureStderr();
  odd("loud");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("warning: [loud] odd\n"));
}

TEST(WarningsDeathTest, AreOffByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("WEFT_WARNINGS", "0", 1);
  EXPECT_EXIT(
      {
        int calls = 0;
        set_warning_handler([&](const Warning&) { ++calls; });
        odd("silenced");
        std::_Exit(calls);
      },
      testing::ExitedWithCode(0), "^$");
  unsetenv("WEFT_WARNINGS");
}

}  // namespace
}  // namespace weft
