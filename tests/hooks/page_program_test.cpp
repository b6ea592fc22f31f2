// `./weft page` and `./weft explain`.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/weft.hpp>

#include <run_program.hpp>

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A run; if it is sick, its second parameter gets no gradient.
void log_run(const std::string& folder, bool sick) {
  const Tensor used = ones({4}).requires_grad_(), other = ones({4}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"used", used}, {"other", other}});
  const io::GradientLog log(recorder, folder, {.tensorboard = false, .page = false});
  optim::SGD optimizer({used, other}, {.lr = 0.01});
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    Tensor loss = (used * used).sum();
    if (!sick) loss = loss + (other * other).sum();
    loss.backward();
    optimizer.step();
    recorder.step(loss.item<double>());
  }
}

class PageProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples + "weft-page")) GTEST_SKIP() << "weft-page was not built";
    log_run(folder / "sick", true);
    log_run(folder / "well", false);
  }
  Outcome page(const std::string& arguments) const { return run(folder, "weft-page " + arguments); }
  std::string file(const std::string& name) const { return read_bytes(folder / name); }

  TemporaryFolder folder;
};

TEST_F(PageProgram, MakesThePageOfARun) {
  EXPECT_EQ(page("sick/").words, "sick/gradients.html\n");
  EXPECT_NE(file("sick/gradients.html").find("no gradient came to other in 12 steps"), std::string::npos);
  EXPECT_EQ(page("well/gradients.jsonl").words, "well/gradients.html\n");
  std::filesystem::copy(folder / "well/gradients.jsonl", folder / "mine.jsonl");
  EXPECT_EQ(page("mine.jsonl").words, "mine.html\n");
  EXPECT_EQ(page("mine.jsonl --out there.html").code, 0);
  EXPECT_EQ(file("there.html"), file("mine.html"));
}

TEST_F(PageProgram, SetsTwoRunsBesideEachOther) {
  EXPECT_EQ(page("sick well").words, "sick/comparison.html\n");
  const std::string both = file("sick/comparison.html");
  EXPECT_NE(both.find("<title>sick and well</title>"), std::string::npos);
}

TEST_F(PageProgram, PrintsTextAndSuspects) {
  const Outcome text = page("sick --text --columns 70 --ascii");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.words, AllOf(HasSubstr("sick\n12 steps"), HasSubstr("frozen      no gradient came to other"),
                                HasSubstr("* other")));
  const Outcome sick = page("--suspects sick"), well = page("--suspects well"), both = page("--suspects well sick");
  EXPECT_EQ(sick.code, 1);
  EXPECT_THAT(sick.words, testing::StartsWith("frozen      no gradient came to other"));
  EXPECT_EQ(well.code, 0);
  EXPECT_EQ(well.words, "no suspects\n");
  EXPECT_EQ(both.code, 1);
}

TEST_F(PageProgram, NamesUnreadableFiles) {
  const Outcome none = page("nowhere"), three = page("sick well sick");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.words, AllOf(HasSubstr("[load_history]"), HasSubstr("nowhere")));
  EXPECT_NE(three.code, 0);
  write_bytes(folder / "text.jsonl", "hello\n");
  EXPECT_EQ(page("text.jsonl").code, 2);
}

}  // namespace
}  // namespace weft
