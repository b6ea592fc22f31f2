// `./weft demo hooks`: the planted faults are found.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

/// The number of the line of examples/find_the_nan.cpp that says it is the planted one.
int planted_line() {
  std::ifstream source(WEFT_SOURCE_DIR "/examples/find_the_nan.cpp");
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.find("the planted NaN") != std::string::npos) return number;
  }
  return -1;
}

TEST(FindTheNan, NamesEveryPlantedFault) {
  const std::string program = WEFT_BINARY_DIR "/examples/weft-find-the-nan";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "weft-find-the-nan was not built";
  const TemporaryFolder folder;
  const std::string out = folder / "out", run = folder / "run";
  ASSERT_EQ(std::system((program + " " + run + " >" + out).c_str()), 0) << read_bytes(out);
  const std::string said = read_bytes(out);
  EXPECT_THAT(said, HasSubstr("non-finite  the gradient of the activation embed held NaN or infinity in step 90"));
  EXPECT_THAT(said, HasSubstr("vanishing   the gradient of deep1.weight has an rms of"));
  EXPECT_THAT(said, HasSubstr("most of it in 7 calls of sigmoid at find_the_nan.cpp:"));
  EXPECT_THAT(said, HasSubstr("dead        relu at find_the_nan.cpp:"));
  EXPECT_THAT(said, HasSubstr("dead.weight and dead.bias feed it"));
  EXPECT_THAT(said, HasSubstr("frozen      forgotten.weight did not change"));
  EXPECT_THAT(said, HasSubstr("[sqrt]"));
  EXPECT_THAT(said, HasSubstr("find_the_nan.cpp:" + std::to_string(planted_line()) + "\n"));
  for (const char* file : {"gradients.html", "gradients.jsonl", "graph.svg", "trace.json"}) {
    EXPECT_TRUE(std::filesystem::exists(run + "/" + file)) << file;
  }
}

}  // namespace
}  // namespace weft
