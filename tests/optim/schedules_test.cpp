// Schedules against PyTorch's schedulers over 200 steps.
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/ops/create.hpp>

#include "collected_warnings.hpp"
#include "recorded.hpp"

namespace weft {
namespace {

using namespace test;
using optim::Schedule;

Schedule schedule_of(const std::string& name, const json& k) {
  const auto anneal = [&] {
    return k.value("anneal_strategy", "cos") == "linear" ? optim::Anneal::linear : optim::Anneal::cos;
  };
  if (name == "StepLR") return optim::step_lr(k["step_size"], k.value("gamma", 0.1));
  if (name == "MultiStepLR") return optim::multi_step_lr(k["milestones"], k.value("gamma", 0.1));
  if (name == "ConstantLR") return optim::constant_lr(k["factor"], k["total_iters"]);
  if (name == "LinearLR") {
    return optim::linear_lr({k.value("start_factor", 1.0 / 3), k.value("end_factor", 1.0), k["total_iters"]});
  }
  if (name == "ExponentialLR") return optim::exponential_lr(k["gamma"]);
  if (name == "PolynomialLR") return optim::polynomial_lr(k["total_iters"], k["power"]);
  if (name == "CosineAnnealingLR") return optim::cosine_annealing_lr(k["T_max"], k.value("eta_min", 0.0));
  if (name == "CosineAnnealingWarmRestarts") {
    return optim::cosine_annealing_warm_restarts(k["T_0"], k.value("T_mult", 1), k.value("eta_min", 0.0));
  }
  if (name == "OneCycleLR") {
    return optim::one_cycle_lr({.max_lr = k["max_lr"],
                                .total_steps = k["total_steps"],
                                .pct_start = k.value("pct_start", 0.3),
                                .anneal_strategy = anneal(),
                                .div_factor = k.value("div_factor", 25.0),
                                .final_div_factor = k.value("final_div_factor", 1e4),
                                .three_phase = k.value("three_phase", false)});
  }
  if (name == "CyclicLR") {
    const std::map<std::string, optim::Cycle> modes = {{"triangular", optim::Cycle::triangular},
                                                       {"triangular2", optim::Cycle::triangular2},
                                                       {"exp_range", optim::Cycle::exp_range}};
    optim::CyclicOptions o{.base_lr = k["base_lr"], .max_lr = k["max_lr"], .step_size_up = k["step_size_up"]};
    if (k.contains("step_size_down")) o.step_size_down = k["step_size_down"].get<int64_t>();
    o.mode = modes.at(k.value("mode", "triangular"));
    o.gamma = k.value("gamma", 1.0);
    o.cycle_momentum = k.value("cycle_momentum", true);
    return optim::cyclic_lr(o);
  }
  if (name == "SWALR") return optim::swa_lr(k["swa_lr"], k["anneal_epochs"], anneal());
  throw std::runtime_error("no schedule " + name);
}

Schedule schedule_of(const json& c) {
  if (c["schedulers"].is_null()) return schedule_of(c["scheduler"], c["keywords"]);
  std::vector<Schedule> parts;
  for (const json& part : c["schedulers"]) parts.push_back(schedule_of(part[0], part[1]));
  if (c["scheduler"] == "ChainedScheduler") return optim::chained(parts);
  return optim::sequential(parts, c["keywords"]["milestones"]);
}

TEST(RecordedSchedules, EqualPyTorch) {
  for (const json& c : recorded("schedules.jsonl")) {
    if (c["scheduler"] == "ReduceLROnPlateau") continue;
    SCOPED_TRACE(c["scheduler"].get<std::string>() + " " + c["keywords"].dump());
    const Tensor p = ones(1).requires_grad_();
    const bool is_adam = c["optimizer"] == "Adam";
    const auto optimizer =
        make_optimizer(c["optimizer"], {p}, is_adam ? json{{"lr", 0.1}} : json{{"lr", 0.1}, {"momentum", 0.9}});
    optim::Scheduler scheduler(*optimizer, schedule_of(c));
    for (size_t step = 0; step < 200; ++step) {
      const double wanted = c["rates"][step];
      ASSERT_NEAR(optimizer->lr(), wanted, 1e-12 + 1e-9 * wanted) << "step " << step;
      if (!c["momenta"].is_null()) {
        ASSERT_NEAR(optimizer->option(is_adam ? "beta1" : "momentum"), c["momenta"][step].get<double>(), 1e-12) << step;
      }
      scheduler.step();
    }
    EXPECT_EQ(scheduler.position(), 200);
  }
}

TEST(Schedules, WarnOnceWhereTheSchedulerStepsBeforeTheOptimizer) {
  const Tensor p = ones(1).requires_grad_();
  const auto warned = [&](int optimizer_steps, int scheduler_steps) {
    const CollectedWarnings warnings;
    optim::SGD optimizer({p}, {.lr = 0.1});
    optim::Scheduler scheduler(optimizer, optim::step_lr(2));
    for (int i = 0; i < optimizer_steps; ++i) optimizer.step();
    for (int i = 0; i < scheduler_steps; ++i) scheduler.step();
    return warnings.texts;
  };
  EXPECT_TRUE(warned(1, 3).empty());
  EXPECT_TRUE(warned(0, 0).empty());
  const auto texts = warned(0, 3);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_NE(texts[0].find("call optimizer.step() before scheduler.step()"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("schedules_test.cpp"), std::string::npos);
}

TEST(Schedules, ResumedSchedulesDoNotWarn) {
  const CollectedWarnings warnings;
  const Tensor p = ones(1).requires_grad_();
  p.set_grad(ones(1));
  optim::AdamW first({p}, {.lr = 0.1}), second({p}, {.lr = 0.1});
  first.step();
  second.load_state_dict(first.state_dict());
  optim::Scheduler scheduler(second, optim::step_lr(2));
  scheduler.step();
  EXPECT_TRUE(warnings.texts.empty());
}

TEST(RecordedSchedules, APlateauIsSeenWherePyTorchSeesIt) {
  int seen = 0;
  for (const json& c : recorded("schedules.jsonl")) {
    if (c["scheduler"] != "ReduceLROnPlateau") continue;
    SCOPED_TRACE(c["keywords"].dump());
    const json& k = c["keywords"];
    const Tensor p = ones(1).requires_grad_();
    optim::SGD optimizer({p}, {.lr = 0.1});
    const optim::PlateauOptions options{.maximize = k.value("mode", "min") == "max",
                                        .factor = k.value("factor", 0.1),
                                        .patience = k.value("patience", 10),
                                        .threshold = k.value("threshold", 1e-4),
                                        .absolute = k.value("threshold_mode", "rel") == "abs",
                                        .cooldown = k.value("cooldown", 0),
                                        .min_lr = k.value("min_lr", 0.0)};
    optim::ReduceOnPlateau plateau(optimizer, options);
    for (size_t step = 0; step < 200; ++step) {
      if (step == 100) {
        const auto state = plateau.state();
        plateau = optim::ReduceOnPlateau(optimizer, options);
        plateau.restore(state);
      }
      plateau.step(c["values"][step]);
      ASSERT_NEAR(optimizer.lr(), c["rates"][step].get<double>(), 1e-15) << step;
    }
    ++seen;
  }
  EXPECT_EQ(seen, 3);
}

TEST(Scheduler, ResumesFromAState) {
  const Tensor p = ones(1).requires_grad_(), q = ones(1).requires_grad_();
  const auto make = [&] { return optim::SGD({{{p}, {.lr = 0.1}}, {{q}, {.lr = 0.2}}}, {.momentum = 0.9}); };
  optim::SGD one = make(), other = make();
  const Schedule schedule = optim::cyclic_lr({.base_lr = 0.01, .max_lr = 0.5, .step_size_up = 7});
  optim::Scheduler first(one, {optim::exponential_lr(0.9), schedule});
  for (int i = 0; i < 5; ++i) first.step();
  optim::Scheduler second(other, {optim::exponential_lr(0.9), schedule});
  second.restore(first.state());
  for (int i = 0; i < 5; ++i) {
    for (const size_t g : {0, 1}) {
      EXPECT_EQ(one.lr(g), other.lr(g));
      EXPECT_EQ(one.option("momentum", g), other.option("momentum", g));
    }
    first.step(), second.step();
  }
  EXPECT_NEAR(one.lr(0), 0.1 * std::pow(0.9, 10), 1e-15);
  auto wrong = first.state();
  wrong.erase("base_lr.1");
  EXPECT_THROW(second.restore(wrong), ValueError);
  wrong = first.state();
  wrong["step"] = -1;
  EXPECT_THROW(second.restore(wrong), ValueError);
  EXPECT_EQ(second.position(), 10);
}

TEST(Scheduler, ARateSetInBetweenLastsUntilTheNextStep) {
  const Tensor p = ones(1).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 0.1});
  optim::Scheduler scheduler(optimizer, optim::lambda_lr([](int64_t t) { return 1.0 / static_cast<double>(t + 1); }));
  optimizer.set_lr(7);
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.05);
}

TEST(Schedule, FunctionsOfTheProgram) {
  const Schedule multiplied = optim::multiplicative_lr([](int64_t t) { return t % 2 == 0 ? 0.5 : 2.0; });
  EXPECT_DOUBLE_EQ(multiplied.rate(0, 1), 1);
  EXPECT_DOUBLE_EQ(multiplied.rate(5, 1), 2);
  EXPECT_DOUBLE_EQ(multiplied.rate(4, 1), 1);
  const Schedule own = [](int64_t step, double base) { return base + static_cast<double>(step); };
  EXPECT_DOUBLE_EQ(optim::chained({own, own}).rate(3, 1), 7);
}

TEST(Schedule, RejectsOptionsOutOfRange) {
  using namespace optim;
  EXPECT_THROW(step_lr(0), ValueError);
  EXPECT_THROW(step_lr(3, 0), ValueError);
  EXPECT_THROW(step_lr(3, NAN), ValueError);
  EXPECT_THROW(multi_step_lr({}), ValueError);
  EXPECT_THROW(multi_step_lr({3, -1}), ValueError);
  EXPECT_THROW(constant_lr(1.5), ValueError);
  EXPECT_THROW(linear_lr({.start_factor = 0}), ValueError);
  EXPECT_THROW(linear_lr({.total_iters = 0}), ValueError);
  EXPECT_THROW(exponential_lr(-0.5), ValueError);
  EXPECT_THROW(polynomial_lr(0), ValueError);
  EXPECT_THROW(polynomial_lr(5, -1), ValueError);
  EXPECT_THROW(cosine_annealing_lr(0), ValueError);
  EXPECT_THROW(cosine_annealing_warm_restarts(0), ValueError);
  EXPECT_THROW(cosine_annealing_warm_restarts(3, 0), ValueError);
  EXPECT_THROW(one_cycle_lr({.max_lr = 1}), ValueError);
  EXPECT_THROW(one_cycle_lr({.max_lr = 1, .total_steps = 5, .pct_start = 1.5}), ValueError);
  EXPECT_THROW(cyclic_lr({.step_size_up = 0}), ValueError);
  EXPECT_THROW(cyclic_lr({.step_size_down = 0}), ValueError);
  EXPECT_THROW(swa_lr(-1), ValueError);
  EXPECT_THROW(chained({}), ValueError);
  EXPECT_THROW(sequential({step_lr(1), step_lr(1)}, {}), ValueError);
  EXPECT_THROW(sequential({step_lr(1), step_lr(1)}, {0}), ValueError);
  EXPECT_THROW(step_lr(1).rate(-1, 0.1), ValueError);
  EXPECT_THROW(warmup_cosine({.warmup = 5, .steps = 3}, Location()), ValueError);

  const Tensor p = ones(1).requires_grad_();
  SGD optimizer({p}, {.lr = 0.1});
  EXPECT_THROW(Scheduler(optimizer, std::vector<Schedule>{}), ValueError);
  Scheduler cycle(optimizer, one_cycle_lr({.max_lr = 1, .total_steps = 3}));
  for (int i = 0; i < 3; ++i) cycle.step();
  const double last = optimizer.lr();
  EXPECT_THROW(cycle.step(), ValueError);
  EXPECT_EQ(optimizer.lr(), last);
  EXPECT_EQ(cycle.position(), 3);
  Adagrad without({p});
  EXPECT_THROW(Scheduler(without, one_cycle_lr({.max_lr = 1, .total_steps = 3})), ValueError);
  EXPECT_THROW(ReduceOnPlateau(optimizer, {.factor = 1}), ValueError);
  EXPECT_THROW(ReduceOnPlateau(optimizer, {.patience = -1}), ValueError);
}

}  // namespace
}  // namespace weft
