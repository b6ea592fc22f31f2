// Optimizer steps over many parameters on every kind of device: the bits of a step over each alone, and the CPU's
// numbers.
#include "device_checks.hpp"

#include <random>

#include <weft/ops/create.hpp>

namespace weft {
namespace {

using namespace test;

struct Parameters {
  std::vector<Tensor> parameter, gradient, first, second;
};

/// Of sizes that end within and at the bounds of groups, some empty, some f64 between the others.
Parameters parameters(Device device) {
  std::mt19937 random(9);
  Parameters all;
  const std::pair<int64_t, DType> kinds[] = {{3, f32}, {256, f32}, {0, f32},   {1000, f32}, {1, f32},   {77, f64},
                                             {5, f64}, {0, f64},   {512, f32}, {9, f32},    {255, f32}, {257, f32}};
  for (const auto& [n, t] : kinds) {
    for (auto* list : {&all.parameter, &all.gradient, &all.first, &all.second}) {
      std::vector<double> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(random()) / 0x1p32);
      list->push_back(tensor(values).to(f64).to(t).to(device));
    }
  }
  return all;
}

std::vector<AdamSlot> adam_slots(const Parameters& all) {
  std::vector<AdamSlot> slots;
  for (size_t i = 0; i < all.parameter.size(); ++i) {
    slots.push_back(
        {all.parameter[i].raw_view(), all.gradient[i].raw_view(), all.first[i].raw_view(), all.second[i].raw_view()});
  }
  return slots;
}
/// Those with an odd number have no momentum, unless all have.
std::vector<SgdSlot> sgd_slots(const Parameters& all, bool mixed) {
  std::vector<SgdSlot> slots;
  for (size_t i = 0; i < all.parameter.size(); ++i) {
    slots.push_back({all.parameter[i].raw_view(), all.gradient[i].raw_view(),
                     mixed && i % 3 == 1 ? View{} : all.first[i].raw_view()});
  }
  return slots;
}

void expect_same(const Parameters& actual, const Parameters& expected, double tolerance) {
  for (auto list : {&Parameters::parameter, &Parameters::first, &Parameters::second}) {
    for (size_t i = 0; i < actual.parameter.size(); ++i) {
      SCOPED_TRACE("parameter " + std::to_string(i));
      expect_near((actual.*list)[i], (expected.*list)[i], tolerance, tolerance);
    }
  }
}

/// Steps over all at once on the device against steps over each alone there, and against the CPU's.
template <class Slots, class Step>
void expect_one_step(Device on, Slots&& slots_of, Step&& step) {
  const Parameters together = parameters(on), alone = parameters(on), here = parameters(Device());
  step(kernels(on.type), slots_of(together));
  for (const auto& slot : slots_of(alone)) step(kernels(on.type), std::vector{slot});
  step(kernels(DeviceType::cpu), slots_of(here));
  expect_same(together, alone, 0);
  expect_same(together, here, 1e-6);
}

DEVICE_TEST(AdamStepsOverManyParametersAtOnce) {
  for (const bool decoupled : {false, true}) {
    const AdamSettings settings{0.01, 0.9, 0.99, 1e-8, 0.1, 0.1, 0.01, decoupled};
    expect_one_step(on, adam_slots,
                    [&](const KernelTable& table, const std::vector<AdamSlot>& slots) { table.adam(slots, settings); });
  }
}

DEVICE_TEST(SgdStepsOverManyParametersAtOnce) {
  for (const bool mixed : {false, true}) {
    for (const bool first_step : {false, true}) {
      const SgdSettings settings{0.01, 0.9, 0.1, 0.1, !first_step, first_step};
      expect_one_step(
          on, [&](const Parameters& all) { return sgd_slots(all, mixed); },
          [&](const KernelTable& table, const std::vector<SgdSlot>& slots) { table.sgd(slots, settings); });
    }
  }
}

DEVICE_TEST(StepsOverNoParametersDoNothing) {
  kernels(on.type).adam({}, AdamSettings{});
  kernels(on.type).sgd({}, SgdSettings{});
  synchronize(on);
}

}  // namespace
}  // namespace weft
