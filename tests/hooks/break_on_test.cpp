// Stops at ops: which calls stop, their events, and the display under gdb.
#include "hooks/values.hpp"

#include <csignal>

#include <functional>
#include <limits>

#include <weft/hooks/break_on.hpp>
#include <weft/tensor/warning.hpp>

namespace weft {
namespace {

using Breaks = LiveCount;

struct Seen {
  std::vector<std::string> texts;
  BreakOptions operator()(BreakOptions options) {
    options.call = [this](const BreakEvent& event) {
      const std::string text = event.text();
      texts.push_back(text.substr(0, text.find(", called")));
    };
    return options;
  }
};
using Texts = std::vector<std::string>;

TEST_F(Breaks, AnOpStopsBeforeItRunsForwardAndBackward) {
  Seen seen;
  const Tensor x = tensor({0.5, 1.0}).requires_grad_();
  const BreakOn stop(seen({.op = "exp"}));
  (exp(x) * log(x)).sum().backward();
  EXPECT_EQ(seen.texts, (Texts{"before exp", "before exp in backward"}));
  EXPECT_EQ(stop.stops(), 2);
}

TEST_F(Breaks, NothingStopsOnceItIsGoneOrOnAnotherOp) {
  Seen seen;
  const Tensor x = tensor({0.5}).requires_grad_();
  { const BreakOn stop(seen({.op = "exp"})); }
  const BreakOn other(seen({.op = "softmax"}));
  exp(x).backward();
  EXPECT_TRUE(seen.texts.empty());
  EXPECT_FALSE(x.grad().isnan().any().item<bool>());
}

TEST_F(Breaks, AnOpInsideAnotherIsFoundByBothNames) {
  Seen called, inside;
  const Tensor x = tensor({0.5, 1.0}), y = tensor({1.0, 2.0});
  const BreakOn outer(called({.op = "mse_loss"})), inner(inside({.op = "mean"}));
  mse_loss(x, y);
  EXPECT_EQ(called.texts, (Texts{"before sub", "before square", "before mean"}));
  EXPECT_EQ(inside.texts, (Texts{"before mean"}));
}

TEST_F(Breaks, ALineStopsOpsThatItCalled) {
  Seen seen;
  const Tensor x = tensor({0.5}).requires_grad_();
  const unsigned line = __LINE__ + 2;
  const BreakOn stop(seen({.line = "hooks/break_on_test.cpp:" + std::to_string(line)}));
  const Tensor y = sqrt(x);
  const Tensor z = exp(y);
  z.backward();
  EXPECT_EQ(seen.texts, (Texts{"before sqrt", "before sqrt in backward"}));
  const BreakOn elsewhere(seen({.line = "on_test.cpp:" + std::to_string(line)}));
  seen.texts.clear();
  for (int i = 0; i < 1; ++i) sqrt(x);
  EXPECT_TRUE(seen.texts.empty());
}

TEST_F(Breaks, NonFiniteStopsAfterTheOpThatMakesIt) {
  Seen seen;
  const Tensor x = tensor({0.0, 4.0}).requires_grad_();
  const BreakOn stop(seen({.non_finite = true, .repro = ""}));
  (sqrt(x * 1.0) * 0.0).sum().backward();  // the slope at 0 is Inf, and 0 Inf is NaN
  EXPECT_EQ(seen.texts, (Texts{"after sqrt in backward"}));
  seen.texts.clear();
  const Tensor y = log(tensor({0.0, 1.0}));
  (y + 1.0).exp();  // -Inf arrived: it is not made here
  EXPECT_EQ(seen.texts, (Texts{"after log"}));
  seen.texts.clear();
  full({2}, -std::numeric_limits<double>::infinity());
  (sqrt(tensor({1.0, 4.0}).requires_grad_())).sum().backward();
  EXPECT_TRUE(seen.texts.empty());
}

TEST_F(Breaks, SkipPassesOverTheFirst) {
  Seen seen;
  const BreakOn stop(seen({.op = "exp", .skip = 2}));
  const Tensor x = tensor({0.5});
  for (int i = 0; i < 4; ++i) exp(x);
  EXPECT_EQ(stop.stops(), 2);
}

TEST_F(Breaks, AModuleStopsItsOwnOpsForwardAndBackward) {
  Seen seen;
  nn::Sequential net(nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 3), nn::Tanh());
  const Tensor x = ones({1, 2});
  {
    const BreakOn stop(net, seen({.op = "tanh", .module = "1"}));
    net(x).sum().backward();
    EXPECT_EQ(seen.texts, (Texts{"before tanh", "before tanh in backward"}));
    seen.texts.clear();
  }
  net(x).sum().backward();
  EXPECT_TRUE(seen.texts.empty());
  {
    const BreakOn stop(net, seen({.op = "tanh"}));
    net(x).sum().backward();
    EXPECT_EQ(seen.texts.size(), 4u);
  }
  EXPECT_THROW(BreakOn(net, {.module = "7"}), ValueError);
}

TEST_F(Breaks, OpsOfTheHandlerDoNotStopAndItsExceptionsPropagate) {
  const Tensor x = tensor({0.5}).requires_grad_();
  int calls = 0;
  {
    const BreakOn stop({.op = "exp", .call = [&](const BreakEvent&) {
                          ++calls;
                          exp(x * 2.0).backward();
                        }});
    exp(x);
  }
  EXPECT_EQ(calls, 1);
  const BreakOn stop({.op = "exp", .call = [&](const BreakEvent&) { throw std::runtime_error("mine"); }});
  EXPECT_EQ(message_of<std::runtime_error>([&] { exp(x); }), "mine");
  EXPECT_EQ(message_of<std::runtime_error>([&] { exp(x); }), "mine");
}

TEST_F(Breaks, AForwardThatThrewIsLeft) {
  Seen seen;
  nn::Sequential net(nn::Linear(2, 3), nn::Tanh());
  const BreakOn stop(net, seen({.op = "exp", .module = "0"}));
  EXPECT_THROW(net(ones({1, 5})), ShapeError);
  exp(ones({2}));
  EXPECT_EQ(stop.stops(), 0);
  net.children()[0].register_forward_pre_hook([](const Tensor& x) { return exp(x); });
  net(ones({1, 2}));
  EXPECT_EQ(stop.stops(), 1);
}

TEST_F(Breaks, AModuleThatCallsItselfIsLeftOnce) {
  struct Twice : nn::Layer<Twice> {
    Tensor forward(const Tensor& x) const { return x.dim() > 1 ? (*this)(x.reshape({-1})) + 1.0 : sqrt(x); }
  };
  Seen seen;
  Twice net;
  const BreakOn stop(net, seen({.op = "add"}));
  net(ones({2, 2}));
  ones({2}) + 1.0;
  EXPECT_EQ(stop.stops(), 1);
}

/// The warning of a BreakOn that never stopped.
std::string warning_of(BreakOptions options, const std::function<void()>& f, Location where = {}) {
  std::string text;
  const WarningHandler before = set_warning_handler([&](const Warning& w) { text += w.text; });
  {
    options.call = [](const BreakEvent&) {};
    const BreakOn stop(std::move(options), where);
    f();
  }
  set_warning_handler(before);
  return text;
}

TEST_F(Breaks, AnUnmetConditionWarnsWithTheNearestName) {
  const auto run = [] { softmax(exp(ones({2, 2})), 1); };
  const std::string op = warning_of({.op = "sofmax"}, run);
  EXPECT_NE(op.find("nothing of the op 'sofmax' ran"), std::string::npos) << op;
  EXPECT_NE(op.find("'softmax' ran"), std::string::npos) << op;
  const std::string line = warning_of({.line = "break_on_test.cpp:1"}, run);
  EXPECT_NE(line.find("nothing at break_on_test.cpp:1 ran"), std::string::npos) << line;
  EXPECT_EQ(line.find("' ran"), std::string::npos) << line;
  EXPECT_NE(warning_of({.op = "nothing_alike_at_all"}, run).find("never stopped"), std::string::npos);
  EXPECT_EQ(warning_of({.op = "softmax"}, run), "");
  EXPECT_EQ(warning_of({.op = "softmax", .skip = 9}, run), "");
  EXPECT_EQ(warning_of({.op = "exp", .non_finite = true, .repro = ""}, run), "");
  EXPECT_EQ(warning_of({.non_finite = true, .repro = ""}, run), "");
  EXPECT_EQ(warning_of({.op = "softmax"}, [] {}), "");  // nothing ran at all
}

TEST_F(Breaks, AnErrorInAPassDoesNotBlindTheNextOne) {
  Seen seen;
  const BreakOn stop(seen({.op = "exp"}));
  const Tensor x = tensor({0.5}).requires_grad_();
  const Tensor y = sqrt(x);
  y.register_hook([](const Tensor&) { throw std::runtime_error("hook"); });
  EXPECT_THROW((y * 2.0).backward(), std::runtime_error);
  const Tensor saved = x * 1.0;
  const Tensor z = saved * saved;
  saved.detach().add_(1.0);
  EXPECT_THROW(z.backward(), AutogradError);  // inside the node
  exp(x.detach());
  EXPECT_EQ(seen.texts, (Texts{"before exp"}));
}

TEST_F(Breaks, ANodeThatThrewDoesNotHideItsLineInTheNextForward) {
  Seen seen;
  const BreakOn stop(seen({.op = "mul"}));
  const Tensor x = tensor({0.5}).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    const Tensor saved = x + 1.0;
    const Tensor y = saved * saved;
    if (i == 0) {
      saved.detach().add_(1.0);
      EXPECT_THROW(y.backward(), AutogradError);
    } else {
      y.backward();
    }
  }
  EXPECT_EQ(seen.texts, (Texts{"before mul", "before mul in backward", "before mul", "before mul in backward"}));
}

TEST_F(Breaks, DescriptionsContainValues) {
  std::string text;
  const BreakOn stop(
      {.op = "log", .non_finite = true, .repro = "", .call = [&](const BreakEvent& e) { text = e.text(); }});
  const Tensor x = tensor({0.0, 1.0});
  log(x);
  EXPECT_NE(text.find("input float32 [2] on cpu: 0 to 1, mean 0.5, 1 zero"), std::string::npos) << text;
  EXPECT_NE(text.find("output float32 [2] on cpu: 0 to 0, mean 0, 1 zero, 1 of 2 not finite"), std::string::npos);
  x.clone().log_();
  EXPECT_NE(text.find("input, overwritten, float32 [2] on cpu\n"), std::string::npos) << text;
}

TEST_F(Breaks, BadOptionsAreErrors) {
  EXPECT_THROW(BreakOn({.line = "net.cpp"}), ValueError);
  EXPECT_THROW(BreakOn({.line = "net.cpp:12x"}), ValueError);
  EXPECT_THROW(BreakOn({.skip = -1}), ValueError);
  EXPECT_THROW(BreakOn({.module = "a"}), ValueError);
}

TEST_F(Breaks, WithoutAFunctionTheSignalIsRaisedWhereSomebodyWaitsForIt) {
  static volatile std::sig_atomic_t traps = 0;
  const Tensor x = tensor({0.5});
  const BreakOn stop({.op = "exp"});
  exp(x);  // nobody waits: the program goes on
  EXPECT_EQ(stop.stops(), 1);
  const auto outer = std::signal(SIGTRAP, [](int) { traps = traps + 1; });
  exp(x);
  std::signal(SIGTRAP, outer);
  EXPECT_EQ(traps, 1);
}

}  // namespace
}  // namespace weft
