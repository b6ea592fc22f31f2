// Modules that are called several times in a step, call by call, beside healthy twins.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace twins;

struct Recurrent : nn::Layer<Recurrent> {
  int calls;
  nn::Linear in{4, 16}, cell{16, 16, false}, out{16, 1};
  Recurrent(int n, double gain) : calls(n) {
    cell.weight.detach().copy_(eye(16) * gain);
    WEFT_REGISTER(in, cell, out);
  }
  Tensor forward(const Tensor& x) const {
    Tensor h = in(x);
    for (int i = 0; i < calls; ++i) h = cell(h);
    return out(h);
  }
};

std::string run(int calls, double gain, int steps = 12) {
  manual_seed(1);
  const Recurrent net(calls, gain);
  optim::SGD optimizer(net.parameters(), {.lr = 1e-14});
  return first_three(net, optimizer, [&](int) { return net(randn({8, 4})).square().mean(); }, {.steps = steps});
}

TEST(CallSuspects, TellHowAResultGrowsFromCallToCall) {
  const std::string said = run(50, 1.25);
  EXPECT_THAT(said, HasSubstr("exploding: the activation cell grows "));
  EXPECT_THAT(said, HasSubstr(" times over 50 calls in a step, 1.2 times each: from an rms of "));
}

TEST(CallSuspects, TellTheCallThatLeavesTheRangeOfFloats) {
  const std::string said = run(50, 10, 3);
  EXPECT_THAT(said, StartsWith("non-finite: the activation cell held NaN or infinity in step 0, in call 3"));
  EXPECT_THAT(said, HasSubstr(" of 50: from call to call it grew 10 times, from an rms of "));
}

TEST(CallSuspects, KeepTheCallsOfAStepApart) {
  manual_seed(2);
  const Recurrent net(6, 2);
  GradientRecorder recorder(net);
  for (int step = 0; step < 3; ++step) {
    net(ones({8, 4})).sum().backward();
    recorder.step();
  }
  const auto& calls = recorder.history().program.calls;
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(recorder.history().watched[calls[0].index].name, "cell");
  EXPECT_EQ(calls[0].step, 2);
  ASSERT_EQ(calls[0].values.size(), 6u);
  ASSERT_EQ(calls[0].gradients.size(), 6u);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_NEAR(calls[0].values[i] / calls[0].values[i - 1], 2, 1e-5);
    EXPECT_NEAR(calls[0].gradients[i - 1] / calls[0].gradients[i], 2, 1e-5);
  }
}

TEST(CallSuspects, AreSilentAboutARecurrenceThatStaysInRange) {
  struct Counter : nn::Layer<Counter> {
    nn::Linear in{4, 16}, cell{16, 16}, out{16, 1};
    Counter() { WEFT_REGISTER(in, cell, out); }
    Tensor forward(const Tensor& x) const {
      Tensor h = in(x);
      for (int i = 0; i < 50; ++i) h = tanh(cell(h)) + h;
      return out(h);
    }
  };
  manual_seed(3);
  const Counter net;
  EXPECT_EQ(first_three(net,
                        [&](int) {
                          const Tensor x = randn({16, 4});
                          return mse_loss(net(x), x.sum({1}, true));
                        }),
            "");
}

}  // namespace
}  // namespace weft
