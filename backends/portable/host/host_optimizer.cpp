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

}  // namespace

void adam(std::span<const AdamSlot> slots, const AdamSettings& settings) {
  for (const AdamSlot& slot : slots) wide_float("adam", slot.parameter);
  for (const AdamSlot& slot : slots) {
    const int64_t n = slot.parameter.layout.numel;
    if (n == 0) continue;
    Accelerator& device = device_of(slot.parameter);
    const Compute compute = compute_of(slot.parameter.layout.dtype);
    Kernel& kernel = adam_entry.on(device, compute);
    const auto run = [&](const auto& factors) {
      launch(device, kernel, item_grid(n), slot.parameter.data, slot.gradient.data, slot.first_moment.data,
             slot.second_moment.data, factors, n);
    };
    if (compute == Compute::f64) run(factors_of<double>(settings));
    else run(factors_of<float>(settings));
  }
}

void sgd(std::span<const SgdSlot> slots, const SgdSettings& settings) {
  for (const SgdSlot& slot : slots) wide_float("sgd", slot.parameter);
  for (const SgdSlot& slot : slots) {
    const int64_t n = slot.parameter.layout.numel;
    if (n == 0) continue;
    Accelerator& device = device_of(slot.parameter);
    const Compute compute = compute_of(slot.parameter.layout.dtype);
    Kernel& kernel = sgd_entry.on(device, compute);
    const bool has_momentum = slot.momentum_buffer.data != nullptr;
    const auto run = [&](const auto& factors) {
      launch(device, kernel, item_grid(n), slot.parameter.data, slot.gradient.data, slot.momentum_buffer.data, factors,
             n);
    };
    if (compute == Compute::f64) run(factors_of<double>(settings, has_momentum));
    else run(factors_of<float>(settings, has_momentum));
  }
}

}  // namespace weft::portable::host
