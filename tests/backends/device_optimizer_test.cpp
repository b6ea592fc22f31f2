// Optimizer steps over many parameters on every kind of device: the bits of a step over each alone, and the CPU's
// numbers.
#include "device_checks.hpp"

#include <random>

#include <weft/backends/functors/optimizers.hpp>
#include <weft/ops/create.hpp>

namespace weft {
namespace {

using namespace test;

struct Parameters {
  std::vector<Tensor> parameter, gradient, state[3];
};

/// Of sizes that end within and at the bounds of groups, some empty, some f64 or bf16 between the others.
Parameters parameters(Device device) {
  std::mt19937 random(9);
  Parameters all;
  const std::pair<int64_t, DType> kinds[] = {{3, f32},   {256, f32}, {0, f32},   {1000, f32}, {1, f32},
                                             {77, f64},  {77, bf16}, {5, f64},   {0, f64},    {512, f32},
                                             {600, f16}, {9, f32},   {255, f32}, {257, f32}};
  for (const auto& [n, t] : kinds) {
    const auto add = [&, n = n](std::vector<Tensor>& list, DType dtype, double least) {
      std::vector<double> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(least + static_cast<double>(random()) / 0x1p32);
      list.push_back(tensor(values).to(f64).to(dtype).to(device));
    };
    add(all.parameter, t, 0), add(all.gradient, t, -0.5);
    for (auto& list : all.state) add(list, t == f64 ? f64 : f32, &list == &all.state[1] ? 0 : 2);
  }
  return all;
}

std::vector<OptimizerSlot> slots_of(const Parameters& all, int states) {
  std::vector<OptimizerSlot> slots;
  for (size_t i = 0; i < all.parameter.size(); ++i) {
    slots.push_back({all.parameter[i].raw_view(), all.gradient[i].raw_view(), {}});
    for (int k = 0; k < states; ++k) slots.back().state[k] = all.state[k][i].raw_view();
  }
  return slots;
}

void expect_same(const Parameters& actual, const Parameters& expected, double tolerance) {
  for (size_t i = 0; i < actual.parameter.size(); ++i) {
    SCOPED_TRACE("parameter " + std::to_string(i));
    const bool is_small = actual.parameter[i].dtype() == bf16 || actual.parameter[i].dtype() == f16;
    const double rounded = tolerance == 0 || !is_small ? tolerance : 0x1p-7;
    expect_near(actual.parameter[i], expected.parameter[i], rounded, rounded);
    for (int k = 0; k < 3; ++k) expect_near(actual.state[k][i], expected.state[k][i], tolerance, tolerance);
  }
}

/// Steps over all at once on the device against steps over each alone there, and against the CPU's.
void expect_one_step(Device on, OptimizerStep step, int states, const OptimizerSettings& settings) {
  const Parameters together = parameters(on), alone = parameters(on), here = parameters(Device());
  kernels(on.type).optimizer_step(step, slots_of(together, states), settings);
  for (const OptimizerSlot& slot : slots_of(alone, states)) {
    kernels(on.type).optimizer_step(step, std::vector{slot}, settings);
  }
  kernels(DeviceType::cpu).optimizer_step(step, slots_of(here, states), settings);
  expect_same(together, alone, 0);
  expect_same(together, here, 2e-6);
}

DEVICE_TEST(EveryStepTakesManyParametersAtOnce) {
  for (const uint8_t flag : {0, 1}) {
    OptimizerSettings s = {};
    s.sign = flag != 0 ? -1 : 1;
    s.l2 = flag != 0 ? 0.1 : 0, s.decays = flag, s.nesterov = flag, s.first = flag, s.rectified = flag;
    s.keep = 0.99, s.rate = 0.03, s.gradient_rate = 0.01;
    s.decay1 = 0.9, s.fresh1 = 0.1, s.decay2 = 0.99, s.fresh2 = 0.01;
    s.root = 3, s.epsilon = 1e-3;
    s.shrink = 0.5, s.grow = 1.25, s.least = 0.01, s.most = 2;
#define WEFT_ROW(name, F, ...)                                        \
  {                                                                   \
    SCOPED_TRACE(#name);                                              \
    expect_one_step(on, OptimizerStep::name, functors::F::states, s); \
  }
    WEFT_OPTIMIZER_STEPS(WEFT_ROW)
#undef WEFT_ROW
  }
}

DEVICE_TEST(StepsOverNoParametersDoNothing) {
  kernels(on.type).optimizer_step(OptimizerStep::adam, {}, OptimizerSettings{});
  synchronize(on);
}

}  // namespace
}  // namespace weft
