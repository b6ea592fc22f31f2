// The first bad step of a training: its record, and its replay bit for bit.
#include <weft/io/step_recorder.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.hpp>

#include <collected_warnings.hpp>
#include <message_of.hpp>
#include <run_program.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A run with all that a step may depend on: dropout, momenta, batch statistics, a generator of its own.
struct Trained {
  nn::Sequential model{nn::Linear(4, 8), nn::BatchNorm1d(8), nn::Dropout(0.5), nn::ReLU(), nn::Linear(8, 1)};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};
  Generator own{7};
  bool zeroes = true;

  io::TrainingRun parts() { return {model, &optimizer, {{"own", &own}}}; }
  Tensor step(const io::TensorMap& batch) {
    if (zeroes) optimizer.zero_grad();
    const Tensor noise = randn({1}, f32, &own);
    const Tensor loss = (model(batch.at("x")) + noise - batch.at("y")).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  }
};

class StepRecorder : public testing::Test {
 protected:
  TemporaryFolder folder;
  const std::string path = (folder / "step.weft").string();
  CollectedWarnings warnings;

  static io::TensorMap batch(double y) { return {{"x", randn({6, 4})}, {"y", full({6, 1}, y)}}; }
  /// Steps up to `bad`, which has NaN targets.
  std::string trained(Trained& run, int bad, io::StepRecorderOptions options = {}) {
    io::StepRecorder recorder(path, run.parts(), std::move(options));
    const auto step = [&](const io::TensorMap& b) { return run.step(b); };
    for (int i = 0; i < bad + 3; ++i) recorder.step(step, batch(i == bad ? nan : 1.0));
    EXPECT_TRUE(recorder.found());
    return recorder.text();
  }
  static io::StepFunction function_of(Trained& run) {
    return [&run](const io::TensorMap& b) { return run.step(b); };
  }
};

TEST_F(StepRecorder, TheLastGoodStepAndTheBadOneRunAgainBitForBit) {
  Trained run;
  const std::string text = trained(run, 5);
  EXPECT_EQ(text, "step 5: the loss is NaN; left in " + path + ": ./weft replay " + path);
  Trained other;  // as a program that starts anew
  other.own = Generator(99);
  manual_seed(12345);
  for (int times = 0; times < 2; ++times) {
    const io::ReplayedStep good = io::replay_step(path, other.parts(), function_of(other), {.last_good = true});
    EXPECT_TRUE(good.same_bits) << good.text;
    EXPECT_FALSE(good.happens);
    EXPECT_EQ(good.step, 4);
    EXPECT_TRUE(std::isfinite(good.loss.item<double>()));
    const io::ReplayedStep bad = io::replay_step(path, other.parts(), function_of(other));
    EXPECT_TRUE(bad.same_bits) << bad.text;
    EXPECT_TRUE(bad.happens);
    EXPECT_EQ(bad.why, "the loss is NaN");
    EXPECT_EQ(bad.text, "step 5, bad: the loss is NaN\n  it still happens\n  every bit is as it was");
  }
}

TEST_F(StepRecorder, ModulesAreInTheirModesAgain) {
  Trained run;
  run.model.eval();
  run.model.named_children()[1].second.train();  // the batch norm trains, dropout does not
  trained(run, 3);
  Trained other;
  const io::ReplayedStep bad = io::replay_step(path, other.parts(), function_of(other));
  EXPECT_TRUE(bad.same_bits) << bad.text;
  for (const auto& [name, part] : other.model.named_modules()) EXPECT_EQ(part.is_training(), name == "1") << name;
}

struct Product : nn::Module {
  nn::Parameter weight;
  explicit Product(const Tensor& w) : weight(w) { WEFT_REGISTER(weight); }
  Tensor forward(const Tensor& x) const { return matmul(x, weight.t()); }
};

TEST_F(StepRecorder, TensorsHaveTheirOldLayouts) {
  struct Layout {
    Product net{randn({4, 6})};
    std::vector<Dims> seen;
    Tensor step(const io::TensorMap& batch) {
      seen = {net.weight.strides(), batch.at("image").strides(), batch.at("gaps").strides(),
              batch.at("turned").strides(), batch.at("repeated").strides()};
      if (net.weight.grad().defined()) seen.push_back(net.weight.grad().strides());
      const Tensor loss = net.forward(batch.at("x")).sum() + batch.at("image").sum() + batch.at("gaps").sum() +
                          batch.at("turned").sum() + batch.at("repeated").sum();
      loss.backward();
      return loss;
    }
  } run{Product(randn({6, 4}).t()), {}}, other;
  run.net.weight.set_grad(randn({6, 4}).t());
  const auto batch = [](double x) {
    return io::TensorMap{{"x", full({2, 6}, x)},
                         {"image", randn({2, 4, 4, 3}).permute({0, 3, 1, 2})},
                         {"gaps", randn({4, 6})[{Slice(), Slice(0, none, 2)}]},
                         {"turned", randn({4})[{Slice(none, none, -1)}]},
                         {"repeated", randn({3, 1}).expand({3, 4})}};
  };
  const io::StepFunction function = [&run](const io::TensorMap& b) { return run.step(b); };
  io::StepRecorder recorder(path, {run.net, nullptr});
  recorder.step(function, batch(1));
  recorder.step(function, batch(nan));
  const std::vector<Dims> then = run.seen;
  ASSERT_EQ(then.size(), 6u);
  EXPECT_EQ(then[0], (Dims{1, 4}));
  EXPECT_EQ(then[1], (Dims{48, 1, 12, 3}));
  EXPECT_EQ(then[3], (Dims{-1}));
  const io::StepFunction again = [&other](const io::TensorMap& b) { return other.step(b); };
  const io::ReplayedStep bad = io::replay_step(path, {other.net, nullptr}, again);
  EXPECT_TRUE(bad.same_bits) << bad.text;
  EXPECT_EQ(other.seen, then);
  // Also if the present ones are in another order.
  Layout turned{Product(randn({6, 4}).t()), {}}, plain;
  io::StepRecorder second((folder / "plain.weft").string(), {plain.net, nullptr});
  second.step([&](const io::TensorMap& b) { return plain.step(b); }, batch(nan));
  const io::ReplayedStep row_major = io::replay_step((folder / "plain.weft").string(), {turned.net, nullptr},
                                                     [&](const io::TensorMap& b) { return turned.step(b); });
  EXPECT_TRUE(row_major.same_bits) << row_major.text;
  EXPECT_EQ(turned.seen, plain.seen);
}

TEST_F(StepRecorder, AnotherStepHasOtherBitsAndIsNamed) {
  Trained run;
  trained(run, 3);
  Trained other;
  const auto with_more = [&](const io::TensorMap& b) {
    Tensor loss = other.step(b);
    const NoGradGuard unrecorded;
    other.model.parameters()[0].add_(1.0);
    return loss;
  };
  const io::ReplayedStep good = io::replay_step(path, other.parts(), with_more, {.last_good = true});
  EXPECT_FALSE(good.same_bits);
  EXPECT_EQ(good.differs, std::vector<std::string>{"weights: 0.weight"});
  const auto drawing = [&](const io::TensorMap& b) {
    randn({1});
    return other.step(b);
  };
  const io::ReplayedStep drawn = io::replay_step(path, other.parts(), drawing, {.last_good = true});
  EXPECT_FALSE(drawn.same_bits);
  EXPECT_EQ(drawn.differs.front(), "loss");
  EXPECT_EQ(drawn.differs.back(), "generators");
  const auto healed = [&](const io::TensorMap& b) { return other.step({{"x", b.at("x")}, {"y", ones({6, 1})}}); };
  const io::ReplayedStep well = io::replay_step(path, other.parts(), healed);
  EXPECT_FALSE(well.happens) << well.text;
  EXPECT_NE(well.text.find("it does not happen here"), std::string::npos);
}

TEST_F(StepRecorder, IgnoresChangesBetweenSteps) {
  Trained run;
  io::StepRecorder recorder(path, run.parts());
  for (const double y : {1.0, 1.0, nan}) {
    recorder.step(function_of(run), batch(y));
    run.optimizer.set_lr(run.optimizer.lr() * 0.5);
    const NoGradGuard unrecorded;
    run.model.parameters()[1].add_(0.25);
  }
  EXPECT_NE(warnings.texts.at(0).find("step 2: the loss is NaN; left in "), std::string::npos);
  const io::ReplayedStep good = io::replay_step(path, run.parts(), function_of(run), {.last_good = true});
  EXPECT_TRUE(good.same_bits) << good.text;
  EXPECT_NE(
      good.text.find(
          "not compared, since the program changed it before the next step: weights: 0.bias, optimizer: group.0.lr"),
      std::string::npos)
      << good.text;
  const io::ReplayedStep bad = io::replay_step(path, run.parts(), function_of(run));
  EXPECT_TRUE(bad.same_bits) << bad.text;
  EXPECT_EQ(bad.text.find("not compared"), std::string::npos);
}

TEST_F(StepRecorder, GradientsThatAStepAddsToAreKept) {
  Trained run;
  run.zeroes = false;
  trained(run, 4);
  Trained other;
  other.zeroes = false;
  EXPECT_TRUE(io::replay_step(path, other.parts(), function_of(other), {.last_good = true}).same_bits);
  EXPECT_TRUE(io::replay_step(path, other.parts(), function_of(other)).same_bits);
  Trained first;  // its first step begins without any, whatever the run has
  first.zeroes = false;
  std::filesystem::remove_all(path);
  trained(first, 1);
  EXPECT_TRUE(io::replay_step(path, other.parts(), function_of(other), {.last_good = true}).same_bits);
}

TEST_F(StepRecorder, ExceptionsPropagateAndAreRepeated) {
  Trained run;
  io::StepRecorder recorder(path, run.parts());
  recorder.step(function_of(run), batch(1.0));
  const auto guarded = [&](const io::TensorMap& b) {
    const AnomalyGuard guard({.repro = ""});
    return run.step(b);
  };
  io::TensorMap bad = batch(1.0);
  bad["x"] = full({6, 4}, 1e38);
  EXPECT_THROW(recorder.step(guarded, bad), NonFiniteError);
  EXPECT_NE(recorder.text().find("step 1: it threw ["), std::string::npos) << recorder.text();
  const io::ReplayedStep again = io::replay_step(path, run.parts(), guarded);
  EXPECT_TRUE(again.happens && again.same_bits) << again.text;
  // Another error is the program's to see.
  EXPECT_THROW(
      io::replay_step(path, run.parts(), [](const io::TensorMap&) -> Tensor { throw std::runtime_error("other"); }),
      std::runtime_error);
}

TEST_F(StepRecorder, AGuardAroundAReplayNamesTheOp) {
  Trained run;
  trained(run, 2);
  const std::string text = message_of<NonFiniteError>([&] {
    io::replay_step(path, run.parts(), [&](const io::TensorMap& b) {
      const AnomalyGuard guard({.repro = ""});
      return run.step({{"x", b.at("x")}, {"y", b.at("y") - b.at("y").sqrt()}});
    });
  });
  (void)text;
  const auto overflow = [&](const io::TensorMap& b) {
    const AnomalyGuard guard({.repro = ""});
    return run.step({{"x", b.at("x") * 1e38 * 1e38}, {"y", ones({6, 1})}});
  };
  EXPECT_NE(message_of<NonFiniteError>([&] { io::replay_step(path, run.parts(), overflow); }).find("[mul]"),
            std::string::npos);
}

TEST_F(StepRecorder, EachKindOfBadIsFoundAndMayBeLeftAlone) {
  nn::Linear model(2, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 1e38});
  const auto found = [&](io::StepRecorderOptions options, const io::StepFunction& f) {
    std::filesystem::remove_all(path);
    io::StepRecorder recorder(path, {model, &optimizer}, std::move(options));
    recorder.step(f, {});
    const std::string text = recorder.text();
    return text.substr(0, text.find(';'));
  };
  const auto loss = [](const io::TensorMap&) { return tensor({1.0, nan}); };
  const auto gradient = [&](const io::TensorMap&) {
    model.weight.set_grad(full({1, 2}, std::numeric_limits<double>::infinity()));
    return ones({1});
  };
  const auto parameter = [&](const io::TensorMap&) {
    model.weight.set_grad({});
    const NoGradGuard unrecorded;
    model.bias.fill_(nan);
    return Tensor();
  };
  const auto good = [](const io::TensorMap&) { return ones({1}); };
  EXPECT_EQ(found({}, loss), "step 0: the loss is NaN");
  EXPECT_EQ(found({.loss = false}, loss), "");
  EXPECT_EQ(found({}, gradient), "step 0: the gradient of weight has Inf");
  EXPECT_EQ(found({.gradients = false}, gradient), "");
  EXPECT_EQ(found({.finding = [] { return std::string("mine"); }, .first_step = 17}, good),
            "step 17: the gradient of weight has Inf");
  model.weight.set_grad({});
  EXPECT_EQ(found({.finding = [] { return std::string("mine"); }, .first_step = 17}, good), "step 17: mine");
  EXPECT_EQ(found({}, good), "");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(found({}, parameter), "step 0: bias has NaN");
  EXPECT_EQ(found({.parameters = false}, good), "");
}

TEST_F(StepRecorder, TheFirstStepMayBeTheBadOne) {
  Trained run;
  trained(run, 0);
  EXPECT_TRUE(io::replay_step(path, run.parts(), function_of(run)).same_bits);
  EXPECT_THROW(io::replay_step(path, run.parts(), function_of(run), {.last_good = true}), ValueError);
}

TEST_F(StepRecorder, TheBatchIsAsItWasBeforeTheStepWroteIntoIt) {
  nn::Linear model(2, 1);
  const auto step = [&](const io::TensorMap& b) {
    b.at("x").mul_(2.0);
    b.at("x").t().add_(1.0);
    return model(b.at("x")).sum() + b.at("n").sum() * 0.0 + b.at("none").sum() + b.at("bad").sum();
  };
  io::StepRecorder recorder(path, {model});
  recorder.step(step, {{"x", ones({2, 3}).t().narrow(0, 0, 2).t().contiguous().t()},
                       {"n", arange(3)},
                       {"none", zeros({0, 4})},
                       {"mask", tensor({true, false})},
                       {"half", ones({2}, f16)},
                       {"", ones({1})},
                       {"bad", tensor(nan)}});
  ASSERT_TRUE(recorder.found());
  std::optional<io::TensorMap> seen;
  io::replay_step(path, {model}, [&](const io::TensorMap& b) {
    seen.emplace();
    for (const auto& [name, t] : b) seen->emplace(name, t.clone());
    return step(b);
  });
  EXPECT_EQ(seen->at("x").to_vector<double>(), std::vector<double>(seen->at("x").numel(), 1.0));
  EXPECT_EQ(seen->at("n").dtype(), i64);
  EXPECT_EQ(seen->at("none").shape(), (Dims{0, 4}));
  EXPECT_EQ(seen->at("bad").dim(), 0);
  EXPECT_EQ(seen->at("mask").dtype(), boolean);
  EXPECT_EQ(seen->at("half").dtype(), f16);
  EXPECT_EQ(seen->size(), 7u);
  EXPECT_NE(io::step_text(path).find("batch none: float32 [0, 4] on cpu"), std::string::npos) << io::step_text(path);
}

TEST_F(StepRecorder, RestoresAddedState) {
  Trained run;
  int64_t counter = 41;
  io::StepRecorder recorder(path, run.parts(), {.add_state = [&](io::RunState& s) {
                              s.documents["mine"] = std::to_string(counter);
                              s.tensors["average"] = full({2}, static_cast<double>(counter));
                            }});
  const auto step = [&](const io::TensorMap& b) {
    ++counter;
    return run.step(b);
  };
  recorder.step(step, batch(1.0));
  recorder.step(step, batch(nan));
  counter = 0;
  double average = 0;
  io::replay_step(path, run.parts(), step, {.restore_state = [&](const io::RunState& s) {
                    counter = std::stoll(s.documents.at("mine"));
                    average = s.tensors.at("average").to_vector<double>()[0];
                  }});
  EXPECT_EQ(counter, 43);
  EXPECT_EQ(average, 42);
}

TEST_F(StepRecorder, FoldersOfSomethingElseAreLeftAloneAndEarlierOnesReplaced) {
  Trained run;
  trained(run, 1);
  Trained second;
  trained(second, 2);
  EXPECT_EQ(io::replay_step(path, run.parts(), function_of(run)).step, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 3);
  const std::string mine = (folder / "mine").string();
  std::filesystem::create_directory(mine);
  write_bytes(mine + "/file", "text");
  EXPECT_THROW(io::StepRecorder(mine, run.parts()), ValueError);
  EXPECT_THROW(io::StepRecorder("/proc/no/such", run.parts()), IoError);
  io::save_training_state(mine + "-run", run.parts(), {.step = 3});
  EXPECT_THROW(io::StepRecorder(mine + "-run", run.parts()), ValueError);
  EXPECT_FALSE(io::holds_step(mine + "-run"));
  EXPECT_THROW(io::replay_step(mine + "-run", run.parts(), function_of(run)), IoError);
  EXPECT_THROW(io::step_text(mine), IoError);
  EXPECT_TRUE(io::holds_step(path));
}

TEST_F(StepRecorder, DamagedFoldersAreErrorsAndChangeNothing) {
  Trained run;
  trained(run, 2);
  const auto before = run.model.parameters()[0].to_vector<double>();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file() || entry.path().filename() == "COMPLETE") continue;
    const std::string bytes = read_bytes(entry.path().string());
    write_bytes(entry.path().string(), bytes.substr(0, bytes.size() / 2));
    EXPECT_ANY_THROW(io::replay_step(path, run.parts(), function_of(run), {.last_good = true});
                     io::replay_step(path, run.parts(), function_of(run)))
        << entry.path();
    write_bytes(entry.path().string(), bytes);
  }
  nn::Linear other(3, 3);
  EXPECT_THROW(io::replay_step(path, {other}, function_of(run)), Error);
  EXPECT_TRUE(io::replay_step(path, run.parts(), function_of(run)).same_bits);
}

TEST_F(StepRecorder, AFullDiskOrMemoryWarnsAndTrainingContinues) {
  Trained run;
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit little = before;
  little.rlim_cur = 300;
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string text = trained(run, 2);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(text.find("step 2: the loss is NaN; not left: "), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 0);  // no half of it either
  Trained small;
  io::StepRecorder recorder(path, small.parts(), {.most_bytes = 100});
  for (int i = 0; i < 3; ++i) recorder.step(function_of(small), batch(i == 1 ? nan : 1.0));
  EXPECT_FALSE(recorder.found());
  ASSERT_FALSE(warnings.texts.empty());
  EXPECT_NE(warnings.texts.back().find("most_bytes"), std::string::npos);
}

TEST_F(StepRecorder, AKilledProcessLeavesNoHalf) {
  Trained run;
  trained(run, 1);
  for (int microseconds = 200; microseconds < 8000; microseconds = microseconds * 5 / 4) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      set_warning_handler([](const Warning&) {});
      io::StepRecorder recorder(path, run.parts());
      recorder.step(function_of(run), batch(1.0));
      for (;;) {
        io::StepRecorder again(path, run.parts());
        again.step(function_of(run), batch(1.0));
        again.step(function_of(run), batch(nan));
      }
    }
    ::usleep(static_cast<useconds_t>(microseconds));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_NO_THROW(io::step_text(path));
    Trained other;
    EXPECT_TRUE(io::replay_step(path, other.parts(), function_of(other)).happens);
  }
}

TEST_F(StepRecorder, WrongCallsAreErrors) {
  Trained run;
  io::StepRecorder recorder(path, run.parts());
  EXPECT_THROW(recorder.step(function_of(run), {{"x", Tensor()}}), ValueError);
  EXPECT_FALSE(recorder.found());
  nn::Linear other(2, 2);
  optim::SGD optimizer(other.parameters(), {.lr = 0.1});
  EXPECT_THROW(io::StepRecorder(path, {run.model, &optimizer}), ValueError);
}

TEST_F(StepRecorder, ADevicesBatchComesBackToIt) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  nn::Linear model(2, 1);
  model.to(Device("hpu"));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto step = [&](const io::TensorMap& b) {
    optimizer.zero_grad();
    const Tensor loss = (model(b.at("x")) - b.at("y")).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  };
  io::StepRecorder recorder(path, {model, &optimizer});
  const Device there("hpu");
  for (const double y : {1.0, nan})
    recorder.step(step, {{"x", randn({4, 2}).to(there)}, {"y", full({4, 1}, y).to(there)}});
  EXPECT_TRUE(io::replay_step(path, {model, &optimizer}, step, {.last_good = true}).same_bits);
  EXPECT_TRUE(io::replay_step(path, {model, &optimizer}, step).same_bits);
}

TEST_F(StepRecorder, TheProgramDescribesAndRepeatsAFolder) {
  const Outcome trained = run(folder, "weft-bad-step");
  EXPECT_EQ(trained.code, 0);
  EXPECT_NE(trained.words.find("step 40: "), std::string::npos) << trained.words;
  const Outcome said = run(folder, "weft-replay step.weft");
  EXPECT_EQ(said.code, 0);
  for (const char* part :
       {"step 39, the last good one", "step 40, bad: ", "batch x: float32 [8, 4] on cpu", "Adam: ", "lr 0.01"}) {
    EXPECT_NE(said.words.find(part), std::string::npos) << said.words;
  }
  const std::string command = "cd " + folder.path().string() + " && " WEFT_SOURCE_DIR "/weft replay step.weft -- " +
                              examples + "weft-bad-step > again 2>&1";
  const int status = std::system(command.c_str());
  const std::string words = read_bytes(folder / "again");
  EXPECT_EQ(WEXITSTATUS(status), 1) << words;
  EXPECT_NE(words.find("step 39, the last good one\n  every bit is as it was"), std::string::npos) << words;
  EXPECT_NE(words.find("it still happens\n  every bit is as it was"), std::string::npos) << words;
}

}  // namespace
}  // namespace weft
