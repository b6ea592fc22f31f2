// Files of a run: curves as pictures, and the log of its figures.
#include <cmath>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/curve.hpp>
#include <weft/io/run_log.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The labels on one side: numbers that end at the y axis, or are centred below the x axis.
std::vector<std::string> labels(const std::string& svg, const std::string& anchor) {
  const std::regex label("<text x=\"[0-9.]+\" y=\"[0-9.]+\" text-anchor=\"" + anchor + "\">([-0-9.eTGM+]+)</text>");
  std::vector<std::string> out;
  for (std::sregex_iterator at(svg.begin(), svg.end(), label), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

std::vector<std::string> y_labels(double low, double high, bool log_y = false) {
  return labels(io::curve_svg({{"s", {{0, low}, {1, high}}}}, {.log_y = log_y}), "end");
}
std::vector<std::string> x_labels(double low, double high) {
  return labels(io::curve_svg({{"s", {{low, 0}, {high, 1}}}}, {}), "middle");
}

size_t points_of(const std::string& svg, const std::string& after) {
  const size_t from = svg.find("points=\"", svg.find(after)), to = svg.find('"', from + 8);
  return static_cast<size_t>(
      std::count(svg.begin() + static_cast<long>(from), svg.begin() + static_cast<long>(to), ','));
}

TEST(Curve, DrawsSeriesAndAxes) {
  const std::string svg =
      io::curve_svg({{"train <a&b>", {{1, 4.5}, {2, NAN}, {300, 1.25}}}, {"val", {{100, 3}, {300, 2}}, true}},
                    {.title = "T", .x_label = "step", .y_label = "loss", .reference = 4.6, .reference_label = "guess"});
  EXPECT_THAT(svg, testing::StartsWith("<svg"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  for (const char* part :
       {"train &lt;a&amp;b&gt;", ">step<", ">loss<", ">guess<", "prefers-color-scheme: dark", "<circle"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(io::curve_svg({}, {}), HasSubstr("</svg>"));
  EXPECT_THAT(io::curve_svg({{"one", {{5, 2}}}}, {}), HasSubstr("<polyline"));
}

TEST(Curve, TicksAreRound) {
  EXPECT_THAT(y_labels(0.3, 4.6), ElementsAre("0", "1", "2", "3", "4", "5"));
  EXPECT_THAT(y_labels(0.97, 0.991), ElementsAre("0.970", "0.975", "0.980", "0.985", "0.990", "0.995"));
  EXPECT_THAT(y_labels(-1, 1), ElementsAre("-1.0", "-0.5", "0", "0.5", "1.0"));
  EXPECT_THAT(y_labels(0, 3e-5), ElementsAre("0", "5e-06", "1e-05", "1.5e-05", "2e-05", "2.5e-05", "3e-05"));
  EXPECT_THAT(y_labels(2, 2), ElementsAre("2.0", "2.2", "2.4", "2.6", "2.8", "3.0"));
  EXPECT_THAT(x_labels(1, 300), ElementsAre("0", "50", "100", "150", "200", "250", "300"));
  EXPECT_THAT(x_labels(1, 3), ElementsAre("1", "2", "3"));
  EXPECT_THAT(x_labels(0, 2.4e6), ElementsAre("0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"));
}

TEST(Curve, LogarithmicTicksAreRound) {
  EXPECT_THAT(y_labels(0.03, 4.2, true), ElementsAre("0.01", "0.1", "1", "10"));
  EXPECT_THAT(y_labels(1.2, 4.2, true), ElementsAre("1", "2", "5"));
  EXPECT_THAT(y_labels(3, 3, true), ElementsAre("2", "5"));
  EXPECT_THAT(y_labels(10, 10, true), ElementsAre("10", "20"));
  EXPECT_THAT(y_labels(1e-12, 3e4, true), ElementsAre("1e-12", "1e-09", "1e-06", "0.001", "1", "1000", "1e+06"));
}

TEST(Curve, EveryRangeHasDistinctLabels) {
  const double ends[] = {-INFINITY, -1e308,    -1e9, -3,  -1e-9,     -5e-324, 0,    5e-324, 1e-300, 1e-9,
                         1,         1.0000001, 7,    1e6, 1000000.1, 1e12,    1e15, 1e100,  1e308};
  for (const double low : ends) {
    for (const double high : ends) {
      for (const bool log_y : {false, true}) {
        if (high < low) continue;
        const auto found = y_labels(low, high, log_y);
        EXPECT_GE(found.size(), 2u) << low << " " << high << " " << log_y;
        EXPECT_LE(found.size(), 13u) << low << " " << high << " " << log_y;
        EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), found.size()) << low << " " << high;
        EXPECT_THAT(io::curve_svg({{"s", {{low, low}, {high, high}}}}, {.log_y = log_y}),
                    testing::AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
      }
    }
  }
}

TEST(Curve, ManyPointsAreThinnedAndNoPeakIsLost) {
  io::Series noisy{"noisy", {}, false, true};
  for (int i = 0; i < 100'000; ++i) noisy.points.emplace_back(i, i == 77'777 ? 50 : 2 + std::sin(i * 12.9898));
  const std::string svg = io::curve_svg({noisy}, {});
  EXPECT_LT(svg.size(), 60'000u);
  EXPECT_LT(points_of(svg, "class=\"pale\""), 2700u);
  // The peak is at the top of the plot, below the legend.
  const size_t pale = svg.find("class=\"pale\" points");
  EXPECT_LT(svg.find(",48.0 ", pale), svg.find('\n', pale));
  EXPECT_THAT(svg, HasSubstr("y=\"52.0\" text-anchor=\"end\">50<"));
  noisy.points.resize(40);
  EXPECT_EQ(points_of(io::curve_svg({noisy}, {}), "class=\"pale\""), 40u);
}

TEST(Curve, SmoothingKeepsEndsAndFollowsALine) {
  io::Series falling{"falling", {}, false, true};
  for (int i = 0; i <= 500; ++i) falling.points.emplace_back(i, 5.0 - 0.01 * i + (i % 2 == 0 ? 0.5 : -0.5) * (i > 0));
  const std::string svg = io::curve_svg({falling}, {});
  const size_t last_line = svg.rfind("<polyline points=\"") + 18;
  const std::regex point("([0-9.]+),([0-9.]+)");
  const std::string path = svg.substr(last_line, svg.find('"', last_line) - last_line);
  std::vector<double> ys;
  for (std::sregex_iterator at(path.begin(), path.end(), point), end; at != end; ++at)
    ys.push_back(std::stod((*at)[2]));
  ASSERT_EQ(ys.size(), 501u);
  // In the middle the noise of one unit is gone: no two neighbours are further apart than a twentieth of one.
  for (size_t i = 50; i < 450; ++i) EXPECT_LT(std::abs(ys[i + 1] - ys[i]), 320.0 / 6 / 20) << i;
}

TEST(Curve, ValidationIsDrawnAboveTheNoiseOfTraining) {
  const std::string svg = io::curve_svg(
      {{"training", {{1, 3}, {2, 1}, {3, 2}}, false, true}, {"validation", {{1, 2}, {3, 2.5}}, true}}, {});
  const size_t noise = svg.find("class=\"pale\""), training = svg.find("<polyline points"), dots = svg.find("<circle");
  EXPECT_LT(noise, training);
  EXPECT_LT(training, dots);
  EXPECT_EQ(svg.find("class=\"pale\"", noise + 1), std::string::npos);
}

TEST(Curve, TextsNeitherOverlapNorBreakThePicture) {
  const std::string svg =
      io::curve_svg({{"a name that is long enough to need a row of its own, or nearly so", {{0, 1}}},
                     {"second \xff\x01 name", {{0, 2}}},
                     {std::string(500, 'x'), {{0, 3}}}},
                    {.title = std::string(300, 'T'), .y_label = std::string(300, 'y')});
  EXPECT_THAT(svg, HasSubstr("second \uFFFD  name"));
  EXPECT_THAT(svg, Not(HasSubstr(std::string(100, 'x'))));
  EXPECT_THAT(svg, Not(HasSubstr(std::string(100, 'T'))));
  // The legend's entries, each to the right of the one before or in the next row.
  const std::regex entry("<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"18\"");
  std::vector<std::pair<double, double>> places;
  for (std::sregex_iterator at(svg.begin(), svg.end(), entry), end; at != end; ++at)
    places.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
  ASSERT_EQ(places.size(), 3u);
  EXPECT_TRUE(places[1].second == places[0].second + 20 || places[1].first > places[0].first + 300);
  EXPECT_EQ(places[2].second, places[1].second + 20);
}

TEST(RunLog, WritesOneLinePerStepAndACurve) {
  const TemporaryFolder folder;
  io::RunLog log(folder / "a" / "b", 0, 2);
  log.record({.step = 1, .train_loss = 2.5, .tokens_per_s = 1000});
  log.record({.step = 2, .train_loss = NAN, .tokens_per_s = 1000, .val_loss = 1.5});
  log.finish({.title = "t", .x_label = "x", .y_label = "y"});
  EXPECT_EQ(read_bytes(folder / "a" / "b" / "metrics.jsonl"),
            "{\"step\": 1, \"train_loss\": 2.5, \"tokens_per_s\": 1000.0}\n"
            "{\"step\": 2, \"train_loss\": \"NaN\", \"tokens_per_s\": 1000.0, \"val_loss\": 1.5}\n");
  EXPECT_THAT(read_bytes(folder / "a" / "b" / "curve.svg"), HasSubstr("</svg>"));
  write_bytes(folder / "file", "");
  EXPECT_THROW(io::RunLog(folder / "file", 0, 1), IoError);
}

TEST(RunLog, AnyNamedFigures) {
  const TemporaryFolder folder;
  io::RunLog log(folder / "r", 0, 40);
  testing::internal::CaptureStdout();
  for (int step = 1; step <= 40; ++step) {
    io::Figures figures = {{"loss", 2.5}, {"lr", 0.001}, {"tokens \"seen\"", 123456789.0 * step}};
    if (step % 20 == 0) figures.emplace_back("accuracy", 0.25);
    log.record(step, figures);
  }
  const std::string words = testing::internal::GetCapturedStdout();
  log.finish({.x_label = "step"});
  const std::string metrics = read_bytes(folder / "r" / "metrics.jsonl");
  EXPECT_THAT(metrics,
              testing::StartsWith("{\"step\": 1, \"loss\": 2.5, \"lr\": 0.001, \"tokens \\\"seen\\\"\": 123456789}\n"));
  EXPECT_THAT(metrics, HasSubstr("\"accuracy\": 0.25}\n{\"step\": 21"));
  EXPECT_THAT(words, HasSubstr("step    20/40  loss 2.500000  lr 0.001000"));
  EXPECT_THAT(words, HasSubstr("accuracy 0.250000"));
  const std::string svg = read_bytes(folder / "r" / "curve.svg");
  EXPECT_THAT(svg, HasSubstr(">loss<"));
  EXPECT_THAT(svg, Not(HasSubstr(">lr<")));
  log.finish({}, {"accuracy", "lr"});
  EXPECT_THAT(read_bytes(folder / "r" / "curve.svg"), testing::AllOf(HasSubstr(">accuracy<"), HasSubstr("<circle")));
}

TEST(RunLog, SpeedsAreShownSmoothed) {
  const TemporaryFolder folder;
  testing::internal::CaptureStdout();
  io::RunLog log(folder / "r", 0, 20);
  for (int step = 1; step <= 20; ++step) log.record({.step = step, .tokens_per_s = step == 20 ? 2000.0 : 1000.0});
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("step    20/20  loss 0.000000  1100 tokens/s"));
  EXPECT_THAT(read_bytes(folder / "r" / "metrics.jsonl"), HasSubstr("\"tokens_per_s\": 2000.0"));
}

TEST(RunLog, ContinuesAfterCompletedSteps) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "r" / "metrics.jsonl";
  {
    io::RunLog log(folder / "r", 0, 6);
    for (int step = 1; step <= 4; ++step) log.record(step, {{"loss", 1.0 / step}}, {{"lr", 0.5}});
  }
  write_bytes(file, read_bytes(file) + "no line\n{\"step\": 5, \"lo");
  const std::vector<io::LoggedStep> steps = io::read_metrics(file);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[1].step, 2);
  EXPECT_EQ(steps[1].figures, (io::Figures{{"loss", 0.5}, {"lr", 0.5}}));
  EXPECT_TRUE(io::read_metrics(folder / "none").empty());
  io::RunLog log(folder / "r", 2, 6);
  log.record(3, {{"loss", 7}});
  EXPECT_EQ(read_bytes(file),
            "{\"step\": 1, \"loss\": 1, \"lr\": 0.5}\n{\"step\": 2, \"loss\": 0.5, \"lr\": 0.5}\n"
            "{\"step\": 3, \"loss\": 7}\n");
  log.finish({}, {"loss"});
  EXPECT_THAT(read_bytes(folder / "r" / "curve.svg"), HasSubstr("</svg>"));
  io::RunLog anew(folder / "r", 0, 6);
  EXPECT_EQ(read_bytes(file), "");
}

TEST(RunLog, WithoutAnEndShowsElapsedTime) {
  const TemporaryFolder folder;
  io::RunLog log(folder / "r", 0, 0);
  testing::internal::CaptureStdout();
  for (int step = 1; step <= 250; ++step) log.record(step, {{"loss", 1}}, {{"lr", 0.5}});
  const std::string words = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::ranges::count(words, '\n'), 3) << words;
  EXPECT_THAT(words, testing::AllOf(HasSubstr("step   200  loss 1.000000  after 0:00"), Not(HasSubstr("lr"))));
}

TEST(RunLog, AFullDiskDoesNotEndTheRun) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "r");
  std::filesystem::create_symlink("/dev/full", folder / "r" / "metrics.jsonl");
  testing::internal::CaptureStderr();
  io::RunLog log(folder / "r", 0, 3);
  for (int step = 1; step <= 3; ++step) log.record(step, {{"loss", 1}});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("metrics.jsonl\n  No space left on device"));
  EXPECT_EQ(told.find("No space"), told.rfind("No space")) << "told once";
  EXPECT_THROW(log.finish({}), IoError);
  EXPECT_THAT(read_bytes(folder / "r" / "curve.svg"), HasSubstr("</svg>"));
}

TEST(RunLog, RunsOfOneSecondHaveAFolderEach) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::set<std::string> names;
  for (int i = 0; i < 5; ++i) names.insert(io::RunLog("", 0, 1).folder().string());
  std::filesystem::current_path(before);
  EXPECT_EQ(names.size(), 5u);
}

}  // namespace
}  // namespace weft
