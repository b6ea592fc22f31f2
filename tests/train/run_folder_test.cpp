#include <cmath>
#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "message_of.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"

namespace weft::train {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Json run_in(const std::filesystem::path& folder) { return Json::parse(read_bytes(folder / "run.json")); }

Json data_of(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const size_t from = page.find(mark) + mark.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(RunFolder, ContainsLoggedFigures) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder / "a", {.title = "A </script> run", .config = R"({"width": 3})", .tensorboard = true});
    run.begin(0, 3);
    run.record(1, {{"train_loss", 2}}, {{"lr", 0.1}});
    run.record(2, {{"train_loss", 1}}, {{"lr", 0.1}});
    run.record(3, {{"train_loss", NAN}, {"val,loss", 1.5}}, {{"lr", 0.05}});
    run.sample_text(2, "poem", "roses </script><b>");
    run.sample_svg(3, "picture", "<svg xmlns='http://www.w3.org/2000/svg'/>");
    run.finish();
  }
  EXPECT_EQ(read_bytes(folder / "a" / "metrics.jsonl"),
            "{\"step\": 1, \"train_loss\": 2, \"lr\": 0.1}\n"
            "{\"step\": 2, \"train_loss\": 1, \"lr\": 0.1}\n"
            "{\"step\": 3, \"train_loss\": \"NaN\", \"val,loss\": 1.5, \"lr\": 0.05}\n");
  EXPECT_EQ(read_bytes(folder / "a" / "metrics.csv"),
            "step,train_loss,lr,\"val,loss\"\n1,2,0.1,\n2,1,0.1,\n3,nan,0.05,1.5\n");
  EXPECT_EQ(read_bytes(folder / "a" / "config.json"), R"({"width": 3})");
  const Json run = run_in(folder / "a");
  EXPECT_EQ(run["state"], "done");
  EXPECT_EQ(run["step"], 3);
  EXPECT_EQ(run["figures"][0]["least"], Json::parse("[2, 1]"));
  EXPECT_EQ(run["figures"][0]["points"], Json::parse(R"([[1, 2], [2, 1], [3, "NaN"]])"));
  EXPECT_EQ(run["samples"][0]["content"], "roses </script><b>");
  EXPECT_EQ(run["config"]["width"], 3);
  EXPECT_GT(std::stoi(run["machine"]["threads"].get<std::string>()), 0);
  EXPECT_THAT(run["machine"]["command"].get<std::string>(), HasSubstr("weft_train_test"));
  const std::string page = read_bytes(folder / "a" / "index.html");
  EXPECT_EQ(data_of(page)["runs"][0]["samples"], run["samples"]);
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  bool has_events = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "a")) {
    has_events |= entry.path().filename().string().starts_with("events.out.tfevents");
  }
  EXPECT_TRUE(has_events);
}

TEST(RunFolder, OfAResumedRunContinuesTheCurve) {
  const TemporaryFolder folder;
  const auto log = [&](int64_t first, int64_t last) {
    RunFolder run(folder / "a");
    run.begin(first, 6);
    for (int64_t step = first + 1; step <= last; ++step) {
      run.record(step, {{"train_loss", 10.0 - static_cast<double>(step)}});
      run.sample_text(step, "s", std::to_string(step));
    }
    if (last == 6) run.finish();
  };
  log(0, 5);
  EXPECT_EQ(run_in(folder / "a")["state"], "stopped");
  // As a killed run leaves it.
  write_bytes(folder / "a" / "metrics.jsonl", read_bytes(folder / "a" / "metrics.jsonl") + "{\"step\": 6, \"tr");
  log(3, 6);
  std::string lines, table = "step,train_loss\n";
  for (int step = 1; step <= 6; ++step) {
    lines += "{\"step\": " + std::to_string(step) + ", \"train_loss\": " + std::to_string(10 - step) + "}\n";
    table += std::to_string(step) + "," + std::to_string(10 - step) + "\n";
  }
  EXPECT_EQ(read_bytes(folder / "a" / "metrics.jsonl"), lines);
  EXPECT_EQ(read_bytes(folder / "a" / "metrics.csv"), table);
  EXPECT_EQ(run_in(folder / "a")["figures"][0]["points"].size(), 6);
  EXPECT_EQ(run_in(folder / "a")["samples"].size(), 6);
}

TEST(RunFolder, ThinsLongCurvesAndKeepsTheirPeaks) {
  const TemporaryFolder folder;
  RunFolder run(folder / "a", {.csv = false, .page_every = 1000});
  run.begin(0, 20000);
  for (int64_t step = 1; step <= 20000; ++step)
    run.record(step, {{"loss", step == 777 ? 50.0 : std::sin(0.01 * double(step))}});
  run.finish();
  const Json points = run_in(folder / "a")["figures"][0]["points"];
  EXPECT_LE(points.size(), 1300);
  EXPECT_GE(points.size(), 600);
  double greatest = 0;
  int64_t before = 0;
  for (const Json& p : points) {
    greatest = std::max(greatest, p[1].get<double>());
    EXPECT_GT(p[0].get<int64_t>(), before);
    before = p[0];
  }
  EXPECT_EQ(greatest, 50);
  EXPECT_EQ(before, 20000);
}

TEST(RunFolder, ComparesWithTheRunsBesideIt) {
  const TemporaryFolder folder;
  for (const char* name : {"one", "two"}) {
    RunFolder run(folder / name);
    run.record(1, {{"loss", 1}});
    run.sample_text(1, "s", "t");
    run.finish();
  }
  std::filesystem::create_directory(folder / "broken");
  write_bytes(folder / "broken" / "run.json", "{\"title\": ");
  std::filesystem::create_directory(folder / "other");
  write_bytes(folder / "other" / "run.json", R"({"title": "not ours"})");
  RunFolder run((folder / "three").string() + "/");
  run.record(1, {{"loss", 2}});
  run.finish();
  const Json runs = data_of(read_bytes(folder / "three" / "index.html"))["runs"];
  ASSERT_EQ(runs.size(), 3);
  EXPECT_EQ(runs[0]["title"], "three");
  EXPECT_EQ(runs[1]["samples"].size(), 0);
}

TEST(RunFolder, OfAFailedRunContainsTheError) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder / "a");
    run.record(1, {{"loss", 1}});
    run.fail("ValueError: <no> such\nthing");
  }
  EXPECT_EQ(run_in(folder / "a")["failure"], "ValueError: <no> such\nthing");
  EXPECT_EQ(run_in(folder / "a")["state"], "failed");
  EXPECT_EQ(read_bytes(folder / "a" / "failure.txt"), "ValueError: <no> such\nthing\n");
  EXPECT_EQ(data_of(read_bytes(folder / "a" / "index.html"))["runs"][0]["failure"], "ValueError: <no> such\nthing");
  RunFolder again(folder / "a");
  again.begin(1, 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "a" / "failure.txt"));
  EXPECT_TRUE(run_in(folder / "a")["failure"].is_null());
}

TEST(RunFolder, RejectsInvalidFigures) {
  const TemporaryFolder folder;
  EXPECT_THROW(RunFolder(folder / "a", {.config = "{"}), FormatError);
  EXPECT_THAT(message_of<FormatError>([&] { RunFolder(folder / "a", {.config = "{a: 3}"}); }),
              HasSubstr("config: malformed"));
  EXPECT_THROW(RunFolder(folder / "a", {.page_every = 0}), ValueError);
  EXPECT_THROW(RunFolder("/proc/none/a"), IoError);
  EXPECT_THROW(run_page("{}"), FormatError);
  EXPECT_THROW(run_page("no json"), FormatError);
}

TEST(RunFolder, AFolderThatVanishesDoesNotEndTheRun) {
  const TemporaryFolder folder;
  RunFolder run(folder / "a", {.page_every = 1e-9});
  run.record(1, {{"loss", 1}});
  std::filesystem::remove_all(folder / "a");
  testing::internal::CaptureStderr();
  run.record(2, {{"loss", 1}}, {{"more", 2}});
  run.sample_text(2, "s", "t");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the run continues"));
}

TEST(RunFolder, ATrainerFillsIt) {
  const TemporaryFolder folder;
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  RunFolder log(folder / "a");
  GradientRecorder recorder(net);
  const io::GradientLog gradients(recorder, folder / "a");
  Points points(16, 4);
  Trainer trainer(
      net, optimizer,
      {.epochs = 2, .clip_norm = 1, .recorder = &recorder, .save = {.folder = folder / "a" / "states"}, .log = &log});
  trainer.fit(
      points, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); }, points,
      [&](const Batch& b, Evaluation& e) {
        e.metric<Accuracy>("val_accuracy").update(net(b.x), b.y);
        e.metric<ConfusionMatrix>("confusion", 2).update(net(b.x), b.y);
      });
  const Json run = run_in(folder / "a");
  std::vector<std::string> names;
  for (const Json& f : run["figures"]) names.push_back(f["name"]);
  EXPECT_THAT(names, testing::ElementsAre("train_loss", "samples_per_s", "lr", "grad_norm", "val_accuracy"));
  EXPECT_EQ(run["last"], 8);
  EXPECT_EQ(run["figures"][0]["points"].size(), 8);
  EXPECT_EQ(run["samples"].size(), 2);
  EXPECT_EQ(run["samples"][0]["kind"], "svg");
  EXPECT_GE(run["checkpoints"].size(), 2);
  EXPECT_EQ(recorder.history().steps.size(), 8);
  EXPECT_EQ(io::read_metrics(folder / "a" / "metrics.jsonl").size(), 10);
}

// The optimizer's patience ends it: both pages are there, with the suspects.
TEST(RunFolder, AnEarlyStopLeavesItsPages) {
  const TemporaryFolder folder;
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  RunFolder log(folder / "a");
  GradientRecorder recorder(net);
  {
    const io::GradientLog gradients(recorder, folder / "a", {.tensorboard = false});
    Points points(64, 4);
    Trainer trainer(net, optimizer,
                    {.epochs = 50, .recorder = &recorder, .early_stopping = {.patience = 2}, .log = &log});
    const FitResult result = trainer.fit(
        points, [&](const Batch& b) { return cross_entropy(net(b.x), b.y); }, points,
        [&](const Batch&, Evaluation& e) { e.set("val_loss", 1); });
    EXPECT_TRUE(result.stopped_early);
  }
  EXPECT_EQ(run_in(folder / "a")["state"], "done");
  const std::string page = read_bytes(folder / "a" / "gradients.html");
  EXPECT_NE(page.find(R"("trouble":"frozen")"), page.npos);
}

TEST(RunFolderDeathTest, AProcessThatEndsLeavesAFailedRun) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const TemporaryFolder own;
  const char* given = std::getenv("WEFT_TEST_RUN_FOLDER");
  const std::string folder = given != nullptr ? given : own.path().string();
  ::setenv("WEFT_TEST_RUN_FOLDER", folder.c_str(), 1);
  const auto run = [&](const std::string& name, auto end) {
    RunFolder log(folder + "/" + name);
    log.begin(0, 10);
    for (int i = 1; i < 4; ++i) log.record(i, {{"loss", 1.0 / i}});
    end();
  };
  const auto state = [&](const std::string& name) { return run_in(std::filesystem::path(folder) / name); };
  EXPECT_EXIT(run("abort", [] { std::abort(); }), testing::KilledBySignal(SIGABRT), "");
  EXPECT_EQ(state("abort")["state"], "failed");
  EXPECT_EQ(state("abort")["step"], 3);
  EXPECT_THAT(read_bytes(folder + "/abort/failure.txt"), HasSubstr("ended by SIGABRT"));
  EXPECT_THAT(read_bytes(folder + "/abort/index.html"), HasSubstr("ended by SIGABRT"));
  EXPECT_EXIT(run("exit", [] { std::exit(4); }), testing::ExitedWithCode(4), "");
  EXPECT_EQ(state("exit")["state"], "stopped");
  EXPECT_FALSE(std::filesystem::exists(folder + "/exit/failure.txt"));
  ::unsetenv("WEFT_TEST_RUN_FOLDER");
}

}  // namespace
}  // namespace weft::train
