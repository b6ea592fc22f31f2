// Captured steps on devices: replays by the device have the bits of work queued by the host.
#include "device_checks.hpp"

#include <weft/backends/watch/observe.hpp>
#include <weft/backends/stream.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/tensor/index_checks.hpp>
#include <weft/weft.hpp>

#include <optional>
#include <thread>

namespace weft {
namespace {

using namespace test;
using Doubles = std::vector<double>;

Tensor numbers(const Dims& shape, uint64_t seed, Device on) {
  Generator generator(seed);
  return randn(shape, {}, &generator).to(on);
}
Tensor indices(int64_t n, int64_t below, int64_t step, Device on) { return (arange(n) * step).remainder(below).to(on); }

/// A step with an embedding, a sort, scratch memory, draws and an optimizer.
template <class Wrap>
Doubles losses(Device on, const Wrap& wrap, int steps, CaptureStats* stats = nullptr) {
  manual_seed(2);
  const Tensor table = numbers({10, 8}, 1, on).requires_grad_(), w = numbers({8, 4}, 2, on).requires_grad_();
  optim::AdamW optimizer(std::vector<Tensor>{table, w}, {.lr = 0.05});
  auto step = wrap([&](const Tensor& ids, const Tensor& classes) {
    optimizer.zero_grad();
    const Tensor hidden = dropout(gelu(embedding(table, ids)), 0.25);
    const Tensor scores = matmul(layer_norm(hidden, {8}), w);
    const Tensor loss = cross_entropy(scores, classes) + sort(scores, 0).values.square().mean() * 0.1;
    loss.backward();
    optim::clip_grad_norm_(std::vector<Tensor>{table, w}, 1.0);
    optimizer.step();
    return loss;
  });
  Doubles all;
  for (int i = 0; i < steps; ++i) {
    all.push_back(step(indices(6, 10, i + 1, on), indices(6, 4, i + 2, on)).template item<double>());
  }
  if constexpr (requires { step.stats(); }) {
    if (stats != nullptr) *stats = step.stats();
  }
  return all;
}
const auto eagerly = [](auto step) { return step; };
const auto captured = [](auto step) { return capture(step); };

DEVICE_TEST(ACapturedStepHasTheEagerStepsBits) {
  CaptureStats stats;
  EXPECT_EQ(losses(on, captured, 20, &stats), losses(on, eagerly, 20));
  EXPECT_EQ(stats.replayed, 17);
  const bool waits = !environment(on.type == DeviceType::cuda ? "WEFT_CUDA_SYNC" : "WEFT_HPU_SYNC").empty();
  if (on.type < DeviceType::first_plugin && !waits) {
    EXPECT_GT(stats.batched, stats.kernels / 2);
  }
}

DEVICE_TEST(AnIndexOutOfRangeInAReplayNamesItsLine) {
  const Tensor table = numbers({5, 3}, 1, on), other = numbers({5, 3}, 2, on);
  const Tensor right = indices(2, 5, 1, on), wrong = tensor({int64_t{1}, int64_t{7}}).to(on);
  const int line = __LINE__ + 3;
  auto step = capture([&](const Tensor& first, const Tensor& second) {
    const Tensor x = index_select(table, 0, first);
    return x + index_select(other, 0, second);
  });
  for (int i = 0; i < 2000; ++i) step(right, right);  // more calls than places are remembered of
  step(right, wrong);
  try {
    synchronize(on);
    ADD_FAILURE() << "no error";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("device_capture_test.cpp:" + std::to_string(line)));
    EXPECT_THAT(e.what(), testing::HasSubstr("7"));
  }
  EXPECT_EQ(step(right, right).to(Device()).to_vector<float>(),
            (index_select(table, 0, right) + index_select(other, 0, right)).to(Device()).to_vector<float>());
  const IndexCheckGuard checked;
  const bool by_call = on.type < DeviceType::first_plugin;  // a plug-in's own queue tells at the next wait
  EXPECT_THROW((step(wrong, right), by_call ? void() : synchronize(on)), IndexError);
}

DEVICE_TEST(ObserversAndOtherStreamsSeeEachKernelOfAReplay) {
  struct Count : KernelObserver {
    int kernels = 0;
    void after(const KernelCall& call) override { kernels += std::string(call.op) == "exp" ? 1 : 0; }
  } count;
  auto step = capture([](const Tensor& x) { return exp(x).mul(2.0).sum(); });
  const Tensor x = numbers({100}, 3, on);
  const double expected = step(x).item<double>();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(x).item<double>(), expected);
  {
    const ObserverGuard guard(count);
    EXPECT_EQ(step(x).item<double>(), expected);
  }
  EXPECT_EQ(count.kernels, 1);
  EXPECT_EQ(step(x).item<double>(), expected);
}

DEVICE_TEST(StepsThatTakeTurnsKeepTheirOrder) {
  const Tensor state = zeros({64}, on);
  auto add = capture([&](const Tensor& x) { state.add_(x).mul_(0.5); });
  auto twist = capture([&](const Tensor& x) { state.mul_(x).add_(1.0); });
  const Tensor expected = zeros({64});
  for (int i = 0; i < 60; ++i) {
    const Tensor x = numbers({64}, static_cast<uint64_t>(i), Device());
    if (i % 3 != 2) add(x.to(on)), expected.add_(x).mul_(0.5);
    else twist(x.to(on)), expected.mul_(x).add_(1.0);
  }
  EXPECT_EQ(state.to(Device()).to_vector<float>(), expected.to_vector<float>());
}

DEVICE_TEST(AStepMayBeDroppedWhileTheDeviceRepeatsIt) {
  for (int round = 0; round < 20; ++round) {
    const Tensor x = numbers({3000}, static_cast<uint64_t>(round), on);
    Tensor last;
    {
      auto step = capture([](const Tensor& t) { return cumsum(sort(t, 0).values, 0).mul(2.0); });
      for (int i = 0; i < 6; ++i) last = step(x);
      last = last.clone();
    }
    EXPECT_EQ(last.to(Device()).to_vector<float>(),
              cumsum(sort(x, 0).values, 0).mul(2.0).to(Device()).to_vector<float>());
  }
}

/// Three threads repeat steps on the device's default stream, a fourth works on its own.
DEVICE_TEST(StepsOfManyThreadsAreRepeatedAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4), expected(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      std::optional<StreamGuard> own;
      if (t == 3) own.emplace(Stream(on));
      const Tensor state = zeros({500}, on), there = zeros({500});
      const auto change = [](const Tensor& total, const Tensor& x) {
        total.add_(sort(x.mul(2.0), 0).values).mul_(0.5);
      };
      auto step = capture([&](const Tensor& x) { change(state, x); });
      for (uint64_t i = 0; i < 30; ++i) {
        const Tensor x = numbers({500}, i + 100 * t, Device());
        if (own) change(state, x.to(on));
        else step(x.to(on));
        change(there, x);
        if (i % 10 == 9) step.forget();
      }
      results[t] = state.to(Device()).to_vector<float>();
      expected[t] = there.to_vector<float>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, expected);
}

}  // namespace
}  // namespace weft
