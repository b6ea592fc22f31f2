#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.hpp"
#include "small_run.hpp"

namespace weft::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Stepper, GoesByTheOrder) {
  manual_seed(1);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  std::vector<std::string> order;
  const Tensor& weight = net.up.weight;
  const uint32_t version = weight.version();
  const ScopedHook arrives =
      weight.register_post_accumulate_grad_hook([&](const Tensor&) { order.push_back("backward"); });
  const auto seen = [&](const std::string& name) {
    order.push_back(name + (weight.version() == version ? "" : " updated") + (weight.grad().defined() ? "" : " zero"));
  };
  Stepper stepper(net, optimizer,
                  {.accumulate = 2, .reduce = [&] { seen("reduce"); }, .schedule = [&] { seen("schedule"); }});
  const auto loss = [&] { return cross_entropy(net(ones({3, 4})), zeros({3}, i64)); };
  EXPECT_FALSE(stepper.step(loss));
  EXPECT_EQ(stepper.waiting(), 1);
  EXPECT_TRUE(stepper.step(loss)->updated);
  seen("end");
  EXPECT_THAT(order, testing::ElementsAre("backward", "backward", "reduce", "schedule updated", "end updated zero"));
  EXPECT_EQ(stepper.steps(), 1);
}

TEST(Stepper, OfSeveralBatchesHasTheGradientOfOneLargeOne) {
  for (const int64_t parts : {1, 2, 3, 4}) {
    manual_seed(1);
    nn::Linear one(4, 2), many = one.clone();
    const Tensor x = randn({12, 4}), y = randint(0, 2, {12});
    optim::SGD a(one.parameters(), {.lr = 1}), b(many.parameters(), {.lr = 1});
    Stepper whole(one, a), pieces(many, b, {.accumulate = 4});
    whole.step([&] { return cross_entropy(one(x), y); });
    const std::vector<Tensor> xs = x.split(12 / parts), ys = y.split(12 / parts);
    std::optional<StepResult> done;
    for (size_t i = 0; i < xs.size(); ++i) done = pieces.step([&] { return cross_entropy(many(xs[i]), ys[i]); });
    // Fewer batches than a step has are their mean.
    if (parts < 4) {
      EXPECT_FALSE(done);
      done = pieces.flush();
    }
    ASSERT_TRUE(done);
    EXPECT_LT(max(abs(one.weight - many.weight)).item<double>(), 1e-6) << parts;
    EXPECT_FALSE(pieces.flush());
  }
}

TEST(Stepper, BatchesOfUnequalSizeCountByTheirWeights) {
  for (const bool as_sum : {false, true}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, 8, 3}, {9, 3}, {0, 2, 10}, {12, 0, 0}}) {
      manual_seed(1);
      nn::Linear one(4, 2), many = one.clone();
      const Tensor x = randn({12, 4}), y = randint(0, 2, {12});
      optim::SGD a(one.parameters(), {.lr = 1}), b(many.parameters(), {.lr = 1});
      Stepper whole(one, a), pieces(many, b, {.accumulate = 3});
      const auto right = whole.step([&] { return cross_entropy(one(x), y); });
      std::optional<StepResult> done;
      int64_t first = 0;
      for (const int64_t n : sizes) {
        const Tensor own = x.narrow(0, first, n), target = y.narrow(0, first, n);
        first += n;
        done = pieces.step([&] {
          const Tensor loss =
              cross_entropy(many(own), target, {.reduction = as_sum ? LossReduction::sum : LossReduction::mean});
          return BatchLoss(as_sum ? loss / n : loss, static_cast<double>(n));
        });
      }
      if (sizes.size() < 3) done = pieces.flush();
      ASSERT_TRUE(done);
      EXPECT_LT(max(abs(one.weight - many.weight)).item<double>(), 1e-6) << sizes[0];
      EXPECT_NEAR(done->loss, right->loss, 1e-6);
      EXPECT_EQ(done->weight, 12);
    }
  }
}

TEST(Stepper, EqualWeightsHaveTheBitsOfNone) {
  for (const int batches : {2, 3}) {
    manual_seed(1);
    Net a, b = a.clone();
    optim::AdamW one(a.parameters(), {.lr = 0.01}), other(b.parameters(), {.lr = 0.01});
    Stepper plain(a, one, {.accumulate = 3}), weighted(b, other, {.accumulate = 3});
    for (int i = 0; i < batches; ++i) {
      const Tensor x = randn({6, 4}), y = randint(0, 2, {6});
      manual_seed(static_cast<uint64_t>(i));
      plain.step([&] { return cross_entropy(a(x), y); });
      manual_seed(static_cast<uint64_t>(i));
      weighted.step([&] { return BatchLoss(cross_entropy(b(x), y), 0.1); });
    }
    plain.flush(), weighted.flush();
    EXPECT_EQ(weights_of(a), weights_of(b)) << batches;
  }
}

TEST(Stepper, WeightsOfProcessesAreComparedBeforeTheLastBackward) {
  manual_seed(1);
  nn::Linear one(4, 2), many = one.clone();
  const Tensor x = randn({12, 4}), y = randint(0, 2, {12});
  optim::SGD a(one.parameters(), {.lr = 1}), b(many.parameters(), {.lr = 1});
  Stepper whole(one, a, {.reduce = [&] {
                  for (const Tensor& p : one.parameters()) p.grad().mul_(0.5);
                }});
  // As with another process of the same gradients' mean and 3 times the samples: this one's count for a half of theirs.
  double given = 0;
  Stepper pieces(many, b, {.accumulate = 2, .mean_weight = [&](double own) { return given = own, 2 * own; }});
  whole.step([&] { return cross_entropy(one(x), y); });
  for (const auto& [first, n] : {std::pair{0, 2}, std::pair{2, 10}}) {
    pieces.step([&] { return BatchLoss(cross_entropy(many(x.narrow(0, first, n)), y.narrow(0, first, n)), n); });
  }
  EXPECT_EQ(given, 12);
  EXPECT_LT(max(abs(one.weight - many.weight)).item<double>(), 1e-6);
}

TEST(Stepper, ABatchOfWeightZeroHasABackwardWhereOthersMayWaitForIt) {
  for (const bool is_empty : {true, false}) {
    for (const bool waits : {true, false}) {
      manual_seed(1);
      nn::Linear one(4, 2), net = one.clone();
      const Tensor x = randn({12, 4}), y = randint(0, 2, {12}), ignored = full({12}, -100, i64);
      optim::SGD a(one.parameters(), {.lr = 1}), b(net.parameters(), {.lr = 1});
      Stepper whole(one, a), parts(net, b, {.accumulate = 2});
      if (waits) parts = Stepper(net, b, {.accumulate = 2, .mean_weight = [](double own) { return own; }});
      int backwards = 0;
      const ScopedHook counts = net.weight.register_hook([&](const Tensor&) { ++backwards; });
      whole.step([&] { return cross_entropy(one(x), y); });
      parts.step([&] {
        return BatchLoss(
            is_empty ? cross_entropy(net(x.narrow(0, 0, 0)), y.narrow(0, 0, 0)) : cross_entropy(net(x), ignored), 0);
      });
      EXPECT_EQ(backwards, waits ? 1 : 0);
      ASSERT_TRUE(parts.step([&] { return BatchLoss(cross_entropy(net(x), y), 12); }));
      EXPECT_LT(max(abs(one.weight - net.weight)).item<double>(), 1e-6) << is_empty << waits;
    }
  }
}

TEST(Stepper, WeightsThatAreNoneAreRefused) {
  nn::Linear net(4, 2);
  optim::SGD optimizer(net.parameters(), {.lr = 1});
  Stepper stepper(net, optimizer, {.accumulate = 2});
  const auto step = [&](double weight) {
    return stepper.step([&] { return BatchLoss(net(ones({1, 4})).sum(), weight); });
  };
  for (const double weight : {-1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THAT(message_of<ValueError>([&] { step(weight); }),
                HasSubstr("weight: expected a finite number of at least 0, got"));
  }
  EXPECT_EQ(stepper.waiting(), 0);
  const std::vector<float> before = net.weight.to_vector<float>();
  step(0);
  const auto done = step(0);
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->updated);
  EXPECT_TRUE(std::isnan(done->loss));
  EXPECT_EQ(net.weight.to_vector<float>(), before);
}

TEST(Stepper, HasTheBitsOfTheLoopWrittenOut) {
  manual_seed(1);
  Net a, b = a.clone();
  optim::AdamW one(a.parameters(), {.lr = 0.01}), other(b.parameters(), {.lr = 0.01});
  Stepper stepper(a, one, {.clip_norm = 0.05});
  const Tensor x = randn({6, 4}), y = randint(0, 2, {6});
  for (int i = 0; i < 5; ++i) {
    manual_seed(static_cast<uint64_t>(i));
    const auto done = stepper.step([&] { return cross_entropy(a(x), y); });
    manual_seed(static_cast<uint64_t>(i));
    const Tensor loss = cross_entropy(b(x), y);
    loss.backward();
    const Tensor norm = optim::clip_grad_norm_(b.parameters(), 0.05);
    other.step();
    other.zero_grad();
    EXPECT_EQ(done->loss, loss.item<double>());
    EXPECT_EQ(*done->grad_norm, norm.item<double>());
  }
  EXPECT_EQ(weights_of(a), weights_of(b));
}

TEST(Stepper, ThatOverflowedIsPassedOver) {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 1024});
  int scheduled = 0;
  Stepper stepper(net, optimizer, {.clip_norm = 1, .scaler = &scaler, .schedule = [&] { ++scheduled; }});
  const std::vector<float> before = weights_of(net);
  const ScopedHook overflows = net.up.weight.register_hook([](const Tensor& g) { return g * INFINITY; });
  const auto loss = [&] { return cross_entropy(net(ones({3, 4})), zeros({3}, i64)); };
  EXPECT_FALSE(stepper.step(loss)->updated);
  EXPECT_EQ(weights_of(net), before);
  EXPECT_EQ(stepper.steps(), 0);
  EXPECT_EQ(scheduled, 0);
  EXPECT_EQ(scaler.get_scale(), 512);
}

TEST(Stepper, RunsForwardInMixedPrecision) {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  Stepper stepper(net, optimizer, {.autocast = AutocastOptions{.dtype = bf16}});
  DType seen = f32;
  stepper.step([&] {
    const Tensor h = net.up(ones({3, 4}));
    seen = h.dtype();
    return cross_entropy(net.down(h), zeros({3}, i64));
  });
  EXPECT_EQ(seen, bf16);
  EXPECT_FALSE(autocast_dtype());
}

TEST(Stepper, ALossThatIsNanNamesStepOpAndLine) {
  manual_seed(1);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  Stepper stepper(net, optimizer, {.rank = 2});
  const Tensor x = ones({3, 4});
  stepper.step([&] { return net(x).sum(); });
  const std::vector<float> before = weights_of(net);
  const std::string text =
      message_of<NonFiniteError>([&] { stepper.step([&] { return log(net(x) * 0.0 - 1.0).sum(); }); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("step 2, rank 2: the loss is NaN"), HasSubstr("log"), HasSubstr("stepper_test.cpp:")));
  EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_EQ(weights_of(net), before);
  EXPECT_EQ(stepper.steps(), 1);
}

// The op makes its NaN for some masks only: the second run has the mask of the first.
TEST(Stepper, TheRunThatFindsTheOpHasTheSameRandomNumbers) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    manual_seed(seed);
    Net net;
    optim::SGD optimizer(net.parameters());
    Stepper stepper(net, optimizer);
    const auto risky = [&] { return net.up(ones({1, 4})).sum() * 0.0 + rsqrt(rand({1}) - 0.5).sum(); };
    std::string text;
    for (int i = 0; i < 20 && text.empty(); ++i) {
      try {
        stepper.step(risky);
      } catch (const NonFiniteError& error) {
        text = error.what();
      }
    }
    EXPECT_THAT(text, HasSubstr("rsqrt"));
  }
}

TEST(Stepper, AGradientThatIsNanNamesTheParameterAndTheOp) {
  for (const double clip : {0.0, 1.0}) {
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    Stepper stepper(net, optimizer, {.clip_norm = clip});
    const std::vector<float> before = weights_of(net);
    // The derivative of a root at 0 is infinite.
    const auto loss = [&] { return net.up(ones({1, 4})).sum() + sqrt(net.down.weight * 0.0).sum(); };
    const std::string text = message_of<NonFiniteError>([&] { stepper.step(loss); });
    EXPECT_THAT(text, AllOf(HasSubstr("step 1, rank 0"), HasSubstr("down.weight"), HasSubstr("sqrt"),
                            HasSubstr("stepper_test.cpp:")));
    EXPECT_EQ(weights_of(net), before);
  }
}

TEST(Stepper, WithoutHaltContinues) {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  Stepper stepper(net, optimizer, {.halt_on_nan = false});
  const auto done = stepper.step([&] { return net(ones({1, 4})).sum() * double{NAN}; });
  EXPECT_TRUE(std::isnan(done->loss));
  EXPECT_FALSE(done->grad_norm);
  EXPECT_EQ(stepper.steps(), 1);
}

TEST(Stepper, WrongLossesAndErrorsOfTheModelNameTheStep) {
  Net net;
  optim::SGD optimizer(net.parameters());
  Stepper stepper(net, optimizer);
  EXPECT_THAT(message_of<ShapeError>([&] { stepper.step([&] {
                                             return net(ones({3, 4}));
                                           }); }),
              AllOf(HasSubstr("step 1, rank 0"), HasSubstr("not one number"), HasSubstr("[3, 2]")));
  EXPECT_THROW(stepper.step([&] { return sum(ones({3}, i64)); }), DTypeError);
  EXPECT_THROW(stepper.step([] { return Tensor(); }), ValueError);
  EXPECT_THAT(message_of<AutogradError>([&] { stepper.step([&] { return tensor(1.0); }); }),
              AllOf(HasSubstr("step 1"), HasSubstr("stepper_test.cpp:")));
  const std::string text = message_of<ShapeError>([&] { stepper.step([&] { return net(ones({3, 5})).sum(); }); });
  EXPECT_THAT(text, AllOf(HasSubstr("step 1, rank 0: ["), HasSubstr("[3, 5]"), HasSubstr(".hpp:")));
  EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_THROW(stepper.step([]() -> Tensor { throw std::runtime_error("own"); }), std::runtime_error);
  EXPECT_EQ(stepper.waiting(), 0);
  EXPECT_THROW(Stepper(net, optimizer, {.accumulate = 0}), ValueError);
  EXPECT_THROW(Stepper(net, optimizer, {.clip_norm = double{NAN}}), ValueError);
}

TEST(Stepper, KeepsTheOptimizersStateOnTheCpuBetweenSteps) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  const Device device("hpu");
  const auto trained = [&](bool offload, size_t& held) {
    manual_seed(1);
    nn::Linear net(256, 256);
    net.to(device);
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    Stepper stepper(net, optimizer, {.offload_optimizer = offload});
    for (int i = 0; i < 3; ++i) stepper.step([&] { return net(ones({4, 256}, device)).square().mean(); });
    held = memory_stats(device).allocated;
    for (const auto& [name, t] : optimizer.state_dict()) {
      if (t.dim() != 2) continue;
      EXPECT_EQ(t.device(), offload ? Device() : device) << name;
    }
    return weights_of(net);
  };
  size_t here = 0, there = 0;
  EXPECT_EQ(trained(true, there), trained(false, here));
  // Two moments of the weight in f32.
  EXPECT_LE(there + 2 * 256 * 256 * sizeof(float), here);
}

TEST(EarlyStopping, CountsValuesThatAreNotBetter) {
  EarlyStopping stop({.patience = 2, .min_delta = 0.1});
  EXPECT_FALSE(stop.update(double{NAN}));
  EXPECT_TRUE(stop.update(1));
  EXPECT_FALSE(stop.update(0.95));
  EXPECT_TRUE(stop.update(0.8));
  EXPECT_FALSE(stop.update(0.8));
  EXPECT_FALSE(stop.should_stop());
  EXPECT_FALSE(stop.update(double{NAN}));
  EXPECT_TRUE(stop.should_stop());
  EXPECT_EQ(stop.best(), 0.8);
  EarlyStopping other({.patience = 2});
  other.restore(stop.state());
  EXPECT_TRUE(other.should_stop());
  EarlyStopping up({.maximize = true});
  EXPECT_TRUE(up.update(1));
  EXPECT_TRUE(up.update(2));
  EXPECT_FALSE(up.update(-INFINITY));
  EXPECT_FALSE(up.should_stop());
  EXPECT_THROW(EarlyStopping({.patience = -1}), ValueError);
  EXPECT_THROW(EarlyStopping({.min_delta = double{NAN}}), ValueError);
}

}  // namespace
}  // namespace weft::train
