// Logs of gradients are read back whole, wherever they were made.
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

std::vector<std::string> texts(const std::vector<Suspect>& suspects) {
  std::vector<std::string> out;
  for (const Suspect& s : suspects) out.push_back(std::string(name_of(s.trouble)) + ": " + s.text);
  return out;
}

/// A net with a dead ReLU, a layer that the optimizer lacks, and a broadcast that nobody meant.
GradientRecorder sick_run(const std::string& folder, int steps = 24) {
  manual_seed(3);
  nn::Linear first(8, 8), dead(8, 8), last(8, 1);
  {
    const NoGradGuard unrecorded;
    dead.bias.fill_(-30.0);
  }
  NamedTensors named{{"first.weight", first.weight}, {"first.bias", first.bias},   {"dead.weight", dead.weight},
                     {"dead.bias", dead.bias},       {"last.weight", last.weight}, {"last.bias", last.bias}};
  std::vector<Tensor> trained{dead.weight, dead.bias, last.weight, last.bias};
  optim::SGD optimizer(trained, {.lr = 0.01});
  GradientRecorder recorder(named);
  const io::GradientLog log(recorder, folder, {.tensorboard = false});
  const Tensor x = randn({16, 8}), y = randn({16});
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor h = tanh(first(x));
    const Tensor loss = square(last(watch(h, "h") + relu(dead(h))) - y).mean();
    loss.backward();
    optimizer.step();
    recorder.step(loss.item<double>());
  }
  return recorder;
}

TEST(LoadHistory, FindsTheSuspectsThatTheRunHad) {
  const TemporaryFolder folder;
  const GradientRecorder recorder = sick_run(folder / "run");
  const auto suspects = texts(recorder.suspects());
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("dead: relu at gradient_history_test.cpp:")));
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("broadcast: ")));
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("frozen: first.weight")));
  EXPECT_EQ(texts(find_suspects(io::load_history(folder / "run"))), suspects);
  EXPECT_EQ(texts(find_suspects(io::load_history(folder / "run" / "gradients.jsonl"))), suspects);
}

TEST(LoadHistory, KeepsHistogramsTracesAndLines) {
  const TemporaryFolder folder;
  const GradientRecorder recorder = sick_run(folder / "run");
  const History &was = recorder.history(), is = io::load_history(folder / "run");
  ASSERT_EQ(is.steps.size(), was.steps.size());
  ASSERT_EQ(is.traces.size(), was.traces.size());
  EXPECT_EQ(is.traces.back().passages.size(), was.traces.back().passages.size());
  const size_t h = is.watched.size() - 1;
  EXPECT_EQ(is.watched[h].name, "h");
  EXPECT_EQ(is.watched[h].op, "tanh");
  EXPECT_EQ(is.watched[h].place, was.watched[h].place);
  EXPECT_THAT(is.watched[h].place, HasSubstr("gradient_history_test.cpp:"));
  ASSERT_NE(was.steps[20].observations[0].value_histogram, nullptr);
  EXPECT_EQ(is.steps[20].observations[0].value_histogram->positive,
            was.steps[20].observations[0].value_histogram->positive);
  EXPECT_EQ(is.steps[20].observations[h].gradient_histogram->negative,
            was.steps[20].observations[h].gradient_histogram->negative);
  EXPECT_EQ(is.steps[21].observations[0].value_histogram, nullptr);
  // Reading and writing preserves the file.
  EXPECT_EQ(io::history_text(is), io::history_text(is));
  History again;
  io::read_history(io::history_text(is), again);
  EXPECT_EQ(io::history_text(again), io::history_text(is));
}

// Modes, clipping, decay, detached parts and labels are of the program, not of a gradient.
TEST(LoadHistory, ReadsProgramFacts) {
  const TemporaryFolder folder;
  manual_seed(5);
  nn::Sequential net(nn::Linear(4, 8), nn::Dropout(0.5), nn::Linear(8, 3));
  net.eval();
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3, .weight_decay = 50});
  GradientRecorder recorder(net);
  {
    const io::GradientLog log(recorder, folder / "run", {.tensorboard = false});
    for (int i = 0; i < 40; ++i) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(randn({16, 4})), zeros({16}, i64));
      loss.backward();
      optim::clip_grad_norm_(net.parameters(), 1e-4);
      optimizer.step();
      recorder.step(loss.item<double>());
    }
  }
  const auto suspects = texts(recorder.suspects());
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("evaluation mode")));
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("clip_grad_norm_")));
  const History again = io::load_history(folder / "run");
  EXPECT_EQ(texts(find_suspects(again)), suspects);
  EXPECT_EQ(again.program.losses.size(), recorder.history().program.losses.size());
  EXPECT_FALSE(again.program.optimizer_steps.empty());
}

// Plain Python beside PyTorch can write this much.
TEST(LoadHistory, ReadsLogsOfOtherPrograms) {
  const TemporaryFolder folder;
  std::ofstream log(folder / "theirs.jsonl");
  for (int i = 0; i < 20; ++i) {
    log << R"({"step":)" << 5 * i << R"(,"tensors":{"a":{"gradient":{"rms":)" << (i < 15 ? 0.01 : 4.0)
        << R"(},"value":{"rms":0.1}},"b":{"value":{"rms":1.0},"update_ratio":0.001}}})" << '\n';
  }
  log.close();
  const History history = io::load_history(folder / "theirs.jsonl");
  EXPECT_EQ(history.every, 5);
  EXPECT_EQ(history.watched.size(), 2u);
  EXPECT_DOUBLE_EQ(history.steps[0].observations[0].gradient->rms(), 0.01);
  const auto suspects = texts(find_suspects(history));
  EXPECT_THAT(suspects, testing::Contains(HasSubstr("exploding: ")));
  EXPECT_THAT(report_html(history), HasSubstr("</html>"));
  EXPECT_THAT(report_text(history), HasSubstr("* a "));
}

TEST(LoadHistory, LeavesOutLinesThatAreNoSteps) {
  History history;
  io::read_history(
      "{\"step\":0,\"tensors\":{\"w\":{\"value\":{\"count\":2,\"norm\":1}}}}\n"
      "{\"step\":1,\"tens\n"
      "not json\n"
      "[1,2]\n"
      "{\"step\":2,\"tensors\":{\"w\":{\"value\":{\"count\":-1}}}}\n"
      "{\"step\":3,\"tensors\":{\"w\":{\"value\":{\"zeros\":2}}}}\n"
      "{\"step\":4,\"tensors\":{},\"trace\":{\"sites\":[],\"passages\":[[0,-1,1,1,1]],\"arrivals\":[]}}\n"
      "{\"step\":5,\"tensors\":{},\"trace\":{\"sites\":[{\"op\":\"a\",\"place\":\"\",\"parameters\":[]}],"
      "\"passages\":[[0,7,1,1,1]],\"arrivals\":[]}}\n"
      "{\"step\":6,\"tensors\":{\"w\":{\"value_bins\":{\"zeros\":0,\"non_finite\":0,\"from\":900,"
      "\"negative\":[1],\"positive\":[1]}}}}\n"
      "{\"step\":6,\"tensors\":{\"w\":{\"value_bins\":{\"zeros\":0,\"non_finite\":0,"
      "\"from\":9223372036854775807,\"negative\":[1],\"positive\":[1]}}}}\n"
      "{\"step\":-9223372036854775807,\"tensors\":{}}\n"
      "{\"step\":7,\"tensors\":{},\"memory\":[{\"device\":\"cpu\",\"peak\":-1,\"kept\":0}]}\n"
      "{\"step\":7,\"tensors\":{},\"memory\":[{\"device\":\"cpu\",\"course_of\":7,\"course\":[[2,1]]}]}\n"
      "\n"
      "{\"step\":8,\"loss\":null,\"tensors\":{\"w\":{\"gradient\":{\"rms\":\"NaN\"}}}}",
      history);
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[1].step, 8);
  EXPECT_EQ(history.watched[0].bad_gradient, 8);
  EXPECT_THAT(report_html(history), HasSubstr("</html>"));
}

TEST(LoadHistory, NamesTheMissingFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty.jsonl");
  std::ofstream(folder / "other.jsonl") << "{\"loss\": 1}\n";
  EXPECT_THROW(io::load_history(folder / "none.jsonl"), IoError);
  EXPECT_THROW(io::load_history(folder.path()), IoError);
  for (const char* name : {"empty.jsonl", "other.jsonl"}) {
    const std::string message = message_of<FormatError>([&] { io::load_history(folder / name); });
    EXPECT_THAT(message, HasSubstr("has no line that says"));
  }
}

// A peak of one step in fifty thousand is still there, in the history and in the page.
TEST(LoadHistory, OfALongRunNoPeakIsLost) {
  History history;
  std::string lines;
  for (int i = 0; i < 50000; ++i) {
    lines += R"({"step":)" + std::to_string(i) + R"(,"loss":)" + (i == 31234 ? "9.75" : "1") +
             R"(,"tensors":{"w":{"gradient":{"rms":)" + (i == 12345 ? "777" : "0.5") + "}}}}\n";
  }
  io::read_history(lines, history);
  EXPECT_LE(history.steps.size(), 2048u);
  EXPECT_GE(history.steps.size(), 1000u);
  EXPECT_EQ(history.every, 1);
  EXPECT_EQ(history.steps.back().step, 49999);
  for (size_t i = history.steps.size() - 60; i + 1 < history.steps.size(); ++i) {
    EXPECT_EQ(history.steps[i].step + 1, history.steps[i + 1].step);
  }
  double most = 0, loss = 0;
  for (const HistoryStep& step : history.steps) {
    most = std::max(most, step.observations[0].gradient->rms()), loss = std::max(loss, *step.loss);
  }
  EXPECT_EQ(most, 777);
  EXPECT_EQ(loss, 9.75);
  const std::string page = report_html(history);
  EXPECT_NE(page.find(",777,"), page.npos);
  EXPECT_NE(page.find(",9.75,"), page.npos);
}

}  // namespace
}  // namespace weft
