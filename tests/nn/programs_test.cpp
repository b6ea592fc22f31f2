// The example programs, run as a user runs them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/io/checkpoint.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

const std::string examples = WEFT_BINARY_DIR "/examples/";

struct Outcome {
  int code;
  std::string words;
};

Outcome run(const TemporaryFolder& folder, const std::string& command) {
  const std::string log = folder / "words";
  const int status =
      std::system(("cd " + folder.path().string() + " && " + examples + command + " >" + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(log)};
}

// The lines of metrics.jsonl without the speed, which differs from run to run.
std::string losses(const std::filesystem::path& folder) {
  return std::regex_replace(read_bytes(folder / "metrics.jsonl"), std::regex(R"("tokens_per_s": [0-9.]+)"), "");
}

class Train : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples + "weft-train")) GTEST_SKIP() << "weft-train was not built";
  }
  Outcome train(const std::string& arguments) {
    return run(folder, "weft-train --preset tiny --length 20 " + arguments);
  }
  TemporaryFolder folder;
};

TEST_F(Train, LossFallsAndTheFolderIsComplete) {
  const Outcome outcome = train("--out r");
  ASSERT_EQ(outcome.code, 0) << outcome.words;
  const std::string metrics = read_bytes(folder / "r" / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 100);
  const std::regex last_line(
      R"(\{"step": 100, "train_loss": ([0-9.]+), "tokens_per_s": [0-9.]+, "val_loss": ([0-9.]+)\}\n$)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(metrics, found, last_line)) << metrics.substr(metrics.size() - 200);
  EXPECT_LT(std::stod(found[2]), 3.9);
  EXPECT_THAT(read_bytes(folder / "r" / "curve.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(outcome.words, HasSubstr("---- sample ----"));
}

TEST_F(Train, LossesDependOnTheSeedAndNotOnThreads) {
  ASSERT_EQ(train("--steps 6 --out a --threads 1").code, 0);
  ASSERT_EQ(train("--steps 6 --out b --threads 3").code, 0);
  ASSERT_EQ(train("--steps 6 --out c --seed 2").code, 0);
  EXPECT_EQ(losses(folder / "a"), losses(folder / "b"));
  EXPECT_NE(losses(folder / "a"), losses(folder / "c"));
}

TEST_F(Train, ResumingContinuesBitForBit) {
  ASSERT_EQ(train("--steps 8 --out all --save all.st").code, 0);
  ASSERT_EQ(train("--steps 5 --out first --save half.st").code, 0);
  ASSERT_EQ(train("--resume half.st --steps 8 --out rest --save both.st").code, 0);
  const io::TensorMap straight = io::load_file(folder / "all.st"), continued = io::load_file(folder / "both.st");
  ASSERT_EQ(straight.size(), continued.size());
  for (const auto& [name, t] : straight)
    EXPECT_EQ(t.to_vector<double>(), continued.at(name).to_vector<double>()) << name;
  EXPECT_TRUE(losses(folder / "all").ends_with(losses(folder / "rest")));
}

TEST_F(Train, SamplesFromAFile) {
  const Outcome trained = train("--steps 3 --out r --save f.st");
  ASSERT_EQ(trained.code, 0);
  EXPECT_THAT(trained.words, HasSubstr("--resume f.st --steps 0"));
  const Outcome sampled = train("--resume f.st --steps 0 --data absent");
  EXPECT_EQ(sampled.code, 0) << sampled.words;
  EXPECT_TRUE(trained.words.ends_with(sampled.words.substr(sampled.words.find("---- sample"))));
}

TEST_F(Train, AnyBytesCanBeLearned) {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes += static_cast<char>(i * i / 7);
  write_bytes(folder / "data", bytes);
  ASSERT_EQ(train("--steps 2 --data data --out r --save f.st").code, 0);
  EXPECT_EQ(train("--steps 4 --data data --out s --resume f.st").code, 0);
}

TEST_F(Train, CtrlCEndsCleanly) {
  const std::string program = examples + "weft-train";
  const pid_t child = fork();
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    if (chdir(folder.path().c_str()) != 0 || dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) < 0) _exit(100);
    execl(program.c_str(), "weft-train", "--preset", "tiny", "--length", "5", "--steps", "1000000", "--out", "r",
          "--save", "f.st", nullptr);
    _exit(101);
  }
  ASSERT_GT(child, 0);
  // The first line of metrics says that training runs; how long that takes is the machine's affair.
  const std::filesystem::path metrics = folder / "r" / "metrics.jsonl";
  int status = 0;
  while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) {
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "the program ended by itself: " << status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(kill(child, SIGINT), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_GT(std::stoi(io::checkpoint_metadata(folder / "f.st").at("step")), 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "r" / "curve.svg"));
  EXPECT_THAT(losses(folder / "r"), testing::EndsWith("}\n"));
}

TEST_F(Train, BadInputIsOneClearError) {
  write_bytes(folder / "empty", "");
  write_bytes(folder / "tiny", "abc");
  write_bytes(folder / "wrong.st", "abc");
  io::save_file({}, folder / "other.st");
  const std::pair<const char*, const char*> bad[] = {
      {"--data absent", "[read_text] cannot open absent"},
      {"--data empty", "0 tokens are too few"},
      {"--data tiny", "tokens are too few"},
      {"--device abacus", "abacus"},
      {"--device hpu:99", "hpu:99"},
      {"--resume absent", "[load_file] cannot open absent"},
      {"--resume wrong.st", "not a valid safetensors file"},
      {"--resume other.st", "was not written by --save"},
      {"--out empty --steps 1", "cannot make the folder empty"},
  };
  for (const auto& [arguments, words] : bad) {
    const Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << "\n" << outcome.words;
    EXPECT_THAT(outcome.words, HasSubstr(words)) << arguments;
    EXPECT_LE(std::count(outcome.words.begin(), outcome.words.end(), '\n'), 4) << outcome.words;
  }
  EXPECT_NE(train("--preset enormous").code, 0);
  EXPECT_NE(train("--steps -3").code, 0);
}

TEST(TrainingLoop, LearnsXor) {
  if (!std::filesystem::exists(examples + "weft-training-loop")) GTEST_SKIP() << "weft-training-loop was not built";
  const TemporaryFolder folder;
  const Outcome outcome = run(folder, "weft-training-loop");
  EXPECT_EQ(outcome.code, 0) << outcome.words;
  EXPECT_THAT(outcome.words, HasSubstr("final loss 0.000"));
}

}  // namespace
}  // namespace weft
