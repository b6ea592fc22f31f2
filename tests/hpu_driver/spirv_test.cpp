// Modules cut down to one kernel: of every module that Weft was built with.
#include "../../backends/hpu/spirv.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft::spirv {
namespace {

namespace fs = std::filesystem;

std::vector<uint32_t> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
  return words;
}

std::vector<fs::path> modules() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(WEFT_SPIRV_FOLDER)) {
    if (entry.path().extension() == ".spv") found.push_back(entry.path());
  }
  return found;
}

bool is_valid(const std::vector<uint32_t>& words, const fs::path& scratch) {
  std::ofstream(scratch, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(uint32_t)));
  return std::system((WEFT_SPIRV_VALIDATOR " " + scratch.string()).c_str()) == 0;
}

TEST(Spirv, EveryKernelIsCutOutAlone) {
  const fs::path scratch = fs::temp_directory_path() / ("weft_spirv_test_" + std::to_string(::getpid()) + ".spv");
  int kernels = 0, validated = 0;
  for (const fs::path& path : modules()) {
    const std::vector<uint32_t> whole = read(path);
    const std::vector<std::string> names = kernel_names(whole);
    ASSERT_FALSE(names.empty()) << path;
    for (const std::string& name : names) {
      const std::vector<uint32_t> cut = only_kernel(whole, name);
      EXPECT_EQ(kernel_names(cut), std::vector<std::string>{name});
      EXPECT_EQ(only_kernel(cut, name), cut) << name;
      ++kernels;
      if (std::strlen(WEFT_SPIRV_VALIDATOR) == 0) continue;
      EXPECT_TRUE(is_valid(cut, scratch)) << name;
      ++validated;
    }
  }
  fs::remove(scratch);
  EXPECT_GT(kernels, 300);
  RecordProperty("validated", validated);
  std::printf("%d kernels, %d of them validated\n", kernels, validated);
}

// Keeps the time to the first op independent of the number of rows.
TEST(Spirv, AKernelDoesNotGrowWithItsModule) {
  const std::vector<uint32_t> whole = read(fs::path(WEFT_SPIRV_FOLDER) / "pointwise_f32.spv");
  for (const std::string& name : kernel_names(whole)) {
    EXPECT_LT(only_kernel(whole, name).size() * sizeof(uint32_t), 32000u) << name;
  }
  EXPECT_GT(whole.size() * sizeof(uint32_t), 150000u);
}

TEST(Spirv, AnUnknownKernelGivesNothing) {
  const std::vector<uint32_t> whole = read(fs::path(WEFT_SPIRV_FOLDER) / "move_any.spv");
  EXPECT_TRUE(only_kernel(whole, "unary_exp").empty());
  EXPECT_TRUE(only_kernel({}, "move_any").empty());
  EXPECT_TRUE(kernel_names({}).empty());
}

}  // namespace
}  // namespace weft::spirv
