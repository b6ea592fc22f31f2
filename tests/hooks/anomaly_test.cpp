// Finding the first NaN or infinity, and the texts of errors.
#include "hooks/values.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <thread>

#include <weft/backends/watch/observe.hpp>

namespace weft {
namespace {

using Anomaly = LiveCount;

// Folders and line numbers out: "at anomaly_test.cpp:#".
std::string shown(const std::string& text) {
  return std::regex_replace(text, std::regex("[^ (]*(anomaly_test\\.cpp):[0-9]+"), "$1:#");
}
template <class F>
std::string error_of(const F& f) {
  return shown(message_of<NonFiniteError>(f));
}
template <class F>
std::string backward_error_of(const F& f) {
  return error_of([&] {
    const AnomalyGuard guard({.forward = false, .repro = ""});
    f();
  });
}

TEST_F(Anomaly, BackwardNamesTheOpItsLineTheValuesAndThePath) {
  const Tensor x = tensor({0.0, 1.0, 4.0}).requires_grad_();
  const auto text = backward_error_of([&] {
    const Tensor root = sqrt(x);
    const Tensor loss = (root * 2.0).sum();
    loss.backward();
  });
  EXPECT_EQ(text,
            "[sqrt] the first Inf in backward\n"
            "  sqrt at 0: infinite slope\n"
            "  add a small number within, as by sqrt(x + 1e-12); called at anomaly_test.cpp:#\n"
            "    gradient for input 0: float32 [3] on cpu: 0.5 to 1, mean 0.75, 1 of 3 not finite\n"
            "    arrived float32 [3] on cpu: 2 to 2, mean 2\n"
            "    its kernel read float32 [3] on cpu: 2 to 2, mean 2\n"
            "    its kernel read float32 [3] on cpu: 0 to 2, mean 1, 1 zero\n"
            "    path from the loss: sum at anomaly_test.cpp:# -> mul at anomaly_test.cpp:# -> sqrt at\n"
            "      anomaly_test.cpp:#");
}

TEST_F(Anomaly, BackwardStopsAtTheFirstOpNotAtTheLeaf) {
  const Tensor x = tensor({0.0}).requires_grad_();
  // 0 · Inf: sqrt makes the infinity, the product after it the NaN.
  const auto text = backward_error_of([&] { sqrt(x * x).backward(); });
  EXPECT_EQ(text.substr(0, text.find('\n')), "[sqrt] the first Inf in backward");
  const auto nan = backward_error_of([&] { (sqrt(x * x) * 0.0).backward(); });
  EXPECT_EQ(nan.substr(0, nan.find('\n')), "[sqrt] the first NaN in backward");
}

TEST_F(Anomaly, BackwardNamesASumThatOverflows) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const auto text = backward_error_of([&] {
    const Tensor y = x * 1.0;
    (y * 3e38 + y * 3e38).backward();
  });
  EXPECT_EQ(text.substr(0, text.find("\n  scale")),
            "[mul] the first Inf in backward\n  the gradients that meet in its result sum to it");
}

struct Bad : autograd::Function<Bad> {
  static constexpr const char* name = "bad";
  static Tensor forward(Context&, const Tensor& x) { return x * 1.0; }
  static Tensor backward(Context&, const Tensor& g) { return g * std::numeric_limits<double>::quiet_NaN(); }
};

TEST_F(Anomaly, BackwardOfUserFunctionsIsLookedAtToo) {
  const Tensor x = tensor({1.0}).requires_grad_();
  EXPECT_NE(backward_error_of([&] { Bad::apply(x).backward(); }).find("[bad] the first NaN in backward"),
            std::string::npos);
}

TEST_F(Anomaly, FiniteBackwardsPassAndGiveTheSameBits) {
  manual_seed(2);
  nn::Linear m(16, 8);
  const Tensor x = rand({4, 16});
  gelu(m(x)).sum().backward();
  const Doubles plain = values(m.weight.grad());
  m.zero_grad();
  const AnomalyGuard guard({.forward = true, .repro = ""});
  gelu(m(x)).sum().backward();
  EXPECT_EQ(values(m.weight.grad()), plain);
}

TEST_F(Anomaly, TheGuardEndsWithItsScopeAndWithAnError) {
  const Tensor x = tensor({0.0}).requires_grad_();
  EXPECT_NE(backward_error_of([&] { sqrt(x).backward(); }), "no error");
  sqrt(x).backward();
  EXPECT_EQ(x.grad().item<double>(), std::numeric_limits<double>::infinity());
}

TEST_F(Anomaly, LongPathsAreShortened) {
  Tensor y = tensor({0.0}).requires_grad_();
  y = sqrt(y);
  for (int i = 0; i < 40; ++i) y = y + 1.0;
  const auto text = backward_error_of([&] { y.backward(); });
  EXPECT_NE(text.find("(35 more)"), std::string::npos) << text;
}

// ---- forward ----

template <class F>
std::string forward_error_of(const F& f) {
  return error_of([&] {
    const AnomalyGuard guard({.backward = false, .forward = true, .repro = ""});
    f();
  });
}

TEST_F(Anomaly, ForwardNamesTheOpItsLineAndTheValues) {
  const Tensor x = tensor({-1.0, 1.0, 4.0});
  const auto text = forward_error_of([&] { (void)(log(x) + 1.0); });
  EXPECT_EQ(text,
            "[log] the first NaN\n"
            "  log of -1\n"
            "  keep its input above 0, as by adding 1e-6, at anomaly_test.cpp:#\n"
            "    output float32 [3] on cpu: 0 to 1.386, mean 0.6931, 1 zero, 1 of 3 not finite, of kernel unary\n"
            "    input float32 [3] on cpu: -1 to 4, mean 1.333");
}

TEST_F(Anomaly, ForwardSeesInPlaceOpsAndTheirPlace) {
  const Tensor x = tensor({0.0, 2.0});
  const auto text = forward_error_of([&] { log_(x); });
  EXPECT_NE(text.find("[log_] the first Inf\n  log of 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("(overwritten)"), std::string::npos) << text;
  EXPECT_NE(text.find(", at anomaly_test.cpp:#"), std::string::npos) << text;
}

TEST_F(Anomaly, ForwardLeavesInfinitiesThatWereGivenAlone) {
  const double inf = std::numeric_limits<double>::infinity();
  const AnomalyGuard guard({.forward = true, .repro = ""});
  const Tensor mask = full({2, 2}, -inf);
  const Tensor scores = masked_fill(rand({2, 2}), tensor({1.0, 0.0, 0.0, 1.0}).view({2, 2}) > 0.5, -inf);
  (void)softmax(scores, -1);
  (void)(mask + 1.0);
  (void)(tensor({inf, 1.0}) * 2.0);
  EXPECT_THROW((void)(mask - mask), NonFiniteError);  // NaN, where nothing was
}

TEST_F(Anomaly, ForwardLooksAtStridedAndNarrowResults) {
  const AnomalyGuard guard({.forward = true, .repro = ""});
  EXPECT_THROW((void)(full({4}, 60000.0, f16) * 2.0), NonFiniteError);
  EXPECT_THROW((void)full({4}, 1e300, f64).to(f32), NonFiniteError);
  const Tensor target = zeros({3, 3});
  EXPECT_THROW(target.t().slice(0, 0, 2).copy_(log(full({2, 3}, -1.0))), NonFiniteError);
}

/// The second line of the guard's message.
template <class F>
std::string cause_of(const F& f) {
  const std::string text = error_of([&] {
    const AnomalyGuard guard({.repro = ""});
    f();
  });
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  return first == text.npos ? text : text.substr(first + 3, second - first - 3);
}

TEST_F(Anomaly, CausesAreDescribed) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(cause_of([] { (void)sqrt(tensor({4.0, -2.0})); }), "sqrt of a number below 0");
  EXPECT_EQ(cause_of([] { (void)(tensor({0.0, 1.0}) / tensor({0.0, 1.0})); }), "0/0");
  EXPECT_EQ(cause_of([] { (void)(tensor({1.0, 1.0}) / tensor({0.0, 1.0})); }), "a division by 0");
  const Tensor certain = softmax(tensor({0.0, 1000.0}), 0), negative = tensor({4.0, -2.0});
  EXPECT_EQ(cause_of([&] { (void)sqrt(negative); }), "sqrt of -2");
  EXPECT_EQ(cause_of([&] { (void)log(certain); }), "log of a probability that underflowed to 0");
  EXPECT_EQ(cause_of([&] {
              (void)log(softmax(tensor({0.0, 200.0}), 0));
            }),
            "log of a probability that underflowed to 0");
  EXPECT_EQ(cause_of([&] { (void)softmax(full({2, 3}, -inf), 1); }), "softmax of a row that is -inf throughout");
  EXPECT_EQ(cause_of([] { (void)(full({2}, 60000.0, f16) * 2.0); }), "a result exceeds float16's 65504");
  EXPECT_EQ(cause_of([] { (void)exp(tensor({1000.0, 1.0})); }), "a result exceeds float32's 3.40282e+38");
  EXPECT_EQ(cause_of([&] { (void)(tensor({inf, 1.0}) - tensor({inf, 1.0})); }), "infinity less infinity");
  EXPECT_EQ(cause_of([] { (void)sqrt(tensor({4.0, 0.0})); }), "no error");
}

TEST_F(Anomaly, LogarithmsThatALossCutsOffAreNone) {
  const AnomalyGuard guard({.repro = ""});
  const Tensor p = tensor({0.0, 1.0, 0.5}).requires_grad_();
  const Tensor loss = binary_cross_entropy(p, tensor({1.0, 0.0, 1.0}), {.reduction = LossReduction::sum});
  EXPECT_NEAR(loss.item<double>(), 200 + std::log(2), 1e-4);
}

TEST_F(Anomaly, DistinguishesASlopeBehindWhereFromAnInfiniteOne) {
  const Tensor x = tensor({0.0, 2.0}).requires_grad_();
  EXPECT_EQ(cause_of([&] { where(x > 0.0, sqrt(x), 0.0).sum().backward(); }),
            "sqrt at 0: infinite slope times the 0 that a where or a product behind it sends");
  EXPECT_EQ(cause_of([&] { where(x > 0.0, sqrt(where(x > 0.0, x, 1.0)), 0.0).sum().backward(); }), "no error");
}

TEST_F(Anomaly, OneDefaultFindsTheEarliestCauseForwardAndBackward) {
  const Tensor x = tensor({0.0}).requires_grad_();
  EXPECT_EQ(cause_of([&] { (log(x) * 0.0).sum().backward(); }), "log of 0");
  EXPECT_EQ(cause_of([&] { sqrt(x).sum().backward(); }), "sqrt at 0: infinite slope");
}

TEST_F(Anomaly, ForwardIsForItsOwnThread) {
  const AnomalyGuard guard({.forward = true, .repro = ""});
  std::thread([] { EXPECT_NO_THROW((void)log(tensor({-1.0}))); }).join();
}

// In a process of its own, since the variable is read as the program starts.
TEST_F(Anomaly, AnErrorInsideABackwardDoesNotBlindTheForwardAfterIt) {
  const AnomalyGuard guard({.repro = ""});
  const Tensor x = tensor({0.5}).requires_grad_();
  const Tensor saved = x * 1.0, z = saved * saved;
  saved.detach().add_(1.0);
  EXPECT_THROW(z.backward(), AutogradError);  // inside the node
  EXPECT_THROW(log(tensor({-1.0})), NonFiniteError);
}

TEST_F(Anomaly, TheEnvironmentVariableChecksEveryThread) {
  if (std::getenv("WEFT_CHECK_NAN") != nullptr) {
    std::thread([] { EXPECT_THROW((void)log(tensor({-1.0})), NonFiniteError); }).join();
    EXPECT_THROW((void)log(tensor({-1.0})), NonFiniteError);
    return;
  }
  EXPECT_NO_THROW((void)log(tensor({-1.0})));
  const std::string command = "WEFT_CHECK_NAN=1 /proc/" + std::to_string(getpid()) +
                              "/exe --gtest_filter=Anomaly.TheEnvironmentVariableChecksEveryThread > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// ---- in-place ----

TEST_F(Anomaly, ModifiedByAnInPlaceOperationNamesWriterSaverAndRemedy) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = exp(x);
  y.add_(1.0);
  EXPECT_EQ(shown(message_of<AutogradError>([&] { y.sum().backward(); })),
            "[exp] a tensor saved for backward was modified by an in-place operation: float32 of shape [2] is at "
            "version 1, saved at version 0\n"
            "  written by add_ at anomaly_test.cpp:#\n"
            "  use the out-of-place form there, or clone() before the write; saved at anomaly_test.cpp:#");
}

// ---- observing kernels ----

struct Log final : KernelObserver {
  void before(const KernelCall& call) override { text += std::string("<") + call.kernel; }
  void after(const KernelCall& call) override {
    text += std::string(">") + (call.op != nullptr ? call.op : "?") + ":" + std::to_string(call.outputs.size()) + "+" +
            std::to_string(call.inputs.size()) + " ";
    (void)(ones({2}) + 1.0);  // not observed
  }
  std::string text;
};

TEST_F(Anomaly, ObserversSeeKernelsWithOpsAndOperands) {
  const Tensor a = ones({2}), b = ones({2, 3}), w = ones({3}), none;
  Log log, inner;
  {
    const ObserverGuard guard(log);
    (void)(a * a);
    a.add_(1.0);
    (void)layer_norm(b, {3}, w, w);
    const ObserverGuard second(inner);
    (void)exp(a);
  }
  (void)exp(a);
  EXPECT_EQ(log.text, "<binary>mul:1+2 <binary>add_:1+2 <layer_norm>layer_norm:3+3 <unary>exp:1+1 ");
  EXPECT_EQ(inner.text, "<unary>exp:1+1 ");
}

TEST_F(Anomaly, ObserversOfAnOptimizerSeeItsSlots) {
  const Tensor p = ones({4}).requires_grad_();
  optim::Adam adam({p});
  p.sum().backward();
  Log log;
  const ObserverGuard guard(log);
  adam.step();
  EXPECT_NE(log.text.find("<optimizer_step>"), std::string::npos);
  EXPECT_NE(log.text.find(":3+1 "), std::string::npos) << log.text;
}

TEST_F(Anomaly, TheTableIsAsBeforeWhenTheLastObserverWent) {
  const auto before = kernels(DeviceType::cpu).binary;
  {
    Log log;
    const ObserverGuard guard(log);
    EXPECT_NE(kernels(DeviceType::cpu).binary, before);
    std::thread([&] {
      Log other;
      const ObserverGuard second(other, ObserverScope::process);
    }).join();
    EXPECT_NE(kernels(DeviceType::cpu).binary, before);
  }
  EXPECT_EQ(kernels(DeviceType::cpu).binary, before);
}

}  // namespace
}  // namespace weft
