#include "../../tensor/settings.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

#include "../../tensor/warning.hpp"

namespace weft {
namespace {

using ::testing::HasSubstr;

static_assert(detail::is_setting("WEFT_CHECK_NAN") && detail::is_setting("WEFT_NPU_SYNC"));
static_assert(!detail::is_setting("WEFT_CHECK_NANS") && !detail::is_setting("WEFT_") && !detail::is_setting(""));
static_assert(detail::matches("*", "") && detail::matches("a*b*", "a--b") && !detail::matches("a*b", "a-b-"));

std::string warnings_with(const char* name) {
  setenv(name, "1", 1);
  std::string said;
  const WarningHandler before = set_warning_handler([&](const Warning& w) { said += w.text + "\n"; });
  detail::warn_of_unknown_settings();
  set_warning_handler(before);
  unsetenv(name);
  return said;
}

TEST(Settings, AnUnknownOneWarnsWithTheNearestName) {
  EXPECT_THAT(warnings_with("WEFT_CHEK_NAN"), HasSubstr("[WEFT_CHEK_NAN] is no setting\n  mean WEFT_CHECK_NAN?"));
  EXPECT_THAT(warnings_with("WEFT_NUM_THREAD"), HasSubstr("mean WEFT_NUM_THREADS?"));
}

TEST(Settings, KnownAndForeignOnesDoNotWarn) {
  for (const char* name : {"WEFT_GRAD_SHARE", "WEFT_NPU_SYNC", "WEFT_ZE_LOG", "WEFT_TEST_ANYTHING", "WEFTED"}) {
    EXPECT_EQ(warnings_with(name), "") << name;
  }
}

TEST(Settings, AreOnForAnyValueBut0) {
  for (const auto& [value, on] : {std::pair("1", true), {"yes", true}, {"0", false}, {"", false}}) {
    setenv("WEFT_TEST_SWITCH", value, 1);
    EXPECT_EQ(detail::is_switched_on("WEFT_TEST_SWITCH"), on) << value;
  }
  unsetenv("WEFT_TEST_SWITCH");
  EXPECT_FALSE(detail::is_switched_on("WEFT_TEST_SWITCH"));
}

TEST(Settings, TheirPageHasEachInTheOrderOfTheList) {
  std::ifstream file(WEFT_SOURCE_DIR "/docs/settings.md");
  std::string found, right;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `WEFT_")) found += line + "\n";
  }
  for (const Setting& s : settings()) {
    right += std::string("| `") + s.name + "` | " + s.otherwise + " | " + s.meaning + " |\n";
  }
  EXPECT_EQ(found, right);
}

}  // namespace
}  // namespace weft
