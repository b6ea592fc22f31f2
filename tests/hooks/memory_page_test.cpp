// The memory section of a recorder's page with a MemoryHistory.
#include <weft/hooks/memory_history.hpp>
#include <weft/hooks/recorder.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/weft.hpp>

namespace weft::testing {
namespace {

using ::testing::HasSubstr, ::testing::Not;

History trained(bool sick, bool watched) {
  nn::Sequential net(nn::Linear(32, 64), nn::ReLU(), nn::Linear(64, 8));
  optim::AdamW optimizer(net.parameters(), {});
  std::optional<MemoryHistory> memory;
  if (watched) memory.emplace(net);
  GradientRecorder recorder(net);
  std::vector<Tensor> losses;
  const Tensor x = randn({16, 32}), y = randn({16, 8});
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    const Tensor loss = (net(x) - y).square().mean();
    loss.backward();
    optimizer.step();
    losses.push_back(sick ? loss * 2.0 + net(x).mean() : loss.detach());
    if (memory) memory->step();
    recorder.step(loss.item<double>());
  }
  return recorder.history();
}

bool grows(const History& history) {
  for (const Suspect& s : find_suspects(history)) {
    if (s.text.find("memory grows: ") != std::string::npos) return true;
  }
  return false;
}

TEST(MemoryOnThePage, AStepIsDrawnByKindWithTheTensorsAtItsPeak) {
  const History history = trained(false, true);
  ASSERT_EQ(history.memory.size(), 1u);
  const DeviceMemory& m = history.memory[0];
  EXPECT_EQ(m.totals.size(), 12u);
  ASSERT_FALSE(m.curve.empty());
  EXPECT_FALSE(m.at_peak.empty());
  for (const DeviceMemory::Total& t : m.totals) EXPECT_GE(t.peak, t.kept);
  // Weights, both of Adam's averages, in bytes.
  const size_t weights = 4 * (32 * 64 + 64 + 64 * 8);
  EXPECT_GE(m.curve.back().bytes[static_cast<int>(MemoryKind::parameter)], weights);
  EXPECT_GE(m.curve.back().bytes[static_cast<int>(MemoryKind::optimizer)], 2 * weights);
  const std::string page = report_html(history, "run", "");
  EXPECT_THAT(page, HasSubstr("\"memory\":[{\"device\":\"cpu\""));
  EXPECT_THAT(page, HasSubstr("Memory of "));
  EXPECT_THAT(report_text(history, "run", {}), HasSubstr("memory of cpu: "));
  EXPECT_FALSE(grows(history));
}

TEST(MemoryOnThePage, GrowthIsASuspectWithItsLine) {
  const History history = trained(true, true);
  EXPECT_TRUE(grows(history));
  ASSERT_FALSE(history.memory[0].growth.empty());
  EXPECT_THAT(history.memory[0].growth[0], HasSubstr("memory_page_test.cpp:"));
}

TEST(MemoryOnThePage, ALogThatIsReadAgainHasItToo) {
  const History history = trained(true, true);
  History again;
  io::read_history(io::history_text(history), again);
  ASSERT_EQ(again.memory.size(), 1u);
  const DeviceMemory &was = history.memory[0], &is = again.memory[0];
  EXPECT_EQ(is.device, "cpu");
  ASSERT_EQ(is.totals.size(), was.totals.size());
  for (size_t i = 0; i < is.totals.size(); ++i) {
    EXPECT_EQ(is.totals[i].step, was.totals[i].step);
    EXPECT_EQ(is.totals[i].peak, was.totals[i].peak);
    EXPECT_EQ(is.totals[i].kept, was.totals[i].kept);
  }
  EXPECT_EQ(is.step, was.step);
  ASSERT_EQ(is.curve.size(), was.curve.size());
  EXPECT_EQ(is.curve.back().sum(), was.curve.back().sum());
  EXPECT_EQ(is.at_peak, was.at_peak);
  EXPECT_EQ(is.growth, was.growth);
  EXPECT_TRUE(grows(again));
  EXPECT_EQ(report_text(again, "run", {}), report_text(history, "run", {}));
}

TEST(MemoryOnThePage, OfStepsThatAreNoLongerKeptTheLastLineHasTheCourse) {
  History history = trained(false, true);
  const int64_t shown = history.memory[0].step;
  std::erase_if(history.steps, [&](const HistoryStep& step) { return step.step == shown; });
  History again;
  io::read_history(io::history_text(history), again);
  EXPECT_EQ(again.memory.at(0).step, shown);
  EXPECT_EQ(again.memory[0].curve.size(), history.memory[0].curve.size());
  EXPECT_EQ(again.memory[0].totals.size(), 11u);
}

TEST(MemoryOnThePage, ALogGrowsByACourseOnlyWhereMemoryClearlyDoes) {
  nn::Linear net(8, 8);
  MemoryHistory memory(net);
  GradientRecorder recorder(net, {.trace_every = 0});
  int courses = 0;
  recorder.on_step([&](const History& history, const HistoryStep& step) {
    courses += json_line(history, step).find("\"course\"") != std::string::npos;
  });
  std::vector<Tensor> kept;
  for (int i = 0; i < 200; ++i) {
    net(randn({16, 8})).sum().backward();
    kept.push_back(randn({64}));
    memory.step();
    recorder.step();
  }
  EXPECT_GE(courses, 2);
  EXPECT_LE(courses, 100);
}

TEST(MemoryOnThePage, WithoutAHistoryThereIsNothing) {
  const History history = trained(true, false);
  EXPECT_TRUE(history.memory.empty());
  EXPECT_THAT(report_html(history, "run", ""), HasSubstr("\"memory\":[]"));
  EXPECT_THAT(report_text(history, "run", {}), Not(HasSubstr("memory of")));
}

}  // namespace
}  // namespace weft::testing
