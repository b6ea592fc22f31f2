#include <algorithm>
#include <cmath>

#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry adam_entry(named::adam);
constinit Entry sgd_entry(named::sgd);

template <class T>
portable::AdamFactors<T> factors_of(const AdamSettings& s) {
  return {static_cast<T>(1 - s.beta1),
          static_cast<T>(s.beta2),
          static_cast<T>(1 - s.beta2),
          static_cast<T>(1 / std::sqrt(s.bias_correction2)),
          static_cast<T>(s.epsilon),
          static_cast<T>(s.learning_rate / s.bias_correction1),
          static_cast<T>(s.decoupled ? 1 - s.learning_rate * s.weight_decay : 1),
          static_cast<T>(s.decoupled ? 0 : s.weight_decay)};
}
template <class T>
portable::SgdFactors<T> factors_of(const SgdSettings& s, bool has_momentum) {
  return {static_cast<T>(s.learning_rate),
          static_cast<T>(s.momentum),
          static_cast<T>(1 - s.dampening),
          static_cast<T>(s.weight_decay),
          s.nesterov,
          s.first_step,
          has_momentum};
}

bool can_share_launch(const AdamSlot&, const AdamSlot&) { return true; }
bool can_share_launch(const SgdSlot& a, const SgdSlot& b) {
  return (a.momentum_buffer.data == nullptr) == (b.momentum_buffer.data == nullptr);
}

/// Calls launch_with(the slots, their places, the elements) for as many slots of one device and dtype at a time as a
/// kernel takes; the last ones may have no data.
template <class Slot, class F>
void each_launch(std::span<const Slot> slots, F&& launch_with) {
  Slot taken[portable::slots_at_once] = {};
  portable::Slots places = {};
  int count = 0;
  const auto flush = [&] {
    if (count == 0) return;
    for (int k = count; k < portable::slots_at_once; ++k) places.begins[k + 1] = places.begins[count];
    launch_with(taken, places, places.begins[count]);
    count = 0;
    std::fill_n(taken, portable::slots_at_once, Slot{});
  };
  const auto alike = [&](const Slot& slot) {
    const Layout &a = taken[0].parameter.layout, &b = slot.parameter.layout;
    return a.dtype == b.dtype && a.device_index == b.device_index && a.device_type == b.device_type &&
           can_share_launch(taken[0], slot);
  };
  for (const Slot& slot : slots) {
    const int64_t n = slot.parameter.layout.numel;
    if (n == 0) continue;
    if (count == portable::slots_at_once || (count != 0 && !alike(slot))) flush();
    taken[count] = slot;
    places.begins[count + 1] = places.begins[count] + n;
    ++count;
  }
  flush();
}

}  // namespace

void adam(std::span<const AdamSlot> slots, const AdamSettings& settings) {
  for (const AdamSlot& slot : slots) wide_float("adam", slot.parameter);
  each_launch(slots, [&](const AdamSlot(&s)[portable::slots_at_once], const portable::Slots& places, int64_t n) {
    Accelerator& device = device_of(s[0].parameter);
    const Compute compute = compute_of(s[0].parameter.layout.dtype);
    Kernel& kernel = adam_entry.on(device, compute);
    const auto run = [&](const auto& factors) {
      launch(device, kernel, item_grid(n), s[0].parameter.data, s[0].gradient.data, s[0].first_moment.data,
             s[0].second_moment.data, s[1].parameter.data, s[1].gradient.data, s[1].first_moment.data,
             s[1].second_moment.data, s[2].parameter.data, s[2].gradient.data, s[2].first_moment.data,
             s[2].second_moment.data, s[3].parameter.data, s[3].gradient.data, s[3].first_moment.data,
             s[3].second_moment.data, factors, places);
    };
    if (compute == Compute::f64) run(factors_of<double>(settings));
    else run(factors_of<float>(settings));
  });
}

void sgd(std::span<const SgdSlot> slots, const SgdSettings& settings) {
  for (const SgdSlot& slot : slots) wide_float("sgd", slot.parameter);
  each_launch(slots, [&](const SgdSlot(&s)[portable::slots_at_once], const portable::Slots& places, int64_t n) {
    Accelerator& device = device_of(s[0].parameter);
    const Compute compute = compute_of(s[0].parameter.layout.dtype);
    Kernel& kernel = sgd_entry.on(device, compute);
    const bool has_momentum = s[0].momentum_buffer.data != nullptr;
    const auto run = [&](const auto& factors) {
      launch(device, kernel, item_grid(n), s[0].parameter.data, s[0].gradient.data, s[0].momentum_buffer.data,
             s[1].parameter.data, s[1].gradient.data, s[1].momentum_buffer.data, s[2].parameter.data,
             s[2].gradient.data, s[2].momentum_buffer.data, s[3].parameter.data, s[3].gradient.data,
             s[3].momentum_buffer.data, factors, places);
    };
    if (compute == Compute::f64) run(factors_of<double>(settings, has_momentum));
    else run(factors_of<float>(settings, has_momentum));
  });
}

}  // namespace weft::portable::host
