#include "twins.hpp"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/hooks/anomaly.hpp>
#include <weft/hooks/recorder.hpp>
#include <weft/nn/layers.hpp>
#include <weft/optim/optim.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

Tensor leaf(std::initializer_list<double> values) { return tensor(values).requires_grad_(); }

size_t index_of(const History& history, const std::string& name) {
  for (size_t i = 0; i < history.watched.size(); ++i) {
    if (history.watched[i].name == name) return i;
  }
  ADD_FAILURE() << "nothing is called " << name;
  return 0;
}

using twins::words;

TEST(GradientRecorder, RecordsGradientValueAndUpdate) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  (w * tensor({1.0, -2.0})).sum().backward();
  recorder.step(0.5);
  w.detach().add_(tensor({0.3, 0.4}));
  recorder.step();

  const auto& steps = recorder.history().steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].loss, 0.5);
  const Observation& first = steps[0].observations[0];
  EXPECT_DOUBLE_EQ(first.gradient->norm, std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(first.gradient->mean, -0.5);
  EXPECT_EQ(first.gradient->low, -2);
  EXPECT_DOUBLE_EQ(first.value->norm, 5);
  EXPECT_FALSE(first.update_ratio);
  EXPECT_NEAR(*steps[1].observations[0].update_ratio, 0.5 / 5.5, 1e-6);
  EXPECT_FALSE(steps[1].observations[0].gradient) << "no backward ran in this step";
}

// The process would end by a signal.
TEST(GradientRecorder, MayEndAfterItsThread) {
  static const Tensor w = leaf({3, 4});
  static GradientRecorder recorder(NamedTensors{{"w", w}});
  w.sum().backward();
  recorder.step();
  EXPECT_EQ(recorder.history().steps.size(), 1u);
}

TEST(GradientRecorder, SeesGradientsBeforeClipping) {
  const Tensor w = leaf({1, 1});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  (w * 100).sum().backward();
  const std::vector<Tensor> parameters = {w};
  optim::clip_grad_norm_(parameters, 1.0);
  recorder.step();
  EXPECT_NEAR(recorder.history().steps[0].observations[0].gradient->rms(), 100, 1e-4);
}

TEST(GradientRecorder, DoesNotChangeResults) {
  const auto run = [](bool watched) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 2));
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    std::optional<GradientRecorder> recorder;
    if (watched) recorder.emplace(net);
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      mse_loss(net(randn({4, 8})), zeros({4, 2})).backward();
      optimizer.step();
      if (recorder) recorder->step();
    }
    return net.parameters()[0].to_vector<float>();
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(GradientRecorder, WatchesResultsOfModules) {
  nn::Sequential net(nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 1));
  GradientRecorder recorder(net);
  net(ones({3, 4})).sum().backward();
  recorder.step();
  const History& history = recorder.history();
  const Observation& seen = history.steps[0].observations[index_of(history, "1")];
  ASSERT_TRUE(seen.value && seen.gradient);
  EXPECT_EQ(seen.value->count, 12);
  EXPECT_EQ(history.watched[index_of(history, "0.weight")].kind, WatchedKind::parameter);
  EXPECT_EQ(history.watched[index_of(history, "2")].kind, WatchedKind::activation);
}

TEST(GradientRecorder, TakesSeveralActivationsOfOneNameTogether) {
  const Tensor w = leaf({1});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  for (double v : {1.0, 3.0}) {
    const Tensor h = w * v;
    recorder.watch("h", h);
    (h * v).sum().backward();
  }
  recorder.step();
  const Observation& h = recorder.history().steps[0].observations[1];
  EXPECT_DOUBLE_EQ(h.value->mean, 2);
  EXPECT_DOUBLE_EQ(h.gradient->mean, 2);
  EXPECT_DOUBLE_EQ(h.gradient->high, 3);
}

TEST(GradientRecorder, RecordsEveryNthStepOnly) {
  const Tensor w = leaf({1});
  GradientRecorder recorder(NamedTensors{{"w", w}}, {.every = 3, .histogram_every = 2});
  for (int i = 0; i < 7; ++i) {
    (w * 2).sum().backward();
    recorder.step();
  }
  std::vector<int64_t> steps;
  for (const HistoryStep& s : recorder.history().steps) steps.push_back(s.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 3, 6}));
  EXPECT_TRUE(recorder.history().steps[0].observations[0].gradient_histogram);
  EXPECT_FALSE(recorder.history().steps[1].observations[0].gradient_histogram);
}

TEST(GradientRecorder, KeepsALongRunThinned) {
  const Tensor w = leaf({1});
  GradientRecorder recorder(NamedTensors{{"w", w}}, {.kept_steps = 16});
  int64_t told = 0;
  recorder.on_step([&](const History&, const HistoryStep&) { ++told; });
  for (int i = 0; i < 1000; ++i) recorder.step();
  const auto& steps = recorder.history().steps;
  EXPECT_EQ(told, 1000);
  EXPECT_LE(steps.size(), 16u);
  EXPECT_GE(steps.size(), 8u);
  for (size_t i = 2; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step - steps[i - 1].step, steps[1].step - steps[0].step);
  }
}

TEST(GradientRecorder, EndsWithItsLastCopyAndLeaksNothing) {
  const int64_t before = detail::live_tensors();
  {
    const Tensor w = leaf({1, 2});
    Tensor late;
    {
      GradientRecorder recorder(NamedTensors{{"w", w}});
      late = w * 2;
      recorder.watch("late", late);
    }
    late.sum().backward();
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(GradientRecorder, RejectsTensorsThatCannotBeWatched) {
  const Tensor w = leaf({1});
  EXPECT_THROW(GradientRecorder(NamedTensors{{"w", w * 2}}), ValueError);
  EXPECT_THROW(GradientRecorder(NamedTensors{{"w", Tensor()}}), ValueError);
  EXPECT_THROW(GradientRecorder(NamedTensors{{"w", w}}, {.every = 0}), ValueError);
}

// Each fault by itself, so that the words can be told apart.
std::string suspects_after(int steps, const std::function<void(int)>& step, GradientRecorder& recorder) {
  for (int i = 0; i < steps; ++i) {
    step(i);
    recorder.step();
  }
  return words(recorder.suspects());
}

TEST(Suspects, AHealthyRunHasNone) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"a", a}, {"b", b}});
  EXPECT_EQ(suspects_after(
                20,
                [&](int i) {
                  (a * b).sum().backward();
                  a.detach().add_(0.01 * (i + 1)), b.detach().add_(0.01);
                },
                recorder),
            "");
}

TEST(Suspects, NameTheVanishing) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), c = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"a", a}, {"b", b}, {"c", c}});
  const std::string said = suspects_after(
      8,
      [&](int) {
        (a * 1e-6 + b + c).sum().backward();
        for (const Tensor& t : {a, b, c}) t.detach().add_(0.01);
      },
      recorder);
  EXPECT_THAT(said, HasSubstr("vanishing: the gradient of a has an rms of"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Suspects, NameTheExploding) {
  const Tensor a = leaf({1, 2});
  GradientRecorder recorder(NamedTensors{{"a", a}});
  const std::string said = suspects_after(
      20,
      [&](int i) {
        a.set_grad({});
        (a * (i < 14 ? 1.0 : 500.0)).sum().backward();
        a.detach().add_(0.01);
      },
      recorder);
  EXPECT_THAT(said, HasSubstr("exploding: the gradient of a grew to an rms of 500, 500 times its median"));
}

TEST(Suspects, NameTheDeadAndTheFrozen) {
  const Tensor dead = leaf({1, 2}), unused = leaf({1}), forgotten = leaf({1, 2});
  GradientRecorder recorder(NamedTensors{{"dead", dead}, {"unused", unused}, {"forgotten", forgotten}});
  const std::string said = suspects_after(
      8,
      [&](int) {
        const Tensor h = relu(dead - 100);
        recorder.watch("h", h);
        (h + forgotten).sum().backward();
      },
      recorder);
  EXPECT_THAT(said, HasSubstr("dead: the whole gradient of dead is 0"));
  EXPECT_THAT(said, HasSubstr("dead: 100 % of the activation h is 0"));
  EXPECT_THAT(said, HasSubstr("frozen: no gradient came to unused in 8 steps"));
  EXPECT_THAT(said, HasSubstr("frozen: forgotten did not change, though a gradient came"));
}

TEST(Suspects, NameWhereNanBegan) {
  const Tensor a = leaf({1, 0});
  GradientRecorder recorder(NamedTensors{{"a", a}});
  for (int i = 0; i < 3; ++i) {
    const Tensor h = a * 2;
    recorder.watch("h", h);
    const Tensor root = i < 2 ? h : sqrt(h) * 0.0;
    recorder.watch("root", root);
    root.sum().backward();
    recorder.step();
    EXPECT_EQ(recorder.finite(), i < 2);
  }
  EXPECT_THAT(words(recorder.suspects()), HasSubstr("non-finite: the gradient of the activation h held NaN"));
  EXPECT_THAT(words(recorder.suspects()),
              HasSubstr("in step 2: sqrt at recorder_test.cpp:246 makes it of a finite gradient, before 1 other"));
}

TEST(Suspects, GradientThatWasAlwaysNanIsNotCalledMissing) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  for (int i = 0; i < 3; ++i) {
    w.set_grad(Tensor());
    (w * NAN).sum().backward();
    recorder.step();
  }
  EXPECT_THAT(words(recorder.suspects()), HasSubstr("non-finite: the gradient of w held NaN"));
  EXPECT_THAT(words(recorder.suspects()), testing::Not(HasSubstr("frozen")));
}

TEST(Suspects, TheWorstOfOneTroubleComesFirst) {
  History h;
  h.steps.emplace_back();
  for (double rms : {1e-5, 1e-8, 1e-6, 1.0, 1.0, 1.0, 1.0}) {
    Observation o;
    o.gradient = Statistics{.count = 1, .norm = rms};
    h.watched.push_back({.name = "p"});
    h.steps[0].observations.push_back(o);
  }
  const std::vector<Suspect> found = find_suspects(h);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].index, 1u);
  EXPECT_EQ(found[1].index, 2u);
  EXPECT_EQ(found[2].index, 0u);
}

TEST(GradientRecorder, UsesGivenStepNumbers) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"w", w}}, {.every = 3});
  for (const int64_t step : {20, 21, 22, 22, 23, 25}) {
    recorder.set_step(step);
    w.sum().backward();
    recorder.step();
  }
  std::vector<int64_t> steps;
  for (const HistoryStep& s : recorder.history().steps) steps.push_back(s.step);
  EXPECT_THAT(steps, testing::ElementsAre(22, 22, 25)) << "every third from 1";
  EXPECT_THROW(recorder.set_step(0), ValueError);
}

TEST(GradientRecorder, ContinuesTheHistoryOfAnEarlierOne) {
  const Tensor w = leaf({3, 4}), v = leaf({1, 2});
  GradientRecorder before(NamedTensors{{"gone", v}, {"w", w}});
  for (int step = 1; step <= 6; ++step) {
    before.set_step(step);
    (step == 5 ? (w * INFINITY).sum() : w.sum()).backward();
    before.step(step);
  }
  GradientRecorder now(NamedTensors{{"w", w}}, {.kept_steps = 8});
  w.set_grad({});
  for (int step = 7; step <= 9; ++step) {
    now.set_step(step);
    w.sum().backward();
    now.step(step);
  }
  now.remember(before.history());
  const History& all = now.history();
  ASSERT_EQ(all.watched.size(), 2u);
  EXPECT_EQ(all.watched[1].name, "gone");
  EXPECT_EQ(all.watched[0].bad_gradient, 5);
  EXPECT_FALSE(now.finite());
  std::vector<int64_t> steps;
  for (const HistoryStep& s : all.steps) {
    steps.push_back(s.step);
    EXPECT_EQ(s.loss, s.step);
    ASSERT_TRUE(s.observations[0].value);
    EXPECT_EQ(s.observations[0].value->norm, 5);
  }
  EXPECT_THAT(steps, testing::ElementsAre(1, 3, 5, 7, 9)) << "every second, where all are too many";
}

TEST(GradientRecorder, FollowsFirstStepsAndThenEveryTenthOpByOp) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  for (int i = 0; i < 25; ++i) {
    (w * 2).sum().backward();
    recorder.step();
  }
  const History& history = recorder.history();
  std::vector<int64_t> steps;
  for (const Trace& t : history.traces) {
    steps.push_back(t.step);
    ASSERT_EQ(t.passages.size(), 2u);
    EXPECT_EQ(history.sites[t.passages[0].site].op, "sum");
    EXPECT_EQ(history.sites[t.passages[1].site].op, "mul");
    EXPECT_EQ(t.passages[1].from, 0);
    EXPECT_NEAR(t.passages[1].arrived, std::sqrt(2.0), 1e-6);
    ASSERT_EQ(t.arrivals.size(), 1u);
    EXPECT_NEAR(t.arrivals[0].norm, std::sqrt(8.0), 1e-6);
  }
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 10, 20));
  EXPECT_EQ(history.sites[1].parameters, std::vector<size_t>{0});
  GradientRecorder never(NamedTensors{{"w", w}}, {.trace_every = 0});
  (w * 2).sum().backward();
  never.step();
  EXPECT_TRUE(never.history().traces.empty());
  EXPECT_THROW(GradientRecorder(NamedTensors{{"w", w}}, {.trace_every = -1}), ValueError);
}

TEST(GradientRecorder, MayOutliveAGuardThatWasThereBefore) {
  const Tensor w = tensor({0.0}).requires_grad_();
  std::optional<AnomalyGuard> guard(std::in_place, AnomalyOptions{.repro = ""});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  EXPECT_THROW(sqrt(w).backward(), NonFiniteError);
  guard.reset();
  sqrt(w + 1.0).backward();
  recorder.step();
  EXPECT_EQ(recorder.history().traces.size(), 1u);
  guard.emplace();
  EXPECT_THROW(sqrt(w).backward(), NonFiniteError);
}

TEST(GradientRecorder, TracesEmptyNarrowAndStridedGradients) {
  const Tensor half = full({4, 3}, 2.0, f16).requires_grad_(), one = tensor(1.5).requires_grad_();
  const Tensor none = zeros({0, 3}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"half", half}, {"one", one}, {"none", none}});
  for (int i = 0; i < 3; ++i) {
    (relu(half.t()).to(f32).sum() * one + tanh(none).sum() + sigmoid(one * NAN) * 0.0).backward();
    recorder.step();
  }
  EXPECT_EQ(recorder.history().traces.size(), 3u);
  EXPECT_THAT(words(recorder.suspects()), HasSubstr("non-finite: the gradient of"));
}

TEST(JsonLine, IsOneLineWithEveryFigure) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"layer \"1\"", w}});
  for (int i = 0; i < 5; ++i) {
    w.grad().defined() ? w.grad().zero_() : Tensor();
    w.sum().backward();
    recorder.step(2.0);
  }
  const History& history = recorder.history();
  const std::string figures =
      R"("tensors":{"layer \"1\"":{)"
      R"("gradient":{"count":2,"norm":1.41421,"mean":1,"deviation":0,"low":1,"high":1,"zeros":0,"non_finite":0},)"
      R"("value":{"count":2,"norm":5,"mean":3.5,"deviation":0.5,"low":3,"high":4,"zeros":0,"non_finite":0})";
  // Neither histograms nor a trace come in every step.
  EXPECT_EQ(json_line(history, history.steps[4]), R"({"step":4,"loss":2,)" + figures + R"(,"update_ratio":0}}})");
  const std::string first = json_line(history, history.steps[0]);
  EXPECT_THAT(first, testing::StartsWith(R"({"step":0,"loss":2,)" + figures + ","));
  // Both ones are in [1, 2); 3 in [2, 4) and 4 in [4, 8).
  EXPECT_THAT(first, HasSubstr(R"("gradient_bins":{"zeros":0,"non_finite":0,"from":0,"negative":[0],"positive":[2]})"));
  EXPECT_THAT(first,
              HasSubstr(R"("value_bins":{"zeros":0,"non_finite":0,"from":1,"negative":[0,0],"positive":[1,1]})"));
  EXPECT_THAT(first, HasSubstr(R"("parameters":["layer \"1\""]}],"passages":[[0,-1,1,1.41421,1]],)"
                               R"("arrivals":[["layer \"1\"",0,1.41421]]}})"));
}

TEST(JsonLine, MarksNonFiniteValues) {
  const Tensor w = tensor({1.0, -std::numeric_limits<double>::infinity()}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"w", w}});
  (w * w).sum().backward();
  recorder.step(std::numeric_limits<double>::quiet_NaN());
  recorder.step(std::numeric_limits<double>::infinity());
  const std::string first = json_line(recorder.history(), recorder.history().steps[0]);
  EXPECT_THAT(first, HasSubstr(R"("loss":"NaN")"));
  EXPECT_THAT(first, testing::Not(HasSubstr("null")));
  EXPECT_THAT(json_line(recorder.history(), recorder.history().steps[1]), HasSubstr(R"("loss":"Infinity")"));
}

TEST(ReportHtml, HoldsTheDataAndLoadsNothing) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"</script>", w}});
  w.sum().backward();
  recorder.step();
  const std::string page = report_html(recorder.history(), "A <title>");
  EXPECT_THAT(page, HasSubstr("<title>A &lt;title&gt;</title>"));
  EXPECT_THAT(page, HasSubstr(R"("name":"\u003c/script>")"));
  EXPECT_THAT(page, testing::Not(HasSubstr("src=")));
  EXPECT_THAT(page, testing::Not(HasSubstr("url(")));
}

TEST(ReportHtml, OffersRoundStepsFromDenseToSparse) {
  const Tensor w = leaf({3, 4});
  GradientRecorder recorder(NamedTensors{{"w", w}});
  for (int i = 0; i < 91; ++i) recorder.step(i == 90 ? NAN : 2.0 - i / 100.0);
  const std::string page = report_html(recorder.history());
  EXPECT_THAT(page, HasSubstr(R"("stepTicks":[[0,10,20,30,40,50,60,70,80,90],[0,20,40,60,80],[0,50],[0],[90]])"));
  EXPECT_THAT(page, HasSubstr(R"("lossTicks":[1.5,2])"));
  EXPECT_THAT(page, HasSubstr(R"(1.12,1.11,"NaN"])"));
}

TEST(ReportHtml, OfNothingIsAPageToo) {
  GradientRecorder recorder{NamedTensors{}};
  EXPECT_THAT(report_html(recorder.history()), HasSubstr("</html>"));
}

}  // namespace
}  // namespace weft
