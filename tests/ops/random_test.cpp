#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/philox.hpp>

#include "values.hpp"

namespace weft::testing {
namespace {

TEST(Generator, SeedsRepeat) {
  manual_seed(7);
  const Doubles a = values(rand({5})), b = values(rand({5}));
  EXPECT_NE(a, b);
  manual_seed(7);
  EXPECT_EQ(values(rand({5})), a);
  EXPECT_EQ(values(rand({5})), b);
  EXPECT_EQ(default_generator().seed(), 7u);
}

TEST(Generator, CountersFollowTheElementCountAlone) {
  Generator g(1);
  (void)rand({5}, f32, &g);
  EXPECT_EQ(g.state().offset, 2u);
  (void)rand({5}, f64, &g);
  EXPECT_EQ(g.state().offset, 5u);
  (void)randn({0}, f32, &g);
  EXPECT_EQ(g.state().offset, 5u);
  (void)dropout(ones({3}), 0.5, true, &g);
  EXPECT_EQ(g.state().offset, 6u);
}

TEST(Generator, ReturnsThePhiloxWords) {
  const PhiloxWords known = philox4x32_10(0, 0, 0);
  EXPECT_EQ(known.word[0], 0x6627E8D5u);
  EXPECT_EQ(known.word[3], 0x9B00DBD8u);
  Generator g(0);
  const Doubles x = values(rand({2}, f32, &g));
  EXPECT_EQ(x[0], (0x6627E8D5u >> 8) * 0x1p-24);
  EXPECT_EQ(x[1], (0xE169C58Du >> 8) * 0x1p-24);
}

TEST(Generator, StateBytesRoundTrip) {
  Generator g(12345);
  (void)rand({3}, f32, &g);
  const auto bytes = g.state_bytes();
  EXPECT_EQ(bytes.size(), 32u);
  (void)rand({100}, f32, &g);
  const Doubles a = values(randn({10}, f64, &g));
  g.set_state_bytes(bytes);
  (void)rand({100}, f32, &g);
  EXPECT_EQ(values(randn({10}, f64, &g)), a);
}

TEST(Generator, WrongStatesAreRefusedAndChangeNothing) {
  Generator g(1);
  const GeneratorState before = g.state();
  auto bytes = g.state_bytes();
  EXPECT_THROW(g.set_state_bytes(std::span(bytes).first(31)), FormatError);
  bytes[0] = 9;
  EXPECT_THROW(g.set_state_bytes(bytes), FormatError);
  bytes[0] = 1;
  bytes[4] = 2;
  EXPECT_THROW(g.set_state_bytes(bytes), FormatError);
  EXPECT_EQ(g.state(), before);
  EXPECT_THROW(set_rng_state(zeros({32})), FormatError);
  EXPECT_THROW(set_rng_state(zeros({4, 8}, u8)), FormatError);
  EXPECT_THROW(set_rng_state(zeros({3}, u8)), FormatError);
}

TEST(Generator, StateTensorsAndForkGuard) {
  manual_seed(3);
  const Tensor state = get_rng_state();
  EXPECT_EQ(state.dtype(), u8);
  const Doubles a = values(rand({4}));
  set_rng_state(state);
  {
    const RngForkGuard guard;
    (void)rand({50});
  }
  try {
    const RngForkGuard guard;
    (void)rand({50});
    throw ValueError("leave");
  } catch (const ValueError&) {
  }
  EXPECT_EQ(values(rand({4})), a);
}

TEST(Generator, ThreadsNeverShareACounter) {
  Generator g(5);
  std::vector<std::vector<uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&g, &mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(g.reserve(3).offset);
    });
  }
  for (auto& t : threads) t.join();
  std::set<uint64_t> all;
  for (const auto& mine : taken) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4000u);
  EXPECT_EQ(g.state().offset, 12000u);
}

TEST(Generator, EachDeviceHasItsOwn) {
  manual_seed(11);
  EXPECT_EQ(default_generator(Device(DeviceType::cuda, 3)).seed(), 11u);
  default_generator(Device(DeviceType::cuda, 3)).reserve(5);
  EXPECT_EQ(default_generator(Device(DeviceType::cuda, 2)).state().offset, 0u);
  EXPECT_EQ(default_generator().state().offset, 0u);
  manual_seed(12);
  EXPECT_EQ(default_generator(Device(DeviceType::cuda, 3)).state(), (GeneratorState{12, 0, 0}));
}

TEST(Random, DistributionsHaveTheirMoments) {
  Generator g(2);
  for (const DType t : {f32, f64, f16, bf16}) {
    const Tensor u = rand({20000}, t, &g).to(f64);
    EXPECT_NEAR(u.mean().item<double>(), 0.5, 0.01);
    EXPECT_GE(min(u).item<double>(), 0);
    EXPECT_LT(max(u).item<double>(), 1);
    const Tensor n = randn({20000}, t, &g).to(f64);
    EXPECT_NEAR(n.mean().item<double>(), 0, 0.03);
    EXPECT_NEAR(var(n).item<double>(), 1, 0.05);
  }
  const Tensor x = zeros({20000});
  uniform_(x, -3, 1, &g);
  EXPECT_NEAR(x.mean().item<double>(), -1, 0.05);
  normal_(x, 5, 0.1, &g);
  EXPECT_NEAR(x.mean().item<double>(), 5, 0.01);
  bernoulli_(x, 0.2, &g);
  EXPECT_NEAR(x.mean().item<double>(), 0.2, 0.02);
  EXPECT_NEAR(bernoulli(full({20000}, 0.7), &g).mean().item<double>(), 0.7, 0.02);
}

TEST(Random, IntegersStayInRange) {
  Generator g(2);
  const Tensor x = randint(-3, 4, {5000}, i64, &g);
  EXPECT_EQ(x.dtype(), i64);
  EXPECT_EQ(min(x).item<int64_t>(), -3);
  EXPECT_EQ(max(x).item<int64_t>(), 3);
  EXPECT_EQ(randint(0, 200, {3}, u8, &g).dtype(), u8);
  const int64_t large = (int64_t{1} << 60) + 1, largest = std::numeric_limits<int64_t>::max();  // no double holds them
  EXPECT_EQ(randint(large, large + 1, {1}, i64, &g).item<int64_t>(), large);
  EXPECT_EQ(min(randint(largest - 2, largest, {99}, i64, &g)).item<int64_t>(), largest - 2);
  EXPECT_EQ(max(randint(largest - 2, largest, {99}, i64, &g)).item<int64_t>(), largest - 1);
  EXPECT_EQ(randint(5, 6, {3}, f32, &g).to_vector<int>(), (std::vector<int>{5, 5, 5}));
  EXPECT_THROW(randint(2, 2, {3}), ValueError);
  EXPECT_THROW(randint(0, 300, {3}, u8), ValueError);
  EXPECT_THROW(randint(-1, 3, {3}, u8), ValueError);
}

TEST(Random, PermutationsHoldEveryNumberOnce) {
  Generator g(2);
  for (const int64_t n : {0, 1, 2, 7, 1000}) {
    auto p = randperm(n, i64, &g).to_vector<int64_t>();
    const auto drawn = p;
    std::sort(p.begin(), p.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(p[static_cast<size_t>(i)], i);
    if (n > 100) {
      EXPECT_NE(drawn, p);
    }
  }
  EXPECT_EQ(randperm(4, i32, &g).dtype(), i32);
  EXPECT_THROW(randperm(-1), ValueError);
}

TEST(Random, ShapesOptionsAndErrors) {
  EXPECT_EQ(rand({}).dim(), 0);
  EXPECT_EQ(randn({0, 3}).shape(), Dims({0, 3}));
  EXPECT_TRUE(rand({2}, {f64, {}, true}).requires_grad());
  EXPECT_EQ(rand_like(ones({2, 3}, f16)).dtype(), f16);
  EXPECT_THROW(rand({2}, i64), DTypeError);
  EXPECT_THROW(randn_like(ones({2}, i32)), DTypeError);
  EXPECT_THROW(bernoulli(ones({2}, i32)), DTypeError);
  EXPECT_THROW(uniform_(ones({2}), 1, 0), ValueError);
  EXPECT_THROW(uniform_(ones({2}), 0, HUGE_VAL), ValueError);
  EXPECT_THROW(uniform_(ones({2}), -1e308, 1e308), ValueError);
  EXPECT_THROW(normal_(ones({2}), 0, -1), ValueError);
  EXPECT_THROW(bernoulli_(ones({2}), 1.5), ValueError);
  EXPECT_THROW(uniform_(ones({1}).expand(3)), ValueError);
}

TEST(Random, InPlaceWritesAreSeenByAutograd) {
  const Tensor x = ones({3}).requires_grad_();
  EXPECT_THROW(uniform_(x), AutogradError);
  {
    NoGradGuard unrecorded;
    uniform_(x);
  }
  const Tensor y = x * 2.0;
  uniform_(y.select(0, 1));
  y.sum().backward();
  expect_values(x.grad(), {2, 0, 2});
  const Tensor z = exp(x), w = z * 2.0;
  normal_(z);
  EXPECT_THROW(w.sum().backward(), AutogradError) << "exp saved the output that was overwritten";
}

TEST(Random, StridedTargetsGetTheSameNumbers) {
  Generator a(4), b(4);
  const Tensor dense = zeros({3, 5}), strided = zeros({5, 3}).t();
  uniform_(dense, 0, 1, &a);
  uniform_(strided, 0, 1, &b);
  EXPECT_EQ(values(dense), values(strided));
}

TEST(Dropout, ScalesKeptElements) {
  Generator g(1);
  const Tensor y = dropout(ones({10000}), 0.25, true, &g);
  int64_t kept = 0;
  for (const double v : values(y)) {
    EXPECT_TRUE(v == 0 || std::fabs(v - 4.0 / 3) < 1e-6);
    kept += v != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 7500, 200);
}

TEST(Dropout, LimitsAndEvaluation) {
  const Tensor x = doubles({1, infinity, 3});
  EXPECT_EQ(dropout(x, 0.5, false).impl(), x.impl());
  EXPECT_EQ(dropout(x, 0).impl(), x.impl());
  expect_values(dropout(x, 1), {0, 0, 0});
  EXPECT_EQ(dropout(zeros({0})).numel(), 0);
  EXPECT_EQ(dropout(ones({}, f16)).dtype(), f16);
  EXPECT_THROW(dropout(x, -0.1), ValueError);
  EXPECT_THROW(dropout(x, 1.1), ValueError);
  EXPECT_THROW(dropout(tensor({1, 2})), DTypeError);
}

TEST(Dropout, BackwardUsesTheForwardMaskAfterOtherDraws) {
  manual_seed(5);
  const Tensor x = ones({64}).requires_grad_();
  const Tensor y = dropout(x, 0.5);
  (void)rand({1000});
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), values(y));
}

TEST(Dropout, MasksDoNotDependOnTheType) {
  Generator a(9), b(9);
  EXPECT_EQ(values(dropout(ones({100}, f64), 0.5, true, &a)), values(dropout(ones({100}, bf16), 0.5, true, &b)));
}

TEST(Dropout, Gradient) {
  expect_gradients(
      [](Inputs in) {
        Generator g(3);
        return dropout(in[0] * in[0], 0.4, true, &g);
      },
      {leaf({2, 5})});
}

}  // namespace
}  // namespace weft::testing
