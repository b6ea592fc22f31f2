// Parameters that a line cuts off from the loss, beside healthy twins.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace twins;

std::string here(int line) { return "cut_suspects_test.cpp:" + std::to_string(line); }

enum class Fault { none, detach, detach_and_go_on, item, no_grad, integers, unused };

int cut_line = 0, log_line = 0;

struct Net : nn::Layer<Net> {
  Fault fault;
  nn::Linear encoder{8, 16}, head{16, 4}, spare{16, 16, false};
  nn::Embedding codes{16, 16};
  nn::Parameter scale{full({1}, 1.0)};
  mutable double logged = 0;
  explicit Net(Fault f) : fault(f) { WEFT_REGISTER(encoder, head, spare, codes, scale); }

  Tensor forward(const Tensor& x) const {
    Tensor h = encode(x);
    log_line = __LINE__ + 1;
    logged = h.detach().abs().mean().item<double>();  // reading a value for a log is no fault
    if (fault != Fault::unused) h = h + spare(h);
    if (fault == Fault::detach) {
      cut_line = __LINE__ + 1;
      h = h.detach();
    }
    if (fault == Fault::detach_and_go_on) {
      cut_line = __LINE__ + 1;
      h = h.detach() * 2 + 1;
    }
    if (fault == Fault::integers) {
      cut_line = __LINE__ + 1;
      const Tensor chosen = argmax(h, 1);
      h = codes(chosen);
    } else {
      h = h + codes(arange(h.size(0)) % 16);
    }
    if (fault == Fault::item) {
      cut_line = __LINE__ + 1;
      return head(h) * scale.item<double>();
    }
    return head(h) * scale;
  }
  Tensor encode(const Tensor& x) const {
    if (fault != Fault::no_grad) return tanh(encoder(x));
    const NoGradGuard unrecorded;
    cut_line = __LINE__ + 1;
    return tanh(encoder(x));
  }
};

std::string run(Fault fault) {
  manual_seed(1);
  const Rows rows(8);
  const Net net(fault);
  return first_three(net, [&](int) {
    const auto [x, y] = rows.draw(32);
    return cross_entropy(net(x), y);
  });
}

TEST(CutSuspects, AreSilentWhereEveryParameterIsReached) { EXPECT_EQ(run(Fault::none), ""); }

TEST(CutSuspects, NameTheDetachBetweenParametersAndLoss) {
  const std::string said = run(Fault::detach);
  EXPECT_THAT(said, HasSubstr("frozen: no gradient came to encoder.weight, encoder.bias and spare.weight in 40 steps: "
                              "detach at " +
                              here(cut_line) + " cuts them off from the loss"));
  EXPECT_THAT(said, Not(HasSubstr(here(log_line))));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(CutSuspects, NameADetachInsideTheModel) {
  const std::string said = run(Fault::detach_and_go_on);
  EXPECT_THAT(said, HasSubstr("detach at " + here(cut_line)));
}

TEST(CutSuspects, NameTheItemThatTakesANumberOut) {
  const std::string said = run(Fault::item);
  EXPECT_THAT(said, HasSubstr("frozen: no gradient came to scale in 40 steps: item at " + here(cut_line) +
                              " takes a number out of the graph"));
}

TEST(CutSuspects, NameTheOpThatRunsUnrecorded) {
  const std::string said = run(Fault::no_grad);
  EXPECT_THAT(said, HasSubstr("no gradient came to encoder.weight and encoder.bias in 40 steps: linear at " +
                              here(cut_line) + " runs while nothing is recorded"));
}

TEST(CutSuspects, NameTheOpThatReturnsIntegers) {
  const std::string said = run(Fault::integers);
  EXPECT_THAT(said, HasSubstr("argmax at " + here(cut_line) + " gives integers, through which no gradient passes"));
  EXPECT_THAT(said, HasSubstr("no gradient came to encoder.weight, encoder.bias and spare.weight"));
}

TEST(CutSuspects, ReportAParameterThatNoOpReads) {
  const std::string said = run(Fault::unused);
  EXPECT_THAT(said, HasSubstr("no gradient came to spare.weight in 40 steps: no op reads it"));
}

TEST(CutSuspects, AreSilentAboutLayersThatAreFrozenOnPurpose) {
  manual_seed(2);
  const Rows rows(8);
  Net net(Fault::none);
  net.encoder.requires_grad_(false);
  EXPECT_EQ(first_three(net,
                        [&](int) {
                          const auto [x, y] = rows.draw(32);
                          return cross_entropy(net(x), y);
                        }),
            "");
}

// The same tensor is read for a log behind a detach of its own, in a line before the one that cuts.
TEST(CutSuspects, NameOneLineForEachGroup) {
  manual_seed(3);
  const nn::Linear a(4, 8), b(8, 8), c(8, 1);
  optim::SGD optimizer({a.weight, b.weight, c.weight}, {.lr = 1e-2});
  GradientRecorder recorder(NamedTensors{{"a", a.weight}, {"b", b.weight}, {"c", c.weight}});
  int first = 0, second = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const Tensor x = randn({16, 4});
    first = __LINE__ + 1;
    Tensor h = a(x).detach();
    const Tensor g = tanh(b(h));
    second = __LINE__ + 1;
    h = (g > 0.0).to(f32);
    mse_loss(c(h), x.sum({1}, true)).backward();
    optimizer.step();
    recorder.step();
  }
  const std::string said = words(recorder.suspects());
  EXPECT_THAT(said, HasSubstr("no gradient came to a in 20 steps: detach at " + here(first)));
  EXPECT_THAT(said, HasSubstr("no gradient came to b in 20 steps: gt at " + here(second)));
}

}  // namespace
}  // namespace weft
