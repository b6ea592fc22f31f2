#include <algorithm>

#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

#define WEFT_ENTRY(name, ...) Entry(KernelName{"step_" #name, Module::pointwise_f32}),
constinit Entry step_entries[] = {WEFT_OPTIMIZER_STEPS(WEFT_ENTRY)};
#undef WEFT_ENTRY

/// Calls launch_with(the slots, their places, the elements) for as many slots of one device and dtype at a time as a
/// kernel takes; the last ones may have no data.
template <class F>
void each_launch(std::span<const OptimizerSlot> slots, F&& launch_with) {
  OptimizerSlot taken[portable::slots_at_once] = {};
  portable::Slots places = {};
  int count = 0;
  const auto flush = [&] {
    if (count == 0) return;
    for (int k = count; k < portable::slots_at_once; ++k) places.begins[k + 1] = places.begins[count];
    places.dtype = taken[0].parameter.layout.dtype;
    launch_with(taken, places, places.begins[count]);
    count = 0;
    std::fill_n(taken, portable::slots_at_once, OptimizerSlot{});
  };
  const auto alike = [&](const OptimizerSlot& slot) {
    const Layout &a = taken[0].parameter.layout, &b = slot.parameter.layout;
    return a.dtype == b.dtype && a.device_index == b.device_index && a.device_type == b.device_type;
  };
  for (const OptimizerSlot& slot : slots) {
    const int64_t n = slot.parameter.layout.numel;
    if (n == 0) continue;
    if (count == portable::slots_at_once || (count != 0 && !alike(slot))) flush();
    taken[count] = slot;
    places.begins[count + 1] = places.begins[count] + n;
    ++count;
  }
  flush();
}

/// f64 for f64, f32 for others that are floating.
Compute compute_of_step(const View& parameter) {
  const DType t = parameter.layout.dtype;
  if (t != DType::f16 && t != DType::bf16) return wide_float("optimizer_step", parameter);
  return Compute::f32;
}

}  // namespace

void optimizer_step(OptimizerStep step, std::span<const OptimizerSlot> slots, const OptimizerSettings& settings) {
  for (const OptimizerSlot& slot : slots) compute_of_step(slot.parameter);
  each_launch(slots, [&](const OptimizerSlot(&s)[portable::slots_at_once], const portable::Slots& places, int64_t n) {
    Accelerator& device = device_of(s[0].parameter);
    const Compute compute = compute_of_step(s[0].parameter);
    Kernel& kernel = step_entries[static_cast<int>(step)].on(device, compute);
    const auto run = [&](const auto& factors) {
      launch(device, kernel, item_grid(n),  //
             s[0].parameter.data, s[0].gradient.data, s[0].state[0].data, s[0].state[1].data, s[0].state[2].data,
             s[1].parameter.data, s[1].gradient.data, s[1].state[0].data, s[1].state[1].data, s[1].state[2].data,
             s[2].parameter.data, s[2].gradient.data, s[2].state[0].data, s[2].state[1].data, s[2].state[2].data,
             s[3].parameter.data, s[3].gradient.data, s[3].state[0].data, s[3].state[1].data, s[3].state[2].data,
             factors, places);
    };
    if (compute == Compute::f64) run(settings);
    else run(factors_in<float>(settings, [](double x) { return static_cast<float>(x); }));
  });
}

}  // namespace weft::portable::host
