// Native code of HPU kernels, kept in files: whole or absent whatever happens, and found by the next process.
#include "device_checks.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include <temporary_folder.hpp>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>

#if WEFT_HAS_HPU
#include <weft/backends/hpu/program_folder.hpp>

namespace weft::hpu {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

Bytes program(size_t bytes, uint8_t seed = 1) {
  Bytes out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(i * 31 + seed);
  return out;
}
std::vector<fs::path> files_in(const fs::path& folder) {
  if (!fs::exists(folder)) return {};
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
  return all;
}
TEST(ProgramFolder, ReturnsStoredFiles) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path() / "a" / "b";
  ProgramFolder folder(path);
  EXPECT_EQ(folder.load("one"), std::nullopt);
  folder.store("one", program(1000));
  folder.store("two", program(1, 9));
  EXPECT_EQ(folder.load("one"), program(1000));
  EXPECT_EQ(ProgramFolder(path).load("two"), program(1, 9));
  folder.store("one", program(10));
  EXPECT_EQ(folder.load("one"), program(10)) << "the newest";
  EXPECT_EQ(files_in(path).size(), 2u);
}

TEST(ProgramFolder, ADamagedFileIsAbsentAndWrittenAnew) {
  const TemporaryFolder temporary;
  ProgramFolder folder(temporary.path());
  folder.store("key", program(200));
  const fs::path file = files_in(temporary.path()).at(0);
  const std::string whole = read_bytes(file);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    write_bytes(file, damaged);
    EXPECT_EQ(folder.load("key"), std::nullopt) << "byte " << i;
    write_bytes(file, whole.substr(0, i));
    EXPECT_EQ(folder.load("key"), std::nullopt) << i << " bytes";
  }
  write_bytes(file, whole + "x");
  EXPECT_EQ(folder.load("key"), std::nullopt);
  folder.store("key", program(200));
  EXPECT_EQ(folder.load("key"), program(200));
}

TEST(ProgramFolder, AFileOfAnotherKeyIsAbsent) {
  const TemporaryFolder temporary;
  ProgramFolder folder(temporary.path());
  folder.store("mine", program(10));
  const fs::path file = files_in(temporary.path()).at(0);
  const std::string mine = read_bytes(file);
  folder.store("other", program(10));
  for (const fs::path& other : files_in(temporary.path())) write_bytes(other, mine);
  EXPECT_EQ(folder.load("mine"), program(10));
  EXPECT_EQ(folder.load("other"), std::nullopt);
  fs::remove(file);
  fs::create_symlink("/etc/passwd", file);
  EXPECT_EQ(folder.load("mine"), std::nullopt);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(folder.load("mine"), std::nullopt);
  folder.store("mine", program(10));
}

TEST(ProgramFolder, KeepsNothingWhereItCannot) {
  ProgramFolder off("");
  off.store("key", program(10));
  EXPECT_FALSE(off.keeps());
  EXPECT_EQ(off.load("key"), std::nullopt);
  const TemporaryFolder temporary;
  write_bytes(temporary.path() / "file", "");
  ProgramFolder below_a_file((temporary.path() / "file").string());
  below_a_file.store("key", program(10));
  EXPECT_EQ(below_a_file.load("key"), std::nullopt);
  ProgramFolder folder(temporary.path(), 100);
  folder.store("large", program(101));
  folder.store("empty", {});
  EXPECT_EQ(folder.load("large"), std::nullopt);
  EXPECT_EQ(folder.load("empty"), std::nullopt);
}

TEST(ProgramFolder, RemovesTheLeastRecentlyUsedFiles) {
  const TemporaryFolder temporary;
  ProgramFolder folder(temporary.path(), 10'000);
  for (int i = 0; i < 6; ++i) folder.store("key " + std::to_string(i), program(1500));
  const auto size = [&] {
    uintmax_t all = 0;
    for (const fs::path& file : files_in(temporary.path())) all += fs::file_size(file);
    return all;
  };
  for (const fs::path& file : files_in(temporary.path()))
    fs::last_write_time(file, fs::file_time_type::clock::now() - 1h);
  EXPECT_NE(folder.load("key 0"), std::nullopt);
  EXPECT_NE(folder.load("key 3"), std::nullopt);
  for (int i = 6; i < 30; ++i) {
    folder.store("key " + std::to_string(i), program(1500));
    EXPECT_LE(size(), 10'000u + 1500u);
    if (i == 7) {
      EXPECT_NE(folder.load("key 0"), std::nullopt);
      EXPECT_NE(folder.load("key 3"), std::nullopt);
      EXPECT_EQ(folder.load("key 1"), std::nullopt);
    }
  }
}

TEST(ProgramFolder, RemovesOldTemporaryFilesOfAKilledProcess) {
  const TemporaryFolder temporary;
  const fs::path old = temporary.path() / "x.ze.123.unfinished", young = temporary.path() / "y.ze.123.unfinished";
  write_bytes(old, "half"), write_bytes(young, "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - 2h);
  ProgramFolder(temporary.path()).store("key", program(10));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

// Each writes its own contents under the same keys, and is killed somewhere.
TEST(ProgramFolder, ProcessesThatAreKilledLeaveWholeFiles) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path();
  const auto key = [](int k) { return "key " + std::to_string(k); };
  for (int round = 0; round < 10; ++round) {
    std::vector<pid_t> writers;
    for (uint8_t w = 0; w < 3; ++w) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        ProgramFolder folder(path, 1 << 20);
        for (;;) {
          for (int k = 0; k < 4; ++k) folder.store(key(k), program(100'000, w));
        }
      }
      writers.push_back(child);
    }
    ProgramFolder folder(path);
    const auto end = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < end) {
      for (int k = 0; k < 4; ++k) {
        const auto found = folder.load(key(k));
        if (found) {
          EXPECT_EQ(*found, program(100'000, found->at(0))) << k;
        }
      }
    }
    for (const pid_t writer : writers) {
      kill(writer, SIGKILL);
      waitpid(writer, nullptr, 0);
    }
  }
  int found = 0;
  for (int k = 0; k < 4; ++k) found += ProgramFolder(path).load(key(k)).has_value() ? 1 : 0;
  EXPECT_EQ(found, 4);
}

TEST(ProgramFolder, UsesThePathOfTheEnvironment) {
  const auto with = [](std::optional<std::string> own, std::optional<std::string> cache,
                       std::optional<std::string> home) {
    std::vector<std::pair<const char*, std::optional<std::string>>> variables = {
        {"WEFT_CACHE_DIR", std::move(own)}, {"XDG_CACHE_HOME", std::move(cache)}, {"HOME", std::move(home)}};
    const auto exchange = [&] {
      for (auto& [name, value] : variables) {
        const char* text = std::getenv(name);
        std::optional<std::string> before;
        if (text != nullptr) before = text;
        if (value) setenv(name, value->c_str(), 1);
        else unsetenv(name);
        value = before;
      }
    };
    exchange();
    const std::string folder = program_folder();
    exchange();
    return folder;
  };
  EXPECT_EQ(with("/a", "/b", "/c"), "/a");
  EXPECT_EQ(with("", "/b", "/c"), "");
  EXPECT_EQ(with({}, "/b", "/c"), "/b/weft");
  EXPECT_EQ(with({}, "", "/c"), "/c/.cache/weft");
  EXPECT_EQ(with({}, "relative", "/c"), "/c/.cache/weft");
  EXPECT_EQ(with({}, {}, {}), "");
}

// ---- processes
// -------------------------------------------------------------------------------------------------------

class HpuPrograms : public test::Hpu {};

/// Whether OfAChild passes in a process with these variables.
bool passes(const std::string& variables) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  return std::system(
             ("env " + variables + " " + program + " --gtest_filter=HpuPrograms.OfAChild >/dev/null 2>&1").c_str()) ==
         0;
}

TEST_F(HpuPrograms, OfAChild) {
  const Tensor x = arange(0, 100).to(DType::f32);
  test::expect_near(exp(x.to("hpu") * 0.01) + 1.0, exp(x * 0.01) + 1.0);
}

TEST_F(HpuPrograms, AreFoundByTheNextProcess) {
  if (test::environment("ZE_ENABLE_ALT_DRIVERS").empty()) GTEST_SKIP() << "needs the test driver";
  const TemporaryFolder temporary;
  const fs::path kept = temporary.path() / "kept", none = temporary.path() / "none";
  const auto run = [&](const std::string& switches) {
    return passes(switches + " WEFT_CACHE_DIR='" + kept.string() + "'");
  };
  // A driver without translations that cannot translate: only Weft's cache is left.
  const std::string no_translator = "WEFT_ZE_SPV2SO= WEFT_ZE_CACHE='" + none.string() + "' ";
  EXPECT_FALSE(run(no_translator));
  EXPECT_TRUE(run(""));
  ASSERT_GE(files_in(kept).size(), 3u);
  EXPECT_TRUE(run(no_translator));
  EXPECT_FALSE(run(no_translator + "WEFT_ZE_DRIVER_VERSION=7")) << "of another driver";
  // Whole files that the driver refuses.
  const size_t files = files_in(kept).size();
  EXPECT_TRUE(run("WEFT_ZE_DRIVER_VERSION=7"));
  EXPECT_EQ(files_in(kept).size(), 2 * files);
  for (const fs::path& file : files_in(kept)) write_bytes(file, read_bytes(file).substr(0, 500));
  EXPECT_FALSE(run(no_translator));
  EXPECT_TRUE(run("")) << "damaged files are passed over";
  EXPECT_TRUE(run(no_translator)) << "and written anew";
}

TEST_F(HpuPrograms, AreNotKeptWhereThatIsSwitchedOff) {
  if (test::environment("ZE_ENABLE_ALT_DRIVERS").empty()) GTEST_SKIP() << "needs the test driver";
  const TemporaryFolder home;
  const std::string at_home = "HOME='" + home.path().string() + "' XDG_CACHE_HOME= ";
  EXPECT_TRUE(passes(at_home + "WEFT_CACHE_DIR="));
  EXPECT_TRUE(files_in(home.path()).empty());
  EXPECT_TRUE(passes("-u WEFT_CACHE_DIR " + at_home));
  EXPECT_FALSE(files_in(home / ".cache/weft").empty());
}

}  // namespace
}  // namespace weft::hpu
#endif
