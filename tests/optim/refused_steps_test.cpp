// A step that is refused moves no parameter, no state and no count.
#include <stdexcept>

#include <gtest/gtest.h>

#include <message_of.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using optim::Optimizer;

struct Limit {
  explicit Limit(size_t bytes) { set_memory_limit({}, memory_stats({}).allocated + bytes); }
  ~Limit() { set_memory_limit({}, 0); }
  Limit(const Limit&) = delete;
};

Tensor parameter(const Dims& shape, DType dtype = f32) { return ones(shape, {.dtype = dtype, .requires_grad = true}); }

template <class O>
class RefusedSteps : public testing::Test {};
using Optimizers =
    testing::Types<optim::Adam, optim::AdamW, optim::Adagrad, optim::Adadelta, optim::RMSprop, optim::Rprop,
                   optim::Adamax, optim::NAdam, optim::RAdam, optim::Lion, optim::SparseAdam, optim::Muon>;
TYPED_TEST_SUITE(RefusedSteps, Optimizers);

TYPED_TEST(RefusedSteps, WithoutMemoryForTheirStatesMoveNothing) {
  // Of several dtypes, so that a kernel does not take them in one call.
  const std::vector<Tensor> all = {parameter({2, 2}), parameter({2, 2}, f64), parameter({1024, 1024})};
  TypeParam optimizer(all);
  for (const Tensor& p : all) p.set_grad(ones_like(p));
  const size_t options = optimizer.state_dict().size();
  {
    const Limit limit(1 << 20);
    EXPECT_THROW(optimizer.step(), OutOfMemoryError);
  }
  for (const Tensor& p : all) EXPECT_TRUE(equal(p, ones_like(p)));
  EXPECT_EQ(optimizer.state_dict().size(), options);
  optimizer.step();
  for (const Tensor& p : all) EXPECT_FALSE(equal(p, ones_like(p)));
}

TYPED_TEST(RefusedSteps, ExpandedParametersAreRefusedAtTheStart) {
  const std::vector<Tensor> all = {parameter({2, 2}), ones({1, 2}).expand({2, 2}).detach().requires_grad_(true)};
  EXPECT_NE(message_of<ValueError>([&] { TypeParam optimizer(all); }).find("expanded"), std::string::npos);
}

TEST(RefusedStep, OfLBFGSBringsParametersBack) {
  for (const auto search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe}) {
    const Tensor p = tensor<float>({3, -2}).requires_grad_(true);
    optim::LBFGS optimizer({p}, {.lr = 0.5, .line_search_fn = search});
    int calls = 0;
    const auto loss = [&] {
      if (++calls == 4) throw std::runtime_error("no more");
      optimizer.zero_grad();
      const Tensor value = sum(p * p * tensor<float>({1, 7})) + square(p[0] * p[1]);
      value.backward();
      return value;
    };
    EXPECT_THROW(optimizer.step(loss), std::runtime_error);
    EXPECT_TRUE(equal(p.detach(), tensor<float>({3, -2})));
  }
}

TEST(RefusedStep, OfASchedulerMovesNoGroup) {
  const std::vector<optim::ParameterGroup<optim::SGDOptions>> groups = {{{parameter({2})}, {.lr = 0.1}},
                                                                        {{parameter({2})}, {.lr = 0.2}}};
  optim::SGD optimizer(groups, {.lr = 0.1});
  const auto rate = [](double at_one) {
    return optim::lambda_lr([=](int64_t step) { return step == 1 ? at_one : 1.0; });
  };
  optim::Scheduler scheduler(optimizer, {rate(0.5), rate(-1)});
  EXPECT_THROW(scheduler.step(), ValueError);
  EXPECT_EQ(optimizer.lr(0), 0.1);
  EXPECT_EQ(optimizer.lr(1), 0.2);
  EXPECT_EQ(scheduler.state().at("step"), 0);
}

TYPED_TEST(RefusedSteps, WithStatesOfAnotherShapeSayThatTheParameterChanged) {
  const Tensor p = parameter({4, 2});
  TypeParam optimizer({p});
  p.set_grad(ones({4, 2}));
  optimizer.step();
  const Tensor before = p.detach().clone();
  p.grad().t_();
  EXPECT_NE(message_of<ShapeError>([&] { optimizer.step(); }).find("gradient"), std::string::npos);
  EXPECT_TRUE(equal(p, before));
  p.set_data(before.narrow(0, 0, 1));  // at the same address
  p.set_grad(ones({1, 2}));
  EXPECT_NE(message_of<ShapeError>([&] { optimizer.step(); }).find("state "), std::string::npos);
  EXPECT_TRUE(equal(p, before.narrow(0, 0, 1)));
}

TEST(ChangedParameters, StepInTheirNewDtype) {
  const Tensor p = parameter({2});
  optim::SGD optimizer({p}, {.lr = 1});
  p.set_grad(ones({2}));
  optimizer.step();
  p.set_data(full({2}, 3.0, f64));
  p.set_grad(ones({2}, f64));
  optimizer.step();
  EXPECT_EQ(p.to_vector<double>(), (std::vector<double>{2, 2}));
}

}  // namespace
}  // namespace weft
