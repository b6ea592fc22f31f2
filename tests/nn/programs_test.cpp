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

#include <weft/backends/backend.hpp>
#include <weft/io/training_state.hpp>
#include <weft/nn/layers.hpp>

#include <run_program.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  ASSERT_EQ(train("--steps 8 --out all_metrics --save all").code, 0);
  ASSERT_EQ(train("--steps 5 --out first --save half").code, 0);
  ASSERT_EQ(train("--resume half --steps 8 --out rest --save both").code, 0);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "rng-0.json"}) {
    const auto read = [&](const char* run) { return read_bytes(folder / run / "step-00000008" / file); };
    EXPECT_FALSE(read("all").empty());
    EXPECT_EQ(read("all"), read("both")) << file;
  }
  EXPECT_TRUE(losses(folder / "all_metrics").ends_with(losses(folder / "rest")));
}

TEST_F(Train, SamplesFromAFile) {
  const Outcome trained = train("--steps 3 --out r --save f");
  ASSERT_EQ(trained.code, 0);
  EXPECT_THAT(trained.words, HasSubstr("--resume f --steps 0"));
  const Outcome sampled = train("--resume f --steps 0 --data absent");
  EXPECT_EQ(sampled.code, 0) << sampled.words;
  EXPECT_TRUE(trained.words.ends_with(sampled.words.substr(sampled.words.find("---- sample"))));
}

TEST_F(Train, AnyBytesCanBeLearned) {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes += static_cast<char>(i * i / 7);
  write_bytes(folder / "data", bytes);
  ASSERT_EQ(train("--steps 2 --data data --out r --save f").code, 0);
  EXPECT_EQ(train("--steps 4 --data data --out s --resume f").code, 0);
}

class Signalled : public Train, public testing::WithParamInterface<int> {};

TEST_P(Signalled, EndsAfterTheStepAndSaves) {
  const std::string program = examples + "weft-train";
  const pid_t child = fork();
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    if (chdir(folder.path().c_str()) != 0 || dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) < 0) _exit(100);
    execl(program.c_str(), "weft-train", "--preset", "tiny", "--length", "5", "--steps", "1000000", "--out", "r",
          "--save", "f", nullptr);
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
  ASSERT_EQ(kill(child, GetParam()), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_GT(io::read_run_state(folder / "f").step, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "r" / "curve.svg"));
  EXPECT_THAT(losses(folder / "r"), testing::EndsWith("}\n"));
}

INSTANTIATE_TEST_SUITE_P(Train, Signalled, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGPIPE),
                         [](const auto& info) { return std::string("signal") + std::to_string(info.param); });

TEST_F(Train, WhoeverReadsItsWordsMayStop) {
  run(folder, "weft-train --preset tiny --length 20 --steps 200 --out r --save f | head -n 1");
  EXPECT_GT(io::read_run_state(folder / "f").step, 0);
}

TEST_F(Train, UnderNohupAHangupIsIgnored) {
  // The shell sends the signal after the first metrics; the run continues to its end.
  const std::string script = "(trap '' HUP; exec " + examples +
                             "weft-train --preset tiny --length 5 --steps 60 --out r --save f) & "
                             "until [ -s r/metrics.jsonl ]; do sleep 0.02; done; kill -HUP $!; wait $!";
  EXPECT_EQ(std::system(("cd " + folder.path().string() + " && (" + script + ") >words 2>&1").c_str()), 0);
  EXPECT_EQ(io::read_run_state(folder / "f").step, 60);
}

TEST_F(Train, AFullDiskForMetricsCostsNoWeights) {
  std::filesystem::create_directory(folder / "r");
  std::filesystem::create_symlink("/dev/full", folder / "r" / "metrics.jsonl");
  const Outcome outcome = train("--steps 3 --out r --save f");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.words, HasSubstr("cannot write r/metrics.jsonl\n  No space left on device"));
  EXPECT_EQ(io::read_run_state(folder / "f").step, 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "r" / "curve.svg"));
}

TEST_F(Train, ASaveThatFailsEndsNoTrainingAndKeepsTheOldFile) {
  ASSERT_EQ(train("--steps 3 --out first --save f").code, 0);
  const int status = std::system(("cd " + folder.path().string() + " && (ulimit -f 20 && exec " + examples +
                                  "weft-train --length 5 --steps 60 --out r --resume f --save f) >words 2>&1")
                                     .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const std::string words = read_bytes(folder / "words");
  EXPECT_THAT(words, HasSubstr("step 50 was not saved; f is as it was\n"));
  EXPECT_THAT(words, HasSubstr("File too large"));
  EXPECT_THAT(words, HasSubstr("training continues\n"));
  EXPECT_THAT(words, HasSubstr("step 60 was not saved; f is as it was\n"));
  EXPECT_EQ(io::read_run_state(folder / "f").step, 3);
  EXPECT_THAT(losses(folder / "r"), HasSubstr("\"step\": 60"));
}

TEST_F(Train, StatesSurviveAKill) {
  const std::string script =
      examples +
      "weft-train --preset tiny --length 5 --steps 1000000 --out r --save f & "
      "until [ -s f/step-00000050/COMPLETE ]; do kill -0 $! || exit 1; sleep 0.02; done; kill -KILL $!; wait $!";
  EXPECT_NE(std::system(("cd " + folder.path().string() + " && (" + script + ") >words 2>&1").c_str()), 0);
  const int64_t step = io::read_run_state(folder / "f").step;
  EXPECT_GT(step, 0);
  EXPECT_EQ(step % 50, 0);
  EXPECT_EQ(train("--resume f --out s --steps " + std::to_string(step + 2)).code, 0);
}

TEST_F(Train, AFolderThatCannotBeWrittenIsKnownBeforeTheTraining) {
  write_bytes(folder / "taken", "");
  for (const char* name : {"taken/f", "taken"}) {
    const Outcome outcome = train(std::string("--steps 1000000 --out r --save ") + name);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.words, HasSubstr("it is no folder"));
    EXPECT_FALSE(std::filesystem::exists(folder / "r"));
  }
}

TEST_F(Train, ResumingNamesIgnoredOptions) {
  ASSERT_EQ(train("--steps 2 --seed 4 --out r --save f").code, 0);
  const auto resume = [&](const std::string& more) {
    return run(folder, "weft-train --resume f --length 5 --out s " + more).words;
  };
  EXPECT_THAT(resume("--steps 3 --preset base --seed 9"),
              testing::AllOf(HasSubstr("--preset is ignored: f is of preset tiny"),
                             HasSubstr("--seed is ignored: f has seed 4"), HasSubstr("step     3/3")));
  EXPECT_THAT(resume("--steps 3 --preset tiny --seed 4"), Not(HasSubstr("ignored")));
  EXPECT_THAT(resume("--steps 1 --save g --data absent"),
              testing::AllOf(HasSubstr("--steps is ignored: f has done 2 of them"), HasSubstr("--save is ignored"),
                             HasSubstr("--out is ignored"), HasSubstr("--data is ignored")));
}

TEST_F(Train, BadInputIsOneClearError) {
  write_bytes(folder / "empty", "");
  write_bytes(folder / "tiny", "abc");
  std::filesystem::create_directory(folder / "nothing");
  nn::Linear layer(2, 2);
  io::save_training_state(folder / "other", {layer}, {});
  const std::pair<const char*, const char*> bad[] = {
      {"--data absent", "[read_text] cannot open absent"},
      {"--data empty", "0 tokens have no window of 32"},
      {"--data tiny", "tokens have no window of 32"},
      {"--device abacus", "abacus"},
      {"--device hpu:99", "hpu:99"},
      {"--resume absent", "absent holds no complete state"},
      {"--resume nothing", "nothing holds no complete state"},
      {"--resume other", "other was not written by this version's --save"},
      {"--out empty --steps 1", "cannot make the folder empty"},
  };
  for (const auto& [arguments, words] : bad) {
    const Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << "\n" << outcome.words;
    EXPECT_THAT(outcome.words, HasSubstr(words)) << arguments;
    EXPECT_LE(std::count(outcome.words.begin(), outcome.words.end(), '\n'), 4) << outcome.words;
    EXPECT_THAT(outcome.words, Not(HasSubstr("pp:"))) << "a line of C++";
  }
  const std::pair<const char*, const char*> misused[] = {
      {"--preset enormous", "enormous"},
      {"--steps -3", "--steps: -3 is not a number of steps, 0 or more"},
      {"--steps 1e3", "1e3 is not a number"},
      {"--steps 99999999999999999999", "99999999999999999999 is not a number"},
      {"--seed -1", "--seed: -1 is not a seed, a whole number from 0 to 2^64 - 1"},
      {"--seed 18446744073709551616", "18446744073709551616 is not a seed"},
      {"--threads 0", "--threads: 0 is not a number of threads, 1 or more"},
      {"--length -1", "--length: -1 is not a number of characters"},
  };
  for (const auto& [arguments, words] : misused) {
    const Outcome outcome = train(arguments);
    EXPECT_NE(outcome.code, 0) << arguments;
    EXPECT_THAT(outcome.words, HasSubstr(words));
    EXPECT_LT(outcome.words.size(), 200u) << outcome.words;
  }
  EXPECT_EQ(train("--seed 18446744073709551615 --steps 0").code, 0);
}

TEST_F(Train, ADeviceThatIsMissingIsExplained) {
  for (const DeviceType type : {DeviceType::cuda, DeviceType::hpu}) {
    const Device missing(type, device_count(type));
    const Outcome outcome = train("--steps 1 --device " + missing.name());
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.words, "[train] there is no device " + missing.name() + "\n  " + why_no_device(missing) + "\n");
    EXPECT_FALSE(why_no_device(missing).empty());
  }
  EXPECT_EQ(why_no_device(Device()), "");
}

TEST(FindTheNan, PrintsItsUsage) {
  if (!std::filesystem::exists(examples + "weft-find-the-nan")) GTEST_SKIP() << "weft-find-the-nan was not built";
  const TemporaryFolder folder;
  const Outcome outcome = run(folder, "weft-find-the-nan --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.words, HasSubstr("Usage:"));
  EXPECT_FALSE(std::filesystem::exists(folder / "--help"));
  EXPECT_NE(run(folder, "weft-find-the-nan --folder").code, 0);
}

class Vision : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples + "weft-vision")) GTEST_SKIP() << "weft-vision was not built";
  }
  TemporaryFolder folder;
};

// From the program's output: "test accuracy 97.00 %".
double accuracy(const std::string& words) {
  std::smatch found;
  const std::string last = words.substr(words.rfind("test accuracy"));
  return std::regex_search(last, found, std::regex(R"(test accuracy ([0-9.]+) %)")) ? std::stod(found[1]) : -1;
}

TEST_F(Vision, LearnsDrawnDigitsAndLeavesPictures) {
  const Outcome outcome = run(folder, "weft-vision --images 1200 --epochs 3 --out r");
  ASSERT_EQ(outcome.code, 0) << outcome.words;
  EXPECT_GT(accuracy(outcome.words), 80) << outcome.words;
  for (const char* picture : {"confusion.svg", "filters.svg", "mistakes.svg"}) {
    EXPECT_THAT(read_bytes(folder / "r" / picture), HasSubstr("</svg>")) << picture;
  }
}

std::string idx(const std::vector<int>& sizes, const std::string& bytes) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const int size : sizes) out += {'\0', '\0', static_cast<char>(size >> 8), static_cast<char>(size & 255)};
  return out + bytes;
}

TEST_F(Vision, ReadsTheFilesOfMnist) {
  constexpr int count = 300;
  std::string pixels(count * 28 * 28, '\0'), labels(count, '\0');
  for (int i = 0; i < count; ++i) {  // a bar whose row tells the class
    labels[static_cast<size_t>(i)] = static_cast<char>(i % 10);
    for (int x = 0; x < 28; ++x) pixels[static_cast<size_t>((i * 28 + i % 10 * 2 + 4) * 28 + x)] = '\xFF';
  }
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(folder / (part + "-images-idx3-ubyte"), idx({count, 28, 28}, pixels));
    write_bytes(folder / (part + "-labels-idx1-ubyte"), idx({count}, labels));
  }
  const Outcome outcome = run(folder, "weft-vision --data . --epochs 4 --out r");
  ASSERT_EQ(outcome.code, 0) << outcome.words;
  EXPECT_GT(accuracy(outcome.words), 95) << outcome.words;
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx({count - 1}, labels.substr(1)));
  const Outcome refused = run(folder, "weft-vision --data . --out r");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.words, HasSubstr("uint8 [299]"));
  EXPECT_THAT(run(folder, "weft-vision --data absent --out r").words, HasSubstr("absent/train-images-idx3-ubyte"));
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
