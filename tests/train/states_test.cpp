// States of a run: the best state, kept parts, master weights; and the log after resuming.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <weft/io/gradient_log.hpp>
#include <weft/train/metrics.hpp>

#include "message_of.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"

namespace weft::train {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::vector<Batch> ten_batches() {
  Generator generator(1);
  std::vector<Batch> out;
  for (int i = 0; i < 10; ++i) out.push_back({randn({4, 4}, {}, &generator), randint(0, 2, {4}, {}, &generator)});
  return out;
}

auto loss_of(Net& net) {
  return [&net](const Batch& b) { return cross_entropy(net(b.x), b.y); };
}

// ---- the best -------------------------------------------------------------------------------------------------------

TEST(States, TheBestHasTheWeightsThatWereEvaluated) {
  for (const auto& [every, evaluate_every] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {4, 0}, {1000, 0}, {0, 3}, {5, 3}}) {
    const TemporaryFolder folder;
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.5});
    std::vector<Batch> batches = ten_batches();
    std::vector<std::vector<float>> evaluated;
    std::vector<int64_t> steps;
    const io::Path states = folder / "s";
    Trainer trainer(
        net, optimizer,
        {.epochs = 4, .evaluate_every = evaluate_every, .metric = "v", .save = {.folder = states, .every = every}});
    trainer.fit(batches, loss_of(net), [&](Evaluation& e) {
      e.set("v", evaluated.size() == 1 ? 0.1 : 0.9);
      evaluated.push_back(weights_of(net));
      steps.push_back(trainer.steps());
    });
    Net loaded;
    const io::RunState best = io::load_training_state(states / "best", {loaded}, {.weights_only = true});
    EXPECT_EQ(best.step, steps[1]) << every << ' ' << evaluate_every;
    EXPECT_EQ(weights_of(loaded), evaluated[1]) << every << ' ' << evaluate_every;
    EXPECT_EQ(best.best_metric, 0.1);
    EXPECT_EQ(io::training_states(states).back().string(), (states / "step-00000040").string());
  }
}

TEST(States, TheBestReplacesAnEarlierRuns) {
  const TemporaryFolder folder;
  for (const int64_t epochs : {3, 1}) {
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    std::vector<Batch> batches = ten_batches();
    double value = 10;
    Trainer trainer(net, optimizer, {.epochs = epochs, .save = {.folder = folder / "s"}});
    trainer.fit(batches, loss_of(net), [&](Evaluation& e) { e.set("val_loss", --value); });
    EXPECT_EQ(io::read_run_state(folder / "s" / "best").step, 10 * epochs);
  }
}

TEST(States, ABestFigureThatThereIsNotIsAnErrorThatNamesThose) {
  const TemporaryFolder folder;
  const auto fit = [&](TrainerOptions options) {
    Net net;
    optim::SGD optimizer(net.parameters());
    std::vector<Batch> batches = ten_batches();
    options.epochs = 1;
    Trainer trainer(net, optimizer, options);
    trainer.fit(batches, loss_of(net), [](Evaluation& e) {
      e.set("val_accuracy", 0.5);
      e.set("f1", 0.5);
    });
  };
  const auto names_them = AllOf(HasSubstr("val_accuracy, f1"), HasSubstr("states_test.cpp:"));
  EXPECT_THAT(message_of<ValueError>([&] { fit({.metric = "val_acuracy"}); }),
              AllOf(HasSubstr("\"val_acuracy\""), names_them));
  EXPECT_THAT(message_of<ValueError>([&] { fit({.early_stopping = {.patience = 3}}); }),
              AllOf(HasSubstr("\"val_loss\""), names_them));
  testing::internal::CaptureStderr();
  fit({.save = {.folder = folder / "s"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no state is kept as the best"));
  fit({});
}

// ---- parts ----------------------------------------------------------------------------------------------------------

struct Kept {
  optim::Averager average;
  optim::GradScaler scaler{{.init_scale = 8}};
  EarlyStopping stopping{{.patience = 9}};
  MeanStd mean;
  Accuracy accuracy;
  Net teacher;

  explicit Kept(Net& net) : average(net.parameters(), {.decay = 0.5}) {}
  void keep_in(Trainer& trainer) {
    trainer.keep("average", average);
    trainer.keep("scaler", scaler);
    trainer.keep("stopping", stopping);
    trainer.keep("mean", mean);
    trainer.keep("accuracy", accuracy);
    trainer.keep("teacher", teacher);
  }
};

TEST(States, KeepAnyObjectWithAState) {
  const TemporaryFolder folder;
  const auto run = [&](const char* name, const std::vector<int64_t>& ends) {
    std::vector<double> out;
    for (const int64_t end : ends) {
      manual_seed(3);
      Net net;
      optim::SGD optimizer(net.parameters(), {.lr = 0.1});
      Kept kept(net);
      std::vector<Batch> batches = ten_batches();
      Trainer trainer(net, optimizer, {.steps = end, .save = {.folder = folder / name}, .resume = true});
      kept.keep_in(trainer);
      trainer.on_step_end([&](const TrainEvent& e) {
        const double loss = e.figures[0].second;
        kept.average.update();
        kept.scaler.restore({loss + 1, e.step});
        kept.stopping.update(loss);
        kept.mean.update(loss);
        kept.accuracy.update(tensor({0, 1}), tensor<int64_t>({0, e.step % 2}));
        const NoGradGuard unrecorded;
        kept.teacher.up.weight.fill_(loss);
      });
      trainer.fit(batches, loss_of(net));
      out = {kept.scaler.state().scale,
             static_cast<double>(kept.scaler.state().growth_tracker),
             *kept.stopping.best(),
             static_cast<double>(kept.stopping.state().bad),
             kept.mean.mean(),
             kept.mean.std(),
             kept.accuracy.value(),
             kept.teacher.up.weight.sum().item<double>(),
             static_cast<double>(kept.average.count())};
      for (const Tensor& a : kept.average.averages()) out.push_back(a.sum().item<double>());
    }
    return out;
  };
  EXPECT_EQ(run("cut", {4, 13, 17}), run("whole", {17}));
}

TEST(States, OfAnotherPartAreRefused) {
  const TemporaryFolder folder;
  Net net;
  optim::SGD optimizer(net.parameters());
  std::vector<Batch> batches = ten_batches();
  Trainer(net, optimizer, {.steps = 2, .save = {.folder = folder / "s"}}).fit(batches, loss_of(net));
  Kept kept(net);
  Trainer trainer(net, optimizer, {.steps = 4, .save = {.folder = folder / "s"}, .resume = true});
  kept.keep_in(trainer);
  const std::vector<float> before = weights_of(net);
  EXPECT_THAT(message_of<FormatError>([&] { trainer.fit(batches, loss_of(net)); }), HasSubstr("no \"average\""));
  EXPECT_EQ(weights_of(net), before);
}

// Saves the state again with the loop's document as numbers by name, as Trainers wrote it first.
void write_old_loop(const io::Path& states, const io::TrainingRun& run) {
  io::RunState state = io::read_run_state(states);
  const Json now = Json::parse(state.documents.at("loop"));
  const Json old = {{"batch", now["batch"].get<double>()},
                    {"bad", now["since_best"].get<double>()},
                    {"owes_evaluation", now["is_evaluation_due"].get<bool>() ? 1.0 : 0.0},
                    {"evaluated_step", now["evaluated_step"].get<double>()},
                    {"loss_scale", now["scaler"]["scale"].get<double>()},
                    {"growth_tracker", now["scaler"]["growth_tracker"].get<double>()}};
  state.documents["loop"] = old.dump();
  io::save_training_state(states, run, state);
}

TEST(States, WithTheOldLoopDocumentResumeBitForBit) {
  const TemporaryFolder folder;
  const auto run = [&](const char* name, bool old_form) {
    std::vector<double> out;
    for (const int64_t end : {13, 40}) {
      manual_seed(5);
      Net net;
      optim::SGD optimizer(net.parameters(), {.lr = 0.1});
      optim::GradScaler scaler({.init_scale = 4, .growth_interval = 5});
      std::vector<Batch> batches = ten_batches();
      Trainer trainer(net, optimizer,
                      {.steps = end,
                       .scaler = &scaler,
                       .evaluate_every = 4,
                       .early_stopping = {.patience = 3},
                       .save = {.folder = folder / name},
                       .resume = true});
      const FitResult result = trainer.fit(batches, loss_of(net), [&](Evaluation& e) {
        e.set("val_loss", std::abs(static_cast<double>(trainer.steps()) - 8));
        out.push_back(static_cast<double>(trainer.steps()));
      });
      out.insert(out.end(), {static_cast<double>(result.steps), static_cast<double>(result.epochs), scaler.get_scale(),
                             static_cast<double>(scaler.state().growth_tracker)});
      // Step 16 has the third evaluation after the best, which was at step 8.
      EXPECT_EQ(result.steps, end == 13 ? 13 : 16) << name;
      for (const float v : weights_of(net)) out.push_back(v);
      if (old_form && end == 13) write_old_loop(folder / name, {net, &optimizer});
    }
    return out;
  };
  EXPECT_EQ(run("old", true), run("new", false));
}

// ---- master weights -------------------------------------------------------------------------------------------------

struct Narrow {
  nn::Linear net{4, 2};
  optim::MasterWeights masters;
  optim::AdamW optimizer;
  Narrow() : masters((net.to(bf16), net.parameters())), optimizer(masters.parameters(), {.lr = 1e-3}) {}
  Tensor loss(const Batch& b) const { return cross_entropy(net(b.x.to(bf16)).to(f32), b.y); }
  std::vector<float> values() const {
    std::vector<float> out;
    for (const Tensor& m : masters.parameters()) {
      for (const float v : m.to_vector<float>()) out.push_back(v);
    }
    for (const Tensor& p : net.parameters()) {
      for (const float v : p.to(f32).to_vector<float>()) out.push_back(v);
    }
    return out;
  }
};

TEST(States, OfMasterWeightsResumeBitForBit) {
  const TemporaryFolder folder;
  const auto run = [&](const char* name, const std::vector<int64_t>& ends) {
    std::vector<float> out;
    for (const int64_t end : ends) {
      manual_seed(3);
      Narrow n;
      std::vector<Batch> batches = ten_batches();
      Trainer trainer(n.net, n.optimizer,
                      {.steps = end,
                       .accumulate = 2,
                       .clip_norm = 1,
                       .masters = &n.masters,
                       .save = {.folder = folder / name},
                       .resume = true});
      trainer.fit(batches, [&](const Batch& b) { return n.loss(b); });
      out = n.values();
    }
    return out;
  };
  const std::vector<float> whole = run("whole", {13});
  EXPECT_EQ(run("cut", {2, 7, 13}), whole);
  // It is the loop that is written out.
  manual_seed(3);
  Narrow n;
  const std::vector<Batch> batches = ten_batches();
  for (int64_t i = 0; i < 26; i += 2) {
    n.masters.zero_grad();
    for (int64_t k = i; k < i + 2; ++k) (n.loss(batches[static_cast<size_t>(k % 10)]) / 2).backward();
    n.masters.take_gradients();
    optim::clip_grad_norm_(n.masters.parameters(), 1);
    n.optimizer.step();
    n.masters.write_back();
  }
  EXPECT_EQ(n.values(), whole);
}

TEST(States, OfMasterWeightsWithoutThemAreRefusedWithTheWay) {
  const TemporaryFolder folder;
  Narrow n;
  EXPECT_THAT(message_of<ValueError>([&] {
                io::save_training_state(folder / "s", {n.net, &n.optimizer}, {});
              }),
              HasSubstr("give these as .masters"));
  EXPECT_THAT(message_of<ValueError>([&] { Trainer(n.net, n.optimizer, {.steps = 1}); }),
              HasSubstr("give these as .masters"));
  io::save_training_state(folder / "plain", {n.net}, {});
  EXPECT_THAT(message_of<ValueError>([&] {
                io::load_training_state(folder / "plain", {n.net, nullptr, {}, &n.masters});
              }),
              HasSubstr("holds no master weights"));
  Narrow other;
  EXPECT_THAT(message_of<ValueError>([&] {
                io::save_training_state(folder / "t", {n.net, nullptr, {}, &other.masters}, {});
              }),
              HasSubstr("of no parameter of the module"));
}

TEST(States, AGradientOfAMasterThatIsNanNamesTheParameter) {
  Narrow n;
  Stepper stepper(n.net, n.optimizer, {.masters = &n.masters});
  const std::vector<float> before = n.values();
  EXPECT_THAT(message_of<NonFiniteError>([&] { stepper.step([&] { return sqrt(n.net.bias.to(f32) * 0.0).sum(); }); }),
              HasSubstr("the gradient of bias is not finite"));
  EXPECT_EQ(n.values(), before);
}

// ---- models and optimizers that are not of each other ---------------------------------------------------------------

TEST(States, AnOptimizerOfAnotherModelIsRefused) {
  const TemporaryFolder folder;
  Net net, other;
  optim::SGD strange(other.parameters());
  EXPECT_THAT(message_of<ValueError>([&] { Trainer(net, strange, {.epochs = 1}); }),
              AllOf(HasSubstr("would not train"), HasSubstr("states_test.cpp:")));
  EXPECT_THROW(Stepper(net, strange), ValueError);
  std::vector<Tensor> both = net.parameters();
  both.push_back(other.up.weight);
  optim::SGD more(both);
  EXPECT_NO_THROW(Trainer(net, more, {.epochs = 1}));
  EXPECT_THAT(message_of<ValueError>([&] { Trainer(net, more, {.epochs = 1, .save = {.folder = folder / "s"}}); }),
              HasSubstr("parameter 4 of the optimizer"));
}

// ---- logs -----------------------------------------------------------------------------------------------------------

// As kill -9 leaves a run: at step `end`, with states every 5 steps and evaluations after epochs of 10.
void run_until(const TemporaryFolder& folder, int64_t end) {
  manual_seed(3);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  std::vector<Batch> batches = ten_batches();
  RunFolder log(folder / "run");
  GradientRecorder recorder(net, {.activations = false});
  io::GradientLog gradients(recorder, folder / "run", {.tensorboard = false});
  Trainer trainer(net, optimizer,
                  {.epochs = 3,
                   .recorder = &recorder,
                   .save = {.folder = folder / "states", .every = 5},
                   .resume = true,
                   .log = &log});
  trainer.on_step_end([&](const TrainEvent& e) {
    if (e.step == end) throw std::runtime_error("the power went out");
  });
  const auto fit = [&] {
    trainer.fit(batches, loss_of(net), [&](Evaluation& e) {
      e.set("val_loss", 1.0 / static_cast<double>(trainer.steps()));
      e.metric<ConfusionMatrix>("confusion", 2).update(tensor({0, 1}), tensor({0, 1}));
    });
  };
  if (end > 0) EXPECT_THROW(fit(), std::runtime_error);
  else fit();
}

std::vector<int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<int64_t> out;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line)["step"]);
  return out;
}

TEST(States, ALogOfAResumedRunHasEveryEvaluationOnce) {
  const TemporaryFolder straight, cut;
  run_until(straight, 0);
  run_until(cut, 13);  // resumes at step 10, whose state is older than its evaluation
  EXPECT_THAT(read_bytes(cut / "run" / "failure.txt"), AllOf(HasSubstr("the power went out"), HasSubstr("step 13")));
  EXPECT_THAT(std::string(Json::parse(read_bytes(cut / "run" / "run.json"))["failure"]),
              HasSubstr("on_step_end of step 13"));
  run_until(cut, 0);
  EXPECT_FALSE(std::filesystem::exists(cut / "run" / "failure.txt"));
  for (const char* file : {"metrics.jsonl", "samples.jsonl", "gradients.jsonl"}) {
    EXPECT_EQ(steps_in(cut / "run" / file), steps_in(straight / "run" / file)) << file;
  }
  const Json run = Json::parse(read_bytes(cut / "run" / "run.json"));
  EXPECT_TRUE(run["failure"].is_null());
  for (const Json& figure : run["figures"]) {
    if (figure["name"] == "val_loss") {
      EXPECT_EQ(figure["points"].size(), 3);
    }
    EXPECT_NE(figure["name"], "confusion");
  }
  EXPECT_EQ(run["samples"].size(), 3);
  const std::string table = read_bytes(cut / "run" / "metrics.csv");
  EXPECT_EQ(std::ranges::count(table, '\n'), 1 + 30 + 3);
}

TEST(States, TheGradientsOfAResumedRunAreOneHistory) {
  const TemporaryFolder straight, cut;
  run_until(straight, 0);
  run_until(cut, 13);
  run_until(cut, 0);
  const std::vector<int64_t> steps = steps_in(cut / "run" / "gradients.jsonl");
  ASSERT_EQ(steps.size(), 30);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 30);
  EXPECT_EQ(read_bytes(cut / "run" / "gradients.jsonl").substr(0, 2000),
            read_bytes(straight / "run" / "gradients.jsonl").substr(0, 2000));
  EXPECT_THAT(read_bytes(cut / "run" / "gradients.html"), HasSubstr("\"recorded\":30,"));
  // A run that begins anew has a history of its own.
  std::filesystem::remove_all(cut / "states");
  run_until(cut, 4);
  EXPECT_THAT(steps_in(cut / "run" / "gradients.jsonl"), testing::ElementsAre(1, 2, 3, 4));
}

TEST(States, TheBestIsOnThePageOfAResumedRun) {
  const TemporaryFolder folder;
  run_until(folder, 27);
  run_until(folder, 28);
  const Json run = Json::parse(read_bytes(folder / "run" / "run.json"));
  int best = 0;
  for (const Json& state : run["checkpoints"]) best += state["best"] ? 1 : 0;
  EXPECT_EQ(best, 1);
  EXPECT_EQ(run["checkpoints"].size(), 3);
}

// ---- ends -----------------------------------------------------------------------------------------------------------

TEST(States, AFurtherFitResumesOrRaises) {
  Net net;
  optim::SGD optimizer(net.parameters());
  std::vector<Batch> batches = ten_batches();
  Trainer trainer(net, optimizer, {.epochs = 1});
  trainer.on_step_end([&](const TrainEvent& e) {
    if (e.step == 4) trainer.stop();
  });
  EXPECT_EQ(trainer.fit(batches, loss_of(net)).steps, 4);
  EXPECT_GT(trainer.fit(batches, loss_of(net)).steps, 4);
  EXPECT_THAT(message_of<ValueError>([&] { trainer.fit(batches, loss_of(net)); }),
              AllOf(HasSubstr("has ended already"), HasSubstr("states_test.cpp:")));
}

TEST(States, ErrorsOfUsersKeepTheirTypeAndNameTheStep) {
  struct Own : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const TemporaryFolder folder;
  Net net;
  optim::SGD optimizer(net.parameters());
  std::vector<Batch> batches = ten_batches();
  const auto text = [&](const auto& kind, const auto& listen) {
    Trainer trainer(net, optimizer, {.epochs = 1});
    int calls = 0;
    listen(trainer);
    using Kind = std::remove_cvref_t<decltype(kind)>;
    return message_of<Kind>([&] {
      trainer.fit(batches, [&](const Batch& b) {
        if (++calls == 3) throw kind;
        return cross_entropy(net(b.x), b.y);
      });
    });
  };
  const auto nothing = [](Trainer&) {};
  EXPECT_EQ(text(std::runtime_error("mine"), nothing), "[Trainer] step 3, rank 0: mine");
  EXPECT_EQ(text(std::out_of_range("mine"), nothing), "[Trainer] step 3, rank 0: mine");
  EXPECT_EQ(text(Own("mine"), nothing), "mine");
  EXPECT_THAT(text(IoError("[read] mine"), nothing), HasSubstr("step 3, rank 0: [read] mine"));
  EXPECT_EQ(text(std::invalid_argument("never"),
                 [](Trainer& t) {
                   t.on_step_end([](const TrainEvent& e) {
                     if (e.step == 2) throw std::invalid_argument("heard");
                   });
                 }),
            "[Trainer] on_step_end of step 2, rank 0: heard");
  // A schedule that ends before the run does.
  optim::Scheduler rates(optimizer, optim::one_cycle_lr({.max_lr = 1, .total_steps = 5}));
  Trainer trainer(net, optimizer, {.epochs = 1});
  trainer.schedule(rates);
  EXPECT_THAT(message_of<ValueError>([&] { trainer.schedule(rates); }), HasSubstr("states_test.cpp:"));
  EXPECT_THAT(message_of<ValueError>([&] { trainer.fit(batches, loss_of(net)); }),
              AllOf(HasSubstr("step 6, rank 0"), HasSubstr("states_test.cpp:")));
}

TEST(States, TheSpeedCountsTheSamplesOfAllBatches) {
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto samples_of = [&](auto& loader, const auto& loss) {
    const TemporaryFolder folder;
    Trainer trainer(net, optimizer, {.epochs = 1, .save = {.folder = folder / "s"}});
    trainer.fit(loader, loss);
    return io::read_run_state(folder / "s").samples;
  };
  const auto any = [&](const auto&) { return net(ones({1, 4})).sum(); };
  data::DataLoader windows(data::TokenWindows(arange(101), 10), {.batch_size = 4});
  EXPECT_EQ(samples_of(windows, any), 10);
  data::DataLoader padded(data::map(data::TensorDataset(ones({9, 2})), [](const auto& s) { return s[0]; }),
                          {.batch_size = 4}, data::pad_with_lengths());
  EXPECT_EQ(samples_of(padded, any), 9);
  struct Pictures {
    struct Sample {
      Tensor picture, mask;
    };
    int64_t size() const { return 7; }
    Sample get(int64_t) const { return {ones({2}), ones({2})}; }
  };
  data::DataLoader pictures(Pictures{}, {.batch_size = 4});
  EXPECT_EQ(samples_of(pictures, any), 7);
  std::vector<std::vector<std::string>> words = {{"a", "b"}, {"c"}};
  EXPECT_EQ(samples_of(words, any), 3);
}

}  // namespace
}  // namespace weft::train
