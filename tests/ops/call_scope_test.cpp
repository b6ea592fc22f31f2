// User ops with CallScope: the name and location in errors, nodes, warnings and hooks.
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/hooks.hpp>
#include <weft/autograd/saved_hooks.hpp>
#include <weft/backends/watch/observe.hpp>
#include <weft/tensor/warning.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string line(int number) { return "call_scope_test.cpp:" + std::to_string(number); }

template <class F>
std::string error_of(const F& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was raised";
}

Tensor own_op(const Tensor& x, Location where = {}) {
  const CallScope call("own_op", where);
  if (x.dim() != 1) raise<ShapeError>({.problem = "needs a vector"});
  return (exp(x) + x.sum()).softmax(0);
}

TEST(CallScope, NodesAndErrorsNameTheOuterCallsPlaceAndTheirOwnOp) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = own_op(x);
  const int at = __LINE__ - 1;
  EXPECT_STREQ(y.impl()->node->op, "softmax");
  EXPECT_THAT(y.impl()->node->where.text(), HasSubstr(line(at)));
  const std::string own = error_of([&] { own_op(x.view({2, 1})); });
  EXPECT_THAT(own, HasSubstr("[own_op] needs a vector\n  at "));
  EXPECT_THAT(own, HasSubstr(line(at + 4)));
  const std::string inner = error_of([&] { own_op(zeros({2}, i64)).mm(x); });
  EXPECT_THAT(inner, HasSubstr("[mm]"));
  EXPECT_EQ(detail::current_call.op, nullptr);
}

// For any failing inner op, the error names the op that the user called.
TEST(CallScope, AnErrorOfAnInnerOpNamesTheOpThatWasCalled) {
  const auto pairs = [](const Tensor& x) {
    const CallScope call("pairs");
    return x.view({-1, 2});
  };
  EXPECT_THAT(error_of([&] { pairs(ones({3})); }), HasSubstr("[pairs] "));
  const auto doubled = [](const Tensor& x) {
    const CallScope call("doubled");
    return own_op(x);
  };
  EXPECT_THAT(error_of([&] { doubled(ones({2, 2})); }), HasSubstr("[doubled] needs a vector"));
  std::string warned;
  const WarningHandler before = set_warning_handler([&](const Warning& w) { warned = w.text; });
  {
    const CallScope call("outermost");
    const CallScope inner("inner");
    warn({.problem = "odd words of an inner op"});
  }
  set_warning_handler(before);
  EXPECT_THAT(warned, HasSubstr("[outermost]"));
}

TEST(CallScope, AVersionErrorNamesTheWriterThatWasCalled) {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor h = x * 2.0;
  const Tensor y = h * h;
  {
    const CallScope call("own_writer");
    h.detach().add_(1);
  }
  EXPECT_THAT(error_of([&] { y.sum().backward(); }), HasSubstr("own_writer"));
}

TEST(CallScope, IsOfItsThread) {
  const CallScope call("outer");
  std::string seen;
  const int at = __LINE__ + 1;
  std::thread([&] { seen = error_of([] { ones({2}).view({3}); }); }).join();
  EXPECT_THAT(seen, HasSubstr(line(at)));
}

TEST(CallScope, CodeOfTheUsersInsideHasPlacesOfItsOwn) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const auto fails = [&] { return error_of([] { ones({2}).view({3}); }); };
  const int at = __LINE__ - 1;
  std::vector<std::string> seen;
  const auto note = [&](const char* who) { seen.push_back(who + (": " + fails())); };

  const Tensor y = x * x;
  y.register_hook([&](const Tensor& g) {
    note("hook");
    return g;
  });
  struct Observer final : KernelObserver {
    std::function<void()> tell;
    void before(const KernelCall&) override {
      if (tell) std::exchange(tell, nullptr)();
    }
  } observer;
  observer.tell = [&] { note("observer"); };
  const WarningHandler before = set_warning_handler([&](const Warning&) { note("handler"); });
  {
    const CallScope call("outer");
    y.sum().backward();
    const ObserverGuard watching(observer);
    exp(x.detach());
    warn({.problem = "odd"});
    const SavedTensorHooks hooks(
        [&](const Tensor& t) {
          note("pack");
          return t.clone();
        },
        [&](const Tensor& t) {
          note("unpack");
          return t;
        });
    exp(x).sum().backward();
  }
  set_warning_handler(before);
  ASSERT_EQ(seen.size(), 5u);
  for (const std::string& words : seen) EXPECT_THAT(words, HasSubstr(line(at)));
}

TEST(CallScope, ABackwardRunsAtItsNodesPlaceWhoeverCallsIt) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = exp(x);
  const int at = __LINE__ - 1;
  const CallScope call("outer");
  const Tensor g = grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  EXPECT_THAT(g.impl()->node->where.text(), HasSubstr(line(at)));
}

struct NarrowsItsGradient : autograd::Function<NarrowsItsGradient> {
  static Tensor forward(autograd::Context&, const Tensor& x) { return x * 2.0; }
  static Tensor backward(autograd::Context&, const Tensor& g) { return g.narrow(0, 0, 5); }
  static constexpr int at = __LINE__ - 1;
};

TEST(CallScope, AnErrorInAUsersBackwardNamesTheLineInIt) {
  const Tensor y = NarrowsItsGradient::apply(tensor({1.0, 2.0}).requires_grad_()).sum();
  const CallScope call("outer");
  const std::string words = error_of([&] { y.backward(); });
  EXPECT_THAT(words, HasSubstr("[narrow]"));
  EXPECT_THAT(words, HasSubstr(line(NarrowsItsGradient::at)));
}

}  // namespace
}  // namespace weft
