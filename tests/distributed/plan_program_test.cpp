// weft-plan, run as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <run_program.hpp>

namespace weft {
namespace {

class PlanProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples + "weft-plan")) GTEST_SKIP() << "weft-plan was not built";
  }
  std::string words(const std::string& arguments, int code = 0) {
    const Outcome outcome = run(folder, "weft-plan " + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.words;
    return outcome.words;
  }
  static bool has(const std::string& words, const std::string& part) { return words.find(part) != std::string::npos; }

  TemporaryFolder folder;
};

TEST_F(PlanProgram, PrintsATableOfAPlan) {
  const std::string table = words("gpt3 --plan dp16-sp8-pp8-zero1 --batch 1536");
  for (const char* part : {"175 G parameters: 96 blocks of width 12288", "1024 x h100", "dp16-pp8-sp8-zero1",
                           "weights                                        5.65 GB", "dp: all_reduce of gradients",
                           "waiting for stages", "limit    compute"}) {
    EXPECT_TRUE(has(table, part)) << part << '\n' << table;
  }
}

TEST_F(PlanProgram, PrintsTheBestPlansOfManyDevices) {
  const std::string table = words("gpt-1t --devices 16384 --batch 4096 --machine a100 --sequence 1024");
  EXPECT_TRUE(has(table, "16384 x a100, 4096 sequences of 1024")) << table;
  EXPECT_TRUE(has(table, "\n  10  dp")) << table;
  EXPECT_FALSE(has(table, "\n  11  dp")) << table;
}

TEST_F(PlanProgram, RunsThePredictedPlan) {
  const std::string table = words(
      "--layers 2 --width 32 --heads 2 --vocabulary 64 --sequence 16 --dtype float32 --plan dp2-tp2-zero1 --batch 4 "
      "--machine this --ranks 2 --run 3");
  const size_t at = table.find("rank 0 sent ");
  ASSERT_NE(at, std::string::npos) << table;
  const int64_t sent = std::stoll(table.substr(at + 12));
  EXPECT_GT(sent, 0);
  EXPECT_TRUE(has(table, "rank 0 sent " + std::to_string(sent) + " bytes, predicted " + std::to_string(sent)));
}

TEST_F(PlanProgram, RejectsUnknownOptions) {
  EXPECT_TRUE(has(words("gpt2", 1), "--plan")) << "neither a plan nor devices";
  EXPECT_TRUE(has(words("gpt7 --plan dp2", 1), "there is no model 'gpt7'"));
  EXPECT_TRUE(has(words("gpt2 --plan dp2 --machine abacus", 1), "there is no machine 'abacus'"));
  EXPECT_TRUE(has(words("gpt2 --plan tp5", 1), "do not divide"));
  EXPECT_TRUE(has(words("gpt-1t --devices 8", 1), "no plan fits"));
  EXPECT_TRUE(has(words("gpt2 --plan dp2 --dtype float1", 1), "there is no dtype float1"));
}

}  // namespace
}  // namespace weft
