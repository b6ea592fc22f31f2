// A recorder's report as text, as a comparison of two runs, and with watched tensors.
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The watched tensor of this name; fails the test where there is none.
size_t index_of(const History& history, const std::string& name) {
  for (size_t i = 0; i < history.watched.size(); ++i) {
    if (history.watched[i].name == name) return i;
  }
  ADD_FAILURE() << name << " is not watched";
  return 0;
}

// ---- watch -------------------------------------------------------------------------------------------------------

TEST(Watch, ShowsValueAndGradientOfAnyTensor) {
  const Tensor w = tensor({3.0, -4.0}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"w", w}});
  for (int i = 0; i < 3; ++i) {
    const Tensor h = watch(w * 2.0, "twice");
    (h * tensor({1.0, 5.0})).sum().backward();
    recorder.step();
  }
  const History& history = recorder.history();
  const size_t at = index_of(history, "twice");
  EXPECT_EQ(history.watched[at].kind, WatchedKind::activation);
  EXPECT_EQ(history.watched[at].op, "mul");
  EXPECT_THAT(history.watched[at].place, testing::MatchesRegex("report_test.cpp:[0-9]+"));
  for (const HistoryStep& step : history.steps) {
    EXPECT_DOUBLE_EQ(step.observations[at].value->norm, 10);                   // |(6, -8)|
    EXPECT_NEAR(step.observations[at].gradient->norm, std::sqrt(26.0), 1e-6);  // |(1, 5)|
    EXPECT_EQ(step.observations[at].gradient->count, 2);
  }
}

// Its own module's output is seen under both names.
TEST(Watch, SeesResultsOfModules) {
  nn::Sequential net(nn::Linear(2, 3), nn::Tanh());
  GradientRecorder recorder(net);
  watch(net(ones({4, 2})), "result").sum().backward();
  recorder.step();
  const History& history = recorder.history();
  EXPECT_EQ(history.steps[0].observations[index_of(history, "result")].gradient->norm,
            history.steps[0].observations[index_of(history, "1")].gradient->norm);
}

TEST(Watch, ALeafIsSeenOncePerBackwardHoweverManyStepsItIsWatched) {
  const Tensor w = ones({4}).requires_grad_();
  GradientRecorder recorder(NamedTensors{});
  for (int i = 0; i < 5; ++i) {
    (watch(w, "w") * 3.0).sum().backward();
    recorder.step();
  }
  for (int i = 0; i < 3; ++i) {  // another tensor takes the name
    (watch(full({2}, 2.0).requires_grad_(), "w") * 3.0).sum().backward();
    recorder.step();
  }
  for (const HistoryStep& step : recorder.history().steps) {
    EXPECT_EQ(step.observations[0].gradient->count, step.step < 5 ? 4 : 2);
    EXPECT_EQ(step.observations[0].value->count, step.step < 5 ? 4 : 2);
  }
}

TEST(Watch, IsOfTheRecordersOfItsThread) {
  const Tensor x = ones({3});
  EXPECT_EQ(watch(x, "nobody").raw_view().data, x.raw_view().data);
  GradientRecorder recorder(NamedTensors{}), again(NamedTensors{});
  std::thread([&] { watch(x, "elsewhere"); }).join();
  watch(x, "here");
  recorder.step();
  again.step();
  for (const GradientRecorder& r : {recorder, again}) {
    ASSERT_EQ(r.history().watched.size(), 1u);
    EXPECT_EQ(r.history().watched[0].name, "here");
  }
  // A recorder goes with the thread that ends its steps.
  std::thread([&] {
    recorder.step();
    watch(x, "there");
  }).join();
  watch(x, "not there");
  recorder.step();
  EXPECT_EQ(recorder.history().watched.back().name, "there");
  EXPECT_EQ(again.history().watched.back().name, "not there");
}

TEST(Watch, AcceptsAnyTensors) {
  EXPECT_THAT(message_of<ValueError>([] { watch(Tensor(), "none"); }), HasSubstr("[watch] 'none' is undefined"));
  GradientRecorder recorder(NamedTensors{});
  watch(zeros({0, 3}), "empty");
  watch(tensor(2.5), "number");
  watch(full({2, 2}, NAN).t(), "bad");
  watch(ones({3}, i64), "integers");
  watch(ones({4, 4}).slice(0, 0, 4, 2), "strided");
  recorder.step();
  EXPECT_EQ(recorder.history().watched.size(), 4u);
  EXPECT_FALSE(recorder.finite());
  EXPECT_THAT(report_html(recorder.history()), HasSubstr("</html>"));
  EXPECT_THAT(report_text(recorder.history()), HasSubstr("number"));
}

// ---- text ----------------------------------------------------------------------------------------------------------

History history_of(int tensors, int steps, double (*rms)(int, int)) {
  History h;
  for (int i = 0; i < tensors; ++i) h.watched.push_back({.name = "layer" + std::to_string(i) + ".weight"});
  for (int k = 0; k < steps; ++k) {
    HistoryStep step{.step = k, .loss = 2.0 - 0.01 * k, .observations = {}};
    for (int i = 0; i < tensors; ++i) {
      const double v = rms(i, k);
      const bool bad = !std::isfinite(v);
      Statistics s{.count = 1, .non_finite = bad};
      s.norm = bad ? 0 : v;
      if (bad && !h.watched[static_cast<size_t>(i)].bad_gradient) h.watched[static_cast<size_t>(i)].bad_gradient = k;
      step.observations.push_back({.value = Statistics{.count = 1, .norm = 1}, .gradient = s, .update_ratio = 1e-3});
    }
    h.steps.push_back(std::move(step));
  }
  return h;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == '\n') out.emplace_back();
    else out.back() += c;
  }
  return out;
}

TEST(ReportText, HasSuspectsFirstAndALineForEachTensor) {
  const History history = history_of(60, 30, [](int i, int k) { return i == 50 && k >= 20 ? NAN : 0.01; });
  const std::string text = report_text(history, "Run", {.columns = 90, .rows = 5, .ascii = true});
  const auto lines = lines_of(text);
  EXPECT_EQ(lines[0], "Run");
  EXPECT_EQ(lines[1], "30 steps up to step 29, 60 parameters, 0 activations");
  EXPECT_THAT(lines[2], HasSubstr("loss  2 "));
  EXPECT_THAT(lines[4],
              testing::StartsWith("non-finite  the gradient of layer50.weight held NaN or infinity in step 20"));
  // The suspect is the first row, with a mark for each step that is not finite.
  const auto row = std::ranges::find_if(lines, [](const std::string& l) { return l.starts_with("* layer50.weight"); });
  ASSERT_NE(row, lines.end());
  EXPECT_THAT(*(row - 1), testing::StartsWith("parameter "));
  EXPECT_THAT(*row, testing::EndsWith("!!!!!!!!!!"));
  EXPECT_THAT(text, HasSubstr("\n  and 55 more\n"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 90u) << line;
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 128; }));
  EXPECT_EQ(lines_of(report_text(history, "Run", {.rows = 0})).size(), lines.size() + 54);
}

TEST(ReportText, DrawsAPeakOfOneStep) {
  const History history = history_of(1, 2000, [](int, int k) { return k == 777 ? 1e3 : 1e-3; });
  EXPECT_THAT(report_text(history), HasSubstr("▁█▁"));
}

TEST(ReportText, BearsNothingAndMuch) {
  EXPECT_EQ(report_text({}), "Gradients\nnothing was recorded\n");
  History long_names = history_of(2, 3, [](int, int) { return 0.0; });
  long_names.watched[0].name = std::string(300, 'x');
  long_names.watched[1].name = "größe";
  for (const int columns : {-5, 0, 60, 200}) {
    const std::string text = report_text(long_names, "", {.columns = columns});
    EXPECT_THAT(text, HasSubstr("größe")) << columns;
  }
}

TEST(SuspectsText, WrapsSentences) {
  const std::string text =
      suspects_text({{Trouble::dead, 0, "one two three four five six seven eight nine ten eleven"}}, 40);
  EXPECT_EQ(text, "dead        one two three four five six\n            seven eight nine ten eleven\n");
  EXPECT_EQ(suspects_text({}), "");
}

// ---- pages
// -----------------------------------------------------------------------------------------------------------

TEST(ComparisonHtml, HoldsBothRuns) {
  const History one = history_of(3, 5, [](int, int) { return 0.5; }),
                two = history_of(2, 9, [](int, int) { return 5.0; });
  const std::string page = comparison_html({"a <b>", one}, {"second", two});
  EXPECT_THAT(page, HasSubstr("<title>a &lt;b&gt; and second</title>"));
  EXPECT_THAT(page, HasSubstr(R"("title":"a \u003cb>","note":"")"));
  EXPECT_THAT(page, HasSubstr(R"("recorded":9)"));
  EXPECT_THAT(comparison_html({"", {}}, {"", {}}), HasSubstr("</html>"));
}

TEST(ReportHtml, OfALongRunColumnsKeepExtremes) {
  const History history = history_of(2, 5000, [](int i, int k) {
    return k == 1234 ? 40.0 : k == 2345 ? 0.001 : i == 1 && k == 3456 ? NAN : 1.0;
  });
  const std::string page = report_html(history);
  EXPECT_THAT(page, HasSubstr(R"("rms":[1,1,)"));
  EXPECT_NE(page.find(",40,"), page.npos);
  EXPECT_NE(page.find(",0.001,"), page.npos);
  EXPECT_NE(page.find(R"("bad":[0,0,)"), page.npos);
  EXPECT_LT(page.size(), 200000u);
}

TEST(ReportHtml, ContainsTheNote) {
  EXPECT_NE(report_html({}, "T", "ended by </script>").find(R"("note":"ended by \u003c/script>")"), std::string::npos);
}

}  // namespace
}  // namespace weft
