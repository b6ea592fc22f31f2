#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/io/mapping.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Two groups, dropout, a cosine of the learning rate, clipping, and a generator of the program's own.
struct Trained {
  nn::Sequential net{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.3), nn::Linear(8, 2)};
  optim::AdamW optimizer{std::vector{net.parameters()[0]}, {.lr = 0.01}};
  Generator data{5};

  Trained() {
    const std::vector<Tensor> all = net.parameters();
    optimizer.add_group({all.begin() + 1, all.end()}, {.lr = 0.02, .weight_decay = 0});
  }
  io::TrainingRun run() { return {net, &optimizer, {{"data", &data}}}; }
  void forward_backward() {
    const Tensor x = randn({16, 4}, {}, &data), y = randn({16, 2}, {}, &data);
    mse_loss(net(x), y).backward();
  }
  void steps(int from, int to) {
    for (int step = from; step < to; ++step) {
      const double factor = 0.5 * (1 + std::cos(3.14159 * step / 10));
      optimizer.set_lr(0.01 * factor, 0), optimizer.set_lr(0.02 * factor, 1);
      optimizer.zero_grad();
      forward_backward();
      optim::clip_grad_norm_(net.parameters(), 0.5);
      optimizer.step();
    }
  }
  std::vector<float> weights() const {
    std::vector<float> out;
    for (const Tensor& p : net.parameters()) {
      for (const float v : p.to_vector<float>()) out.push_back(v);
    }
    return out;
  }
};

void go_on_from_five(const fs::path& folder) {
  manual_seed(99);
  Trained second;
  if (io::load_training_state(folder / "run", second.run()).step != 5) std::_Exit(2);
  second.steps(5, 10);
  io::save_file({{"weights", tensor(second.weights())}}, folder / "second.safetensors");
}

[[noreturn]] void save_until_killed(const fs::path& folder) {
  nn::Linear layer(64, 64);
  int64_t step = 0;
  if (!io::training_states(folder / "run").empty()) step = io::read_run_state(folder / "run").step;
  for (;;) {
    ++step;
    const NoGradGuard unrecorded;
    for (const Tensor& p : layer.parameters()) p.fill_(static_cast<double>(step));
    io::save_training_state(folder / "run", {layer}, {.step = step}, {.keep_last = 2});
  }
}

// The mode of this program if a test started it.
class OtherProcess : public ::testing::Environment {
  void SetUp() override {
    const char *role = std::getenv("WEFT_TEST_ROLE"), *folder = std::getenv("WEFT_TEST_FOLDER");
    if (role == nullptr || folder == nullptr) return;
    if (role == std::string_view("go_on")) go_on_from_five(folder);
    else save_until_killed(folder);
    std::_Exit(0);
  }
};
[[maybe_unused]] const auto* const other_process = ::testing::AddGlobalTestEnvironment(new OtherProcess);

pid_t start(const char* role, const TemporaryFolder& folder) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setenv("WEFT_TEST_ROLE", role, 1), ::setenv("WEFT_TEST_FOLDER", folder.path().c_str(), 1);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, 1), ::dup2(nowhere, 2);
  ::execl(self.c_str(), self.c_str(), nullptr);
  ::_exit(1);
}

TEST(TrainingState, TenStepsAreFiveAndFiveInAnotherProcessBitForBit) {
  const TemporaryFolder folder;
  manual_seed(11);
  Trained straight;
  straight.steps(0, 10);
  manual_seed(11);
  Trained first;
  first.steps(0, 5);
  io::save_training_state(folder / "run", first.run(), {.step = 5});
  int status = 0;
  ::waitpid(start("go_on", folder), &status, 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const Tensor second = io::load_file(folder / "second.safetensors").at("weights");
  EXPECT_EQ(second.to_vector<float>(), straight.weights());
}

TEST(TrainingState, AccumulatedGradientsAreRestored) {
  const TemporaryFolder folder;
  manual_seed(3);
  Trained straight;
  straight.forward_backward();
  const auto saved = io::save_training_state(folder / "run", straight.run(), {.step = 1, .accumulated = 1});
  straight.forward_backward();
  straight.optimizer.step();

  Trained other;
  other.forward_backward();
  EXPECT_EQ(io::load_training_state(saved, other.run()).accumulated, 1);
  other.forward_backward();
  other.optimizer.step();
  EXPECT_EQ(other.weights(), straight.weights());
}

struct Halves : nn::Layer<Halves> {
  nn::Linear upper{4, 3}, lower{4, 3};
  nn::Linear adapter{4, 1};
  Halves() { WEFT_REGISTER(upper, lower, adapter); }
  Tensor forward(const Tensor& x) const { return cat({upper(x), lower(x)}, 1); }
};

TEST(TrainingState, AMappingCarriesWeightsMomentsAndGradientsToAnotherModel) {
  const TemporaryFolder folder;
  const Tensor x = randn({5, 4}), y = randn({5, 6});
  nn::Linear whole(4, 6);
  optim::AdamW optimizer(whole.parameters(), {.lr = 0.1});
  const auto backward = [&](const nn::AnyModule& net) { mse_loss(net(x), y).backward(); };
  backward(whole);
  optimizer.step();
  io::save_training_state(folder / "run", {whole, &optimizer}, {.step = 1, .accumulated = 1});

  Halves halves;
  optim::AdamW same(halves.parameters(), {.lr = 0.5});
  const std::vector<float> adapter = halves.adapter.weight.to_vector<float>();
  const io::Mapping mapping = io::Mapping::parse(R"(
    weight -> upper.weight, lower.weight, axis=0
    bias -> upper.bias, lower.bias, axis=0
    _ -> adapter.weight
    _ -> adapter.bias
  )");
  EXPECT_THROW(io::load_training_state(folder / "run", {halves, &same}), ValueError);
  EXPECT_EQ(io::load_training_state(folder / "run", {halves, &same}, {.mapping = &mapping}).step, 1);
  EXPECT_EQ(halves.adapter.weight.to_vector<float>(), adapter);
  backward(whole), backward(halves);
  optimizer.step(), same.step();
  EXPECT_TRUE(allclose(cat({halves.upper.weight, halves.lower.weight}, 0), whole.weight, 1e-5, 1e-6));
  EXPECT_TRUE(allclose(cat({halves.upper.bias, halves.lower.bias}, 0), whole.bias, 1e-5, 1e-6));

  io::load_training_state(folder / "run", {halves}, {.weights_only = true, .mapping = &mapping});
  const io::Mapping uneven = io::Mapping::parse("weight -> upper.weight, lower.weight, adapter.weight, axis=1");
  EXPECT_THROW(io::load_training_state(folder / "run", {halves}, {.mapping = &uneven}), ShapeError);
}

TEST(TrainingState, ReturnsCountersAndDocuments) {
  const TemporaryFolder folder;
  Trained t;
  const io::RunState state{.step = 7,
                           .epoch = 2,
                           .samples = 1'000'000'000'000,
                           .best_metric = -std::numeric_limits<double>::infinity(),
                           .documents = {{"config", R"({"width":[1,2]})"}, {"scheduler", "null"}}};
  const io::Path path = io::save_training_state(folder / "run", t.run(), state);
  EXPECT_EQ(path.string(), (folder / "run/step-00000007").string());
  const io::RunState read = io::read_run_state(folder / "run");
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.epoch, 2);
  EXPECT_EQ(read.samples, 1'000'000'000'000);
  EXPECT_EQ(read.best_metric, state.best_metric);
  EXPECT_EQ(read.documents, state.documents);
  EXPECT_EQ(io::load_file(path / "model.safetensors").size(), t.net.state_dict().size());
}

TEST(TrainingState, RejectsInvalidStatesBeforeWriting) {
  const TemporaryFolder folder;
  Trained t;
  const auto save = [&](const io::RunState& state) { io::save_training_state(folder / "run", t.run(), state); };
  EXPECT_THROW(save({.step = -1}), ValueError);
  EXPECT_THROW(save({.documents = {{"config", "{"}}}), ValueError);
  EXPECT_THROW(save({.documents = {{"config", std::string("1\0x", 3)}}}), ValueError);
  for (const char* name : {"", "a/b", "..", "trainer", "rng-0"}) {
    EXPECT_THROW(save({.documents = {{name, "1"}}}), ValueError) << name;
  }
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_THROW(io::load_training_state(folder / "run", t.run()), IoError);
}

TEST(TrainingState, KeepsTheLastAndTouchesNothingElse) {
  const TemporaryFolder folder;
  Trained t;
  fs::create_directories(folder / "run/step-00000002");  // not complete
  write_bytes(folder / "run/notes.txt", "mine");
  for (const int64_t step : {1, 3, 9, 4, 100'000'000, 5}) {
    io::save_training_state(folder / "run", t.run(), {.step = step}, {.keep_last = 2});
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run")) names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("step-00000002", "notes.txt", "step-00000005", "step-00000009",
                                                     "step-100000000"));
  EXPECT_EQ(io::read_run_state(folder / "run").step, 100'000'000);
  EXPECT_EQ(io::training_states(folder / "run").size(), 3u);
}

TEST(TrainingState, ReplacesAStateOfTheSameStep) {
  const TemporaryFolder folder;
  Trained t;
  io::save_training_state(folder / "run", t.run(), {.step = 1, .documents = {{"old", "1"}}});
  io::save_training_state(folder / "run", t.run(), {.step = 1, .documents = {{"new", "2"}}});
  EXPECT_EQ(io::read_run_state(folder / "run").documents, (std::map<std::string, std::string>{{"new", "2"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "run"), {}), 1);
}

TEST(TrainingState, DamageAndStrangersAreRefusedAndNothingChanges) {
  const TemporaryFolder folder;
  Trained saved;
  saved.steps(0, 2);
  saved.forward_backward();
  const fs::path state = io::save_training_state(folder / "run", saved.run(), {.step = 2, .accumulated = 1});
  Trained t;
  t.steps(0, 1);
  const std::vector<float> before = t.weights();
  const auto loads = [&] { io::load_training_state(folder / "run", t.run()); };
  for (const auto& entry : fs::directory_iterator(state)) {
    const std::string name = entry.path().filename(), bytes = read_bytes(entry.path());
    write_bytes(entry.path(), bytes.substr(0, bytes.size() / 2));
    EXPECT_THROW(loads(), FormatError) << name << " cut";
    std::string spoilt = bytes;
    std::fill_n(spoilt.begin(), 12, '\xff');
    write_bytes(entry.path(), spoilt);
    EXPECT_THROW(loads(), Error) << name << " spoilt";
    fs::remove(entry.path());
    if (name == "COMPLETE") EXPECT_THROW(loads(), IoError);
    else EXPECT_THAT(message_of<Error>(loads), HasSubstr(name + " is missing"));
    write_bytes(entry.path(), bytes);
    EXPECT_EQ(t.weights(), before) << name;
  }
  nn::Linear other(3, 2);
  EXPECT_THROW(io::load_training_state(folder / "run", {other}), Error);
  optim::SGD sgd(t.net.parameters(), {.lr = 0.1, .momentum = 0.9});
  EXPECT_THROW(io::load_training_state(folder / "run", {t.net, &sgd}), ValueError);
  Generator more;
  EXPECT_THROW(io::load_training_state(folder / "run", {t.net, &t.optimizer, {{"more", &more}}}), FormatError);
  EXPECT_EQ(t.weights(), before);
  loads();
  EXPECT_EQ(t.weights(), saved.weights());
}

TEST(TrainingState, WhereTheNewestIsDamagedTheLastWholeOneIsNamed) {
  const TemporaryFolder folder;
  Trained t;
  for (const int64_t step : {1, 2, 3, 4}) io::save_training_state(folder / "run", t.run(), {.step = step});
  const auto cut = [&](const char* state) { fs::resize_file(folder / "run" / state / "model.safetensors", 50); };
  const auto loads = [&] { io::load_training_state(folder / "run", t.run()); };
  const auto reads = [&] { io::read_run_state(folder / "run"); };
  cut("step-00000004"), cut("step-00000003");
  for (const std::string& text : {message_of<FormatError>(loads), message_of<FormatError>(reads)}) {
    EXPECT_THAT(text, testing::AllOf(HasSubstr("step-00000004/model.safetensors has 50 bytes"),
                                     HasSubstr("run/step-00000002 is whole: load that folder, or remove "),
                                     HasSubstr("training_state_test.cpp:")));
    EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
  }
  EXPECT_EQ(io::load_training_state(folder / "run/step-00000002", t.run()).step, 2);
  cut("step-00000002"), cut("step-00000001");
  EXPECT_THAT(message_of<FormatError>(loads), HasSubstr("no other state in the folder is whole"));
}

TEST(TrainingState, TensorsOfTheProgramsOwnComeBack) {
  const TemporaryFolder folder;
  Trained t;
  const std::map<std::string, Tensor> own = {{"average.0", randn({3, 2})}, {"count", full({}, 7, i64)}};
  io::save_training_state(folder / "run", t.run(), {.step = 1, .tensors = own});
  {
    io::BackgroundSaver saver(folder / "run");
    const Tensor changed = own.at("average.0").clone();
    saver.save(t.run(), {.step = 2, .tensors = {{"average.0", changed}, {"count", own.at("count")}}});
    changed.fill_(0);
    saver.wait();
  }
  for (const auto& state : io::training_states(folder / "run")) {
    const io::RunState read = io::load_training_state(state, t.run());
    ASSERT_EQ(read.tensors.size(), 2u);
    for (const auto& [name, tensor] : own) EXPECT_TRUE(equal(read.tensors.at(name), tensor)) << name;
  }
  const Tensor twice = ones({2});
  EXPECT_THROW(io::save_training_state(folder / "run", t.run(), {.step = 3, .tensors = {{"a", twice}, {"b", twice}}}),
               ValueError);
  EXPECT_EQ(io::training_states(folder / "run").size(), 2u);
}

TEST(TrainingState, MasterWeightsAreSavedByName) {
  const TemporaryFolder folder;
  const auto make = [] {
    nn::Sequential net(nn::Linear(3, 4), nn::LayerNorm({4}), nn::Linear(4, 2));
    net[0].to(bf16);
    net[2].to(f16);
    return net;
  };
  const nn::Sequential net = make(), other = make();
  const auto trained = [&](const nn::Sequential& n, optim::MasterWeights& masters, optim::Optimizer& optimizer) {
    for (const Tensor& p : n.parameters()) p.set_grad(ones(p.shape(), p.dtype()));
    masters.step(optimizer);
  };
  optim::MasterWeights a(net.parameters()), b(other.parameters());
  optim::AdamW first(a.parameters(), {.lr = 1e-4}), second(b.parameters(), {.lr = 1e-4});
  trained(net, a, first);
  nn::Sequential saved_net = net, loaded_net = other;
  const io::Path state = io::save_training_state(folder / "run", {saved_net, &first, {}, &a}, {.step = 1});
  const io::TensorMap file = io::load_file(state / "masters.safetensors");
  EXPECT_EQ(file.size(), 4u);
  EXPECT_TRUE(equal(file.at("2.weight"), a.parameters()[4]));
  io::load_training_state(folder / "run", {loaded_net, &second, {}, &b});
  trained(net, a, first);
  trained(other, b, second);
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(equal(a.parameters()[i], b.parameters()[i])) << i;
    EXPECT_TRUE(equal(net.parameters()[i], other.parameters()[i])) << i;
  }
}

TEST(TrainingState, NamesThatAreNotTheModulesHaveARemedyThatThereIs) {
  const TemporaryFolder folder;
  Trained t;
  const fs::path state = io::save_training_state(folder / "run", t.run(), {.step = 1});
  nn::Linear other(4, 8);
  const std::string text = message_of<ValueError>([&] { io::load_training_state(folder / "run", {other}); });
  EXPECT_THAT(text, testing::AllOf(HasSubstr("missing: weight, bias"), HasSubstr("unexpected: 0.bias, 0.weight"),
                                   HasSubstr("module.load_state_dict(io::load_file("), HasSubstr("_test.cpp:")));
  nn::Sequential part(nn::Linear(4, 8));
  part.load_state_dict(io::load_file(state / "model.safetensors"), false);
  EXPECT_TRUE(equal(part.parameters()[0], t.net.parameters()[0]));
  io::save_checkpoint(folder / "one", t.net);
  const std::string words = message_of<ValueError>([&] { io::load_checkpoint(folder / "one", other); });
  EXPECT_THAT(
      words, testing::AllOf(HasSubstr("/one: the names are not the module's"), HasSubstr("as the one that was saved")));
  EXPECT_THAT(words, testing::Not(HasSubstr("strict")));
}

TEST(TrainingState, WithoutAnOptimizerOnlyTheWeightsAreLoaded) {
  const TemporaryFolder folder;
  Trained saved, t;
  io::save_training_state(folder / "run", {saved.net}, {.step = 1});
  EXPECT_THAT(message_of<Error>([&] {
                io::load_training_state(folder / "run", {t.net, &t.optimizer});
              }),
              HasSubstr("holds no optimizer's state"));
  io::load_training_state(folder / "run", {t.net, &t.optimizer}, {.weights_only = true});
  EXPECT_EQ(t.weights(), saved.weights());
}

TEST(TrainingState, OtherStateIsNotRestoredWithTheWeightsAlone) {
  const TemporaryFolder folder;
  Trained saved, t;
  io::save_training_state(folder / "run", saved.run(), {.step = 1});
  const auto before = t.weights();
  bool called = false;
  const io::LoadStateOptions options{.weights_only = true, .restore_others = [&] { called = true; }};
  EXPECT_THAT(message_of<ValueError>([&] { io::load_training_state(folder / "run", t.run(), options); }),
              testing::AllOf(HasSubstr("restore_others"), HasSubstr("weights_only")));
  EXPECT_FALSE(called);
  EXPECT_EQ(t.weights(), before);
}

TEST(TrainingState, ANewerFormatIsRefused) {
  const TemporaryFolder folder;
  Trained t;
  const fs::path state = io::save_training_state(folder / "run", t.run(), {.step = 1});
  std::string text = read_bytes(state / "COMPLETE");
  text.replace(text.find("\"format_version\": 1"), 19, "\"format_version\": 2");
  write_bytes(state / "COMPLETE", text);
  EXPECT_THROW(io::read_run_state(folder / "run"), VersionError);
  EXPECT_THAT(message_of<Error>([&] { io::read_run_state(folder / "run"); }), HasSubstr("newer than this program's 1"));
}

TEST(TrainingState, FoldersThatCannotBeWrittenAreNamed) {
  const TemporaryFolder folder;
  Trained t;
  write_bytes(folder / "file", "");
  EXPECT_THAT(message_of<Error>([&] { io::save_training_state(folder / "file", t.run(), {}); }),
              HasSubstr("it is no folder"));
  EXPECT_THAT(message_of<Error>([&] { io::save_training_state(folder / "file/run", t.run(), {}); }),
              HasSubstr("it is no folder"));
  io::save_training_state(folder / "not/there", t.run(), {.step = 1});
  EXPECT_EQ(io::read_run_state(folder / "not/there").step, 1);
}

TEST(TrainingState, AFullDiskKeepsTheOldState) {
  const TemporaryFolder folder;
  Trained t;
  io::save_training_state(folder / "run", t.run(), {.step = 1});
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit little = before;
  little.rlim_cur = 200;
  ::setrlimit(RLIMIT_FSIZE, &little);
  EXPECT_THROW(io::save_training_state(folder / "run", t.run(), {.step = 2}), IoError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(io::read_run_state(folder / "run").step, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "run"), {}), 1);
}

TEST(TrainingState, KilledAtAnyMomentTheNewestStateIsWhole) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  int64_t newest = 0, moved = 0;
  double window = 40000;  // microseconds, within which about half of the runs save something on this machine
  for (int kill = 0; kill < 200; ++kill) {
    const pid_t child = start("save", folder);
    const double moment = std::uniform_real_distribution(0.0, window)(random);
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(moment)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    window = std::min(window * 1.1, 1e6);
    if (io::training_states(folder / "run").empty()) continue;
    nn::Linear layer(64, 64);
    const io::RunState state = io::load_training_state(folder / "run", {layer});
    ASSERT_GE(state.step, newest);
    for (const Tensor& p : layer.parameters()) {
      ASSERT_TRUE(equal(p.detach(), full_like(p.detach(), static_cast<double>(state.step))));
    }
    if (state.step > newest) ++moved, window = std::max(window / 1.2, 20000.0);
    newest = state.step;
  }
  EXPECT_GT(moved, 10);
  nn::Linear layer(64, 64);
  io::save_training_state(folder / "run", {layer}, {.step = newest + 1}, {.keep_last = 1});
  EXPECT_EQ(io::training_states(folder / "run").size(), 1u);
}

TEST(TrainingState, WritersOfOneFolderLeaveWholeStates) {
  const TemporaryFolder folder;
  const auto write = [&](int64_t first) {
    nn::Linear layer(16, 16);
    for (int64_t step = first; step < 40; ++step) {
      io::save_training_state(folder / "run", {layer}, {.step = step}, {.keep_last = 3});
    }
  };
  std::vector<std::future<void>> others;
  for (int i = 0; i < 4; ++i) others.push_back(std::async(std::launch::async, write, i % 2));
  for (auto& other : others) other.get();
  nn::Linear layer(16, 16);
  for (const io::Path& state : io::training_states(folder / "run")) io::load_training_state(state, {layer});
  EXPECT_EQ(io::read_run_state(folder / "run").step, 39);
}

TEST(BackgroundSaver, TheRunMayChangeAtOnce) {
  const TemporaryFolder folder;
  Trained t;
  const std::vector<float> at_first = t.weights();
  io::BackgroundSaver saver(folder / "run", {.keep_last = 2});
  EXPECT_TRUE(saver.wait().empty());
  for (int64_t step = 0; step < 5; ++step) {
    saver.save(t.run(), {.step = step});
    t.steps(static_cast<int>(step), static_cast<int>(step) + 1);
    if (step > 0) continue;
    const io::Path path = saver.wait();
    Trained other;
    io::load_training_state(path, other.run());
    EXPECT_EQ(other.weights(), at_first);
  }
  EXPECT_EQ(saver.wait().string(), (folder / "run/step-00000004").string());
  EXPECT_EQ(io::training_states(folder / "run").size(), 2u);
}

TEST(BackgroundSaver, FailuresComeOutOfTheNextCall) {
  const TemporaryFolder folder;
  Trained t;
  write_bytes(folder / "file", "");
  EXPECT_THROW(io::BackgroundSaver(folder / "file/run"), IoError);
  io::BackgroundSaver saver(folder / "parent/run");
  fs::remove_all(folder / "parent");
  saver.save(t.run(), {.step = 1});
  EXPECT_THROW(saver.save(t.run(), {.step = 2}), IoError);
  saver.save(t.run(), {.step = 3});
  EXPECT_THROW(saver.wait(), IoError);
  EXPECT_TRUE(saver.wait().empty());

  std::string warned;
  const WarningHandler before = set_warning_handler([&](const Warning& w) { warned = w.text; });
  {
    io::BackgroundSaver last(folder / "parent/run");
    fs::remove_all(folder / "parent");
    last.save(t.run(), {.step = 4});
  }
  set_warning_handler(before);
  EXPECT_THAT(warned, HasSubstr("the last state was not saved"));
}

}  // namespace
}  // namespace weft
