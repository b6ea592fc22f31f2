// Options: of groups, by name, in states, and their errors.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

#include "recorded.hpp"

namespace weft {
namespace {

using namespace test;
using testing::HasSubstr;

Tensor parameter(int64_t n = 3) { return ones(n).requires_grad_(); }

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "nothing was wrong";
}

TEST(Options, OfAGroupAreTheOptimizersWhereNotGiven) {
  const Tensor a = parameter(), b = parameter(), c = parameter();
  optim::AdamW optimizer({{{a}, {.lr = 1e-4}}, {{b}, {.weight_decay = 0}}}, {.lr = 3e-4, .beta2 = 0.95});
  optimizer.add_group({c}, {.lr = 1, .amsgrad = true});
  EXPECT_EQ(optimizer.lr(0), 1e-4);
  EXPECT_EQ(optimizer.lr(1), 3e-4);
  EXPECT_EQ(optimizer.option("weight_decay", 0), 0.01);
  EXPECT_EQ(optimizer.option("weight_decay", 1), 0);
  for (const size_t g : {0, 1, 2}) EXPECT_EQ(optimizer.option("beta2", g), 0.95);
  EXPECT_TRUE(optimizer.options(2).amsgrad);
  EXPECT_FALSE(optimizer.options(1).amsgrad);
  EXPECT_EQ(optimizer.parameters().size(), 3u);
}

TEST(Options, GoByName) {
  optim::RMSprop optimizer({parameter()}, {.alpha = 0.5});
  EXPECT_TRUE(optimizer.has_option("alpha"));
  EXPECT_FALSE(optimizer.has_option("beta1"));
  optimizer.set_option("centered", 1, 0);
  EXPECT_TRUE(optimizer.options().centered);
  EXPECT_THAT(refusal([&] { optimizer.set_option("centered", 0.5, 0); }),
              HasSubstr("centered: expected true or false, got 0.5"));
  EXPECT_THAT(refusal([&] { optimizer.set_option("beta1", 0.5, 0); }), HasSubstr("there is no option \"beta1\""));
  EXPECT_THROW(optimizer.set_option("alpha", 0.5, 1), IndexError);
  EXPECT_THROW(optim::options_named<optim::AdamOptions>({{"betas", 1}}), ValueError);
}

TEST(Options, OutOfRangeAreRefusedByNameAndValue) {
  const Tensor p = parameter();
  EXPECT_THAT(refusal([&] { optim::Adam({p}, {.beta2 = 1}); }),
              HasSubstr("[Adam] beta2: expected a number in [0, 1), got 1"));
  EXPECT_THAT(refusal([&] { optim::SGD({p}, {.momentum = -1}); }),
              HasSubstr("[SGD] momentum: expected a finite number of at least 0, got -1"));
  EXPECT_THAT(refusal([&] { optim::NAdam({p}, {.lr = INFINITY}); }), HasSubstr("lr: expected a "));
  EXPECT_THAT(refusal([&] { optim::Adadelta({p}, {.rho = 1.5}); }),
              HasSubstr("rho: expected a number in [0, 1], got 1.5"));
  EXPECT_THAT(refusal([&] { optim::Rprop({p}, {.etaplus = 1}); }),
              HasSubstr("etaplus: expected a finite number above 1, got 1"));
  EXPECT_THAT(refusal([&] { optim::Rprop({p}, {.step_size_min = 3, .step_size_max = 2}); }),
              HasSubstr("step_size_min is above step_size_max"));
  EXPECT_THAT(refusal([&] { optim::Adafactor({p}, {.beta2_decay = 1}); }), HasSubstr("beta2_decay: expected"));
  EXPECT_THAT(refusal([&] { optim::Adafactor({p}, {.d = 0.5}); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([&] { optim::LBFGS({p}, {.max_iter = 0}); }), HasSubstr("max_iter: expected a "));
  EXPECT_THAT(refusal([&] { optim::Muon({p}); }), HasSubstr("a parameter is not a matrix"));
  EXPECT_THAT(refusal([&] {
                optim::Muon({zeros({2, 2}).requires_grad_()}, {.ns_steps = 100});
              }),
              HasSubstr("ns_steps"));
  optim::Adam optimizer({p});
  EXPECT_THROW(optimizer.add_group({parameter()}, {.eps = -1}), ValueError);
  EXPECT_EQ(optimizer.groups().size(), 1u);
}

TEST(Options, OfAStateWin) {
  const Tensor p = parameter();
  optim::SGD saved({p}, {.lr = 0.5, .momentum = 0.9, .nesterov = true}), other({p}, {.lr = 0.1});
  p.set_grad(ones(3));
  saved.step();
  other.load_state_dict(saved.state_dict());
  EXPECT_EQ(other.option("momentum"), 0.9);
  EXPECT_TRUE(other.options().nesterov);
  EXPECT_EQ(other.state_dict().at("0.momentum_buffer").to_vector<float>(), (std::vector<float>{1, 1, 1}));
  auto wrong = saved.state_dict();
  wrong["group.0.momentum"] = tensor(-1.0);
  EXPECT_THROW(other.load_state_dict(wrong), ValueError);
  wrong = saved.state_dict();
  wrong["group.0.momenta"] = tensor(1.0);
  EXPECT_THROW(other.load_state_dict(wrong), ValueError);
  EXPECT_EQ(other.option("momentum"), 0.9);
}

// States that were saved when groups had a rate alone.
TEST(Options, OfAnOldStateStay) {
  const Tensor p = parameter();
  optim::AdamW optimizer({p}, {.lr = 0.1, .beta1 = 0.5});
  optimizer.load_state_dict({{"group.0.lr", tensor(0.25)},
                             {"0.step", tensor(int64_t{4})},
                             {"0.exp_avg", ones(3)},
                             {"0.exp_avg_sq", ones(3)}});
  EXPECT_EQ(optimizer.lr(), 0.25);
  EXPECT_EQ(optimizer.option("beta1"), 0.5);
}

TEST(State, OfOtherGroupsOrAnotherNumberOfParametersIsRefusedAndNothingChanges) {
  const auto groups_of = [](const std::vector<int>& sizes) {
    std::vector<optim::ParameterGroup<optim::AdamWOptions>> groups;
    for (const int size : sizes) {
      groups.emplace_back();
      for (int i = 0; i < size; ++i) groups.back().parameters.push_back(parameter());
    }
    return groups;
  };
  const auto stepped = [&](const std::vector<int>& sizes, double lr) {
    optim::AdamW optimizer(groups_of(sizes), {.lr = lr});
    for (const Tensor& p : optimizer.parameters()) p.set_grad(ones(3));
    optimizer.step();
    return optimizer;
  };
  const std::vector<std::pair<std::vector<int>, const char*>> others = {
      {{1, 2}, "group 0 has 1 parameters in the state, 2 in the optimizer"},
      {{2, 1}, "group 1 has 1 parameters in the state, 2 in the optimizer"},
      {{3, 2}, "group 0 has 3 parameters in the state, 2 in the optimizer"},
      {{1, 3}, "group 0 has 1 parameters in the state, 2 in the optimizer"},
      {{4}, "the state has 1 groups of parameters, the optimizer 2"},
      {{2, 2, 1}, "the state has 3 groups of parameters, the optimizer 2"}};
  for (const auto& [sizes, problem] : others) {
    for (const bool has_state : {true, false}) {
      optim::AdamW optimizer = stepped({2, 2}, 0.1);
      const auto before = optimizer.state_dict();
      const auto other =
          has_state ? stepped(sizes, 0.5).state_dict() : optim::AdamW(groups_of(sizes), {.lr = 0.5}).state_dict();
      EXPECT_THAT(refusal([&] { optimizer.load_state_dict(other); }), HasSubstr(problem));
      const auto after = optimizer.state_dict();
      ASSERT_EQ(after.size(), before.size());
      for (const auto& [name, value] : before) EXPECT_TRUE(equal(after.at(name), value)) << name;
    }
  }
  optim::LBFGS one({parameter()}), two({parameter(), parameter()});
  EXPECT_THAT(refusal([&] { two.load_state_dict(one.state_dict()); }), HasSubstr("group 0 has 1 parameters"));
  optim::AdamW optimizer = stepped({2, 2}, 0.1);
  EXPECT_THROW(optimizer.load_state_dict({}), ValueError);
  optimizer.load_state_dict(stepped({2, 2}, 0.5).state_dict());
  EXPECT_EQ(optimizer.lr(1), 0.5);
}

TEST(Options, ThatAskForMoreStateFindIt) {
  const Tensor p = parameter();
  optim::Adam optimizer({p}, {.lr = 0.1});
  p.set_grad(ones(3));
  optimizer.step();
  EXPECT_FALSE(optimizer.state_dict().contains("0.max_exp_avg_sq"));
  optimizer.set_option("amsgrad", 1, 0);
  optimizer.step();
  EXPECT_TRUE(optimizer.state_dict().contains("0.max_exp_avg_sq"));
  EXPECT_EQ(optimizer.state_dict().at("0.step").item<int64_t>(), 2);
}

TEST(Step, WithAClosureReturnsItsLoss) {
  const Tensor p = parameter();
  optim::SGD optimizer({p}, {.lr = 0.5});
  NoGradGuard outside;
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor l = sum(square(p));
    l.backward();
    return l;
  });
  EXPECT_EQ(loss.item<double>(), 3);
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{0, 0, 0}));
  optimizer.zero_grad(false);
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

// A replay steps with the counts and rates of the moment.
TEST(Step, OfEveryOptimizerIsReplayed) {
#define WEFT_NAME(O) #O,
  for (const std::string name : {WEFT_OPTIMIZERS_BY_NAME(WEFT_NAME)}) {
#undef WEFT_NAME
    if (name == "LBFGS") continue;  // it reads the loss
    SCOPED_TRACE(name);
    const auto run = [&](bool captured) {
      const Tensor p = tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.75}}).requires_grad_();
      const auto optimizer = make_optimizer(name, {p}, json::object());
      const auto one = [&] {
        optimizer->zero_grad();
        sum(square(p) * p).backward();
        optimizer->step();
      };
      auto replay = capture([&] { one(); });
      for (int i = 0; i < 8; ++i) {
        if (i == 5) optimizer->set_lr(0.03);
        if (captured) replay();
        else one();
      }
      return p.to_vector<float>();
    };
    EXPECT_EQ(run(true), run(false));
  }
}

}  // namespace
}  // namespace weft
