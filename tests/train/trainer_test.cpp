#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "message_of.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"

namespace weft::train {
namespace {

using testing::HasSubstr;

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
  FitResult result;
};

// 7 batches an epoch, in steps of 2, so that the last of an epoch has one.
template <class Prepare>
Trained trained(TrainerOptions options, Prepare prepare) {
  manual_seed(5);
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  HalvingRates rates{optimizer};
  Points training(26, 4), held_back(10, 5, false);
  Trained run;
  options.accumulate = 2;
  Trainer trainer(net, optimizer, options);
  trainer.schedule(rates);
  trainer.on_step_end([&](const TrainEvent& e) { run.losses.push_back(e.figures[0].second); });
  prepare(trainer);
  run.result = trainer.fit(
      training, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); }, held_back,
      [&](const Batch& b, Evaluation& e) {
        EXPECT_FALSE((sum(net(b.x)).requires_grad()));
        EXPECT_FALSE(net.is_training());
        const Tensor scores = net(b.x);
        e.mean("val_loss").update(cross_entropy(scores, b.y).item<double>() + 1e-9 * rand({}).item<double>());
        e.metric<Accuracy>("val_accuracy").update(scores, b.y);
      });
  EXPECT_TRUE(net.is_training());
  run.weights = weights_of(net);
  return run;
}
Trained trained(TrainerOptions options) {
  return trained(options, [](Trainer&) {});
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  const Trained one = trained({.epochs = 3});
  EXPECT_EQ(one.result.steps, 12);
  EXPECT_EQ(one.result.epochs, 3);
  ASSERT_EQ(one.losses.size(), 12);
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const Trained other = trained({.epochs = 3});
    EXPECT_EQ(other.losses, one.losses);
    EXPECT_EQ(other.weights, one.weights);
  }
  set_num_threads(before);
}

TEST(Trainer, RandomDrawsOfAnEvaluationDoNotAffectTraining) {
  const Trained seldom = trained({.epochs = 3});
  const Trained often = trained({.epochs = 3, .evaluate_every = 1});
  EXPECT_EQ(often.losses, seldom.losses);
  EXPECT_EQ(often.weights, seldom.weights);
}

TEST(Trainer, BatchesCountByTheirSamplesOrWeights) {
  for (const bool weighted : {false, true}) {
    manual_seed(5);
    nn::Linear one(4, 2), many = one.clone();
    optim::SGD a(one.parameters(), {.lr = 1}), b(many.parameters(), {.lr = 1});
    const Tensor x = randn({9, 4}), y = randint(0, 2, {9});
    cross_entropy(one(x), y).backward();
    a.step();
    const std::vector<Batch> batches = {{x.narrow(0, 0, 6), y.narrow(0, 0, 6)}, {x.narrow(0, 6, 3), y.narrow(0, 6, 3)}};
    for (const int64_t accumulate : {2, 5}) {
      nn::Linear net = many.clone();
      optim::SGD optimizer(net.parameters(), {.lr = 1});
      Trainer trainer(net, optimizer, {.epochs = 1, .accumulate = accumulate});
      if (weighted) {
        trainer.fit(batches, [&](const Batch& t) {
          return BatchLoss(cross_entropy(net(t.x), t.y), static_cast<double>(t.y.numel()) / 3);
        });
      } else {
        trainer.fit(batches, [&](const Batch& t) { return cross_entropy(net(t.x), t.y); });
      }
      EXPECT_LT(max(abs(net.weight - one.weight)).item<double>(), 1e-6) << accumulate << weighted;
    }
  }
}

TEST(Trainer, ResumesBitForBitFromAnyStep) {
  const Trained whole = trained({.epochs = 4, .evaluate_every = 3});
  for (const int64_t step : {1, 3, 4, 6, 8, 15}) {
    const TemporaryFolder folder;
    const TrainerOptions options = {
        .epochs = 4, .evaluate_every = 3, .save = {.folder = folder / "s", .every = 2}, .resume = true};
    const Trained first = trained(options, [&](Trainer& t) {
      t.on_step_end([&t, step](const TrainEvent& e) {
        if (e.step == step) ::raise(SIGTERM);
      });
    });
    EXPECT_EQ(first.result.signal, SIGTERM);
    EXPECT_EQ(first.result.steps, step);
    const Trained second = trained(options);
    EXPECT_EQ(second.weights, whole.weights) << step;
    EXPECT_EQ(second.result.best, whole.result.best) << step;
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, whole.losses) << step;
  }
}

TEST(Trainer, PassesOverBatchesOfALoaderWithoutAState) {
  const auto run = [](const std::string& folder, int64_t steps) {
    manual_seed(5);
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    std::vector<Batch> batches;
    Generator generator(1);
    for (int i = 0; i < 5; ++i) batches.push_back({randn({2, 4}, {}, &generator), zeros({2}, i64)});
    Trainer trainer(net, optimizer, {.steps = steps, .save = {.folder = folder}, .resume = true});
    trainer.fit(batches, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); });
    return weights_of(net);
  };
  const TemporaryFolder folder;
  run(folder / "cut", 7);
  EXPECT_EQ(run(folder / "cut", 13), run(folder / "whole", 13));
}

// Losses of batches from a loader of threads, which the training is cut from at step `cut`.
std::vector<double> losses_with_workers(const io::Path& folder, int workers, int64_t cut) {
  manual_seed(5);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  Generator generator(3);
  const Tensor x = randn({22, 4}, {}, &generator), y = randint(0, 2, {22}, {}, &generator);
  data::DataLoader loader(data::TensorDataset(x, y), {.batch_size = 4, .shuffle = true, .seed = 1, .workers = workers});
  std::vector<double> losses;
  Trainer trainer(net, optimizer,
                  {.epochs = 3, .accumulate = 2, .save = {.folder = folder, .every = 1}, .resume = true});
  trainer.on_step_end([&](const TrainEvent& e) {
    losses.push_back(e.figures[0].second);
    if (e.step == cut) trainer.stop();
  });
  trainer.fit(loader, [&](const auto& batch) {
    const auto& [points, labels] = batch;
    return cross_entropy(net(points), labels);
  });
  return losses;
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfWorkersAndResumesWithOthers) {
  const TemporaryFolder folder;
  const std::vector<double> whole = losses_with_workers(folder / "whole", 0, 0);
  EXPECT_EQ(whole.size(), 9);
  EXPECT_EQ(losses_with_workers(folder / "three", 3, 0), whole);
  // 6 batches an epoch: within one, at its last step, and in the last.
  for (const int64_t cut : {1, 3, 5, 8}) {
    const io::Path cut_folder = folder / std::to_string(cut);
    std::vector<double> parts = losses_with_workers(cut_folder, 2, cut);
    EXPECT_EQ(std::ssize(parts), cut);
    for (const double loss : losses_with_workers(cut_folder, 1, 0)) parts.push_back(loss);
    EXPECT_EQ(parts, whole) << cut;
  }
}

TEST(Trainer, ResumesASchedulerAndAPlateau) {
  const auto run = [](const std::filesystem::path& folder, int64_t steps) {
    manual_seed(5);
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Scheduler rates(optimizer, optim::cosine_annealing_lr(20));
    optim::ReduceOnPlateau plateau(optimizer, {.patience = 0});
    Points points(22, 4);
    Trainer trainer(net, optimizer,
                    {.steps = steps, .evaluate_every = 4, .save = {.folder = folder, .every = 4}, .resume = true});
    trainer.schedule(rates);
    trainer.keep("plateau", plateau);
    trainer.on_evaluate([&](const TrainEvent& e) { plateau.step(e.figures[0].second); });
    trainer.fit(
        points, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); },
        [&](Evaluation& e) { e.set("val_loss", 1); });
    std::vector<float> out = weights_of(net);
    out.push_back(static_cast<float>(optimizer.lr()));
    return out;
  };
  const TemporaryFolder folder;
  run(folder / "cut", 8);
  EXPECT_EQ(run(folder / "cut", 16), run(folder / "whole", 16));
}

// Run by the next test in a process of its own.
TEST(TrainerChild, DISABLED_Trains) {
  const std::string folder = std::getenv("WEFT_TEST_TRAIN_FOLDER");
  const int64_t end = std::atoll(std::getenv("WEFT_TEST_TRAIN_KILLED_AT"));
  const Trained run = trained({.epochs = 5, .save = {.folder = folder, .every = 3}, .resume = true}, [&](Trainer& t) {
    t.on_step_end([end](const TrainEvent& e) {
      if (e.step == end) ::raise(SIGKILL);
    });
  });
  std::string bytes;
  for (const float w : run.weights) bytes.append(reinterpret_cast<const char*>(&w), sizeof w);
  write_bytes(folder + "/weights", bytes);
}

TEST(Trainer, ResumesBitForBitAfterBeingKilled) {
  const TemporaryFolder folder;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const auto child = [&](const std::string& name, int64_t killed_at) {
    const std::string command = "WEFT_TEST_TRAIN_FOLDER=" + (folder / name).string() +
                                " WEFT_TEST_TRAIN_KILLED_AT=" + std::to_string(killed_at) + " exec " + program +
                                " --gtest_also_run_disabled_tests --gtest_filter=TrainerChild.* >/dev/null 2>&1";
    const int status = std::system(("sh -c '" + command + "'").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  };
  ASSERT_EQ(child("whole", 0), 0);
  EXPECT_NE(child("cut", 10), 0);
  EXPECT_FALSE(io::training_states(folder / "cut").empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "cut" / "weights"));
  EXPECT_NE(child("cut", 17), 0);
  ASSERT_EQ(child("cut", 0), 0);
  const std::string whole = read_bytes(folder / "whole" / "weights");
  EXPECT_FALSE(whole.empty());
  EXPECT_EQ(read_bytes(folder / "cut" / "weights"), whole);
}

TEST(Trainer, RefusesTheStateOfAnotherModel) {
  const TemporaryFolder folder;
  trained({.epochs = 1, .save = {.folder = folder / "s"}});
  Net wider(16);
  optim::AdamW optimizer(wider.parameters());
  HalvingRates rates{optimizer};
  const std::vector<float> before = weights_of(wider);
  Points points(8, 4);
  Trainer trainer(wider, optimizer, {.epochs = 2, .save = {.folder = folder / "s"}, .resume = true});
  trainer.schedule(rates);
  const auto fit = [&] { trainer.fit(points, [&](const Batch& b) { return cross_entropy(wider(b.x), b.y); }); };
  EXPECT_THAT(message_of<ShapeError>(fit), HasSubstr("model.safetensors"));
  EXPECT_EQ(weights_of(wider), before);
  EXPECT_EQ(rates.step_count, 0);
  // One without its parts, and one that no Trainer wrote.
  io::save_training_state(folder / "other", {wider, &optimizer}, {.step = 3});
  Trainer other(wider, optimizer, {.epochs = 2, .save = {.folder = folder / "other"}, .resume = true});
  EXPECT_THAT(message_of<FormatError>([&] { other.fit(points, [&](const Batch& b) { return wider(b.x).sum(); }); }),
              HasSubstr("has no \"loop\""));
}

TEST(Trainer, StopsWhenNothingGetsBetterAndKeepsTheBest) {
  const TemporaryFolder folder;
  manual_seed(1);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.01});
  Points points(16, 4);
  const double values[] = {3, 2, 1, 1.5, 1.2, 1.1, 0.5};
  size_t at = 0;
  std::vector<float> best;
  Trainer trainer(
      net, optimizer,
      {.epochs = 20, .metric = "mine", .early_stopping = {.patience = 2}, .save = {.folder = folder / "s"}});
  trainer.on_evaluate([&](const TrainEvent& e) {
    if (e.figures[0].second == 1) best = weights_of(net);
  });
  std::vector<int64_t> saved, saved_best;
  trainer.on_save([&](const Checkpoints::Saved& s) { (s.best ? saved_best : saved).push_back(s.step); });
  const FitResult result = trainer.fit(
      points, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); },
      [&](Evaluation& e) { e.set("mine", values[at++]); });
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.epochs, 5);
  EXPECT_EQ(result.best, 1);
  EXPECT_THAT(saved_best, testing::ElementsAre(4, 8, 12));
  EXPECT_THAT(saved, testing::ElementsAre(4, 8, 12, 16, 20));
  EXPECT_EQ(io::training_states(folder / "s").size(), 2);
  Net loaded;
  io::load_training_state(folder / "s" / "best", {loaded}, {.weights_only = true});
  EXPECT_EQ(weights_of(loaded), best);
}

TEST(Trainer, EmptiesTheCacheWithoutChangingAnything) {
  const Trained plain = trained({.epochs = 2});
  size_t least = SIZE_MAX, before = 0;
  const Trained emptied = trained({.epochs = 2, .empty_cache_every = 3}, [&](Trainer& t) {
    t.on_step_end([&](const TrainEvent& e) {
      if (e.step == 3) {
        (void)zeros({1 << 22});  // 16 MB that are cached now
        before = memory_stats().reserved;
      }
      if (e.step == 4) least = memory_stats().reserved;
    });
  });
  EXPECT_EQ(emptied.losses, plain.losses);
  EXPECT_EQ(emptied.weights, plain.weights);
#if !defined(__SANITIZE_ADDRESS__)  // there nothing is cached
  EXPECT_LT(least + (1 << 24) - 1, before);
#endif
}

TEST(Trainer, PassesProgressToCallbacks) {
  std::vector<std::pair<int64_t, int64_t>> steps, epochs;
  int evaluations = 0;
  const Trained run = trained({.epochs = 2, .steps = 6}, [&](Trainer& t) {
    t.on_step_end([&](const TrainEvent& e) { steps.emplace_back(e.step, e.batch); });
    t.on_epoch_end([&](const TrainEvent& e) { epochs.emplace_back(e.step, e.epoch); });
    t.on_evaluate([&](const TrainEvent& e) {
      ++evaluations;
      EXPECT_EQ(e.figures[0].first, "val_loss");
    });
  });
  EXPECT_THAT(steps, testing::ElementsAre(std::pair(1, 2), std::pair(2, 4), std::pair(3, 6), std::pair(4, 0),
                                          std::pair(5, 2), std::pair(6, 4)));
  EXPECT_THAT(epochs, testing::ElementsAre(std::pair(4, 1)));
  EXPECT_EQ(evaluations, 2);
  EXPECT_EQ(run.result.steps, 6);
}

TEST(Trainer, StopsOnRequest) {
  const Trained run = trained({.epochs = 9}, [&](Trainer& t) {
    t.on_step_end([&t](const TrainEvent& e) {
      if (e.step == 5) t.stop();
    });
  });
  EXPECT_EQ(run.result.steps, 5);
}

TEST(Trainer, RefusesWrongOptionsAndLoaders) {
  Net net;
  optim::SGD optimizer(net.parameters());
  EXPECT_THROW(Trainer(net, optimizer, {}), ValueError);
  EXPECT_THROW(Trainer(net, optimizer, {.epochs = -1, .steps = 1}), ValueError);
  EXPECT_THROW(Trainer(net, optimizer, {.epochs = 1, .resume = true}), ValueError);
  EXPECT_THROW(Trainer(net, optimizer, {.epochs = 1, .save = {.folder = "/proc/none"}}), IoError);
  std::vector<Batch> nothing;
  Trainer trainer(net, optimizer, {.epochs = 1});
  EXPECT_THROW(trainer.fit(nothing, [&](const Batch& b) { return net(b.x).sum(); }), ValueError);
  HalvingRates rates{optimizer};
  trainer.schedule(rates);
  EXPECT_THROW(trainer.schedule(rates), ValueError);
  Trainer stopping(net, optimizer, {.epochs = 1, .early_stopping = {.patience = 1}});
  std::vector<Batch> one = {{ones({1, 4}), zeros({1}, i64)}};
  EXPECT_THROW(stopping.fit(
                   one, [&](const Batch& b) { return net(b.x).sum(); }, [](Evaluation& e) { e.set("x", 1); }),
               ValueError);
}

TEST(Trainer, AnErrorLeavesSignalsAndStatesAsTheyWere) {
  const TemporaryFolder folder;
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  RunFolder log(folder / "run");
  Points points(16, 4);
  Trainer trainer(net, optimizer, {.epochs = 3, .save = {.folder = folder / "s", .every = 1}, .log = &log});
  int64_t calls = 0;
  EXPECT_THROW(trainer.fit(points, [&](const Batch& b) { return net(b.x).sum() * (++calls == 6 ? double{NAN} : 1.0); }),
               NonFiniteError);
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  EXPECT_EQ(trainer.steps(), 5);
  EXPECT_EQ(nlohmann::json::parse(read_bytes(folder / "run" / "run.json"))["state"], "failed");
}

TEST(Evaluation, ANameIsOfOneMetric) {
  Evaluation e;
  e.metric<Accuracy>("a").update(tensor({0, 1}), tensor({0, 0}));
  e.mean("b").update(2);
  EXPECT_THROW(e.mean("a"), ValueError);
  EXPECT_EQ(&e.mean("b"), &e.mean("b"));
  EXPECT_THAT(e.figures(), testing::ElementsAre(std::pair("a", 0.5), std::pair("b", 2.0)));
  e.metric<ConfusionMatrix>("c", 3).update(tensor({0}), tensor({1}));
  EXPECT_EQ(e.figures().size(), 2) << "a picture is no figure";
  e.set("d", tensor(3.0));
  EXPECT_EQ(e.figures().back(), std::pair(std::string("d"), 3.0));
  EXPECT_THAT(message_of<ValueError>([&] { e.metric<Accuracy>("b"); }), HasSubstr("trainer_test.cpp:"));
  ASSERT_EQ(e.pictures().size(), 1);
  EXPECT_THAT(e.pictures()[0].second, HasSubstr("<svg"));
}

}  // namespace
}  // namespace weft::train
