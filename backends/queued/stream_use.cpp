#include "stream_use.hpp"

#include <span>
#include <type_traits>

#include "../backend.hpp"
#include "../dispatch.hpp"

namespace weft::detail {

void note_use(const View& view, Queue& queue) {
  if (view.data == nullptr || view.layout.host_scalar != 0) return;
  find_backend(view.layout.device_type)->note_use(view.layout.device_index, view.data, queue);
}

void note_use(const View& view) {
  const Device device(view.layout.device_type, view.layout.device_index);
  if (device.is_cpu() || device.type == DeviceType::meta) return;
  Queue* const chosen = chosen_queue(device);
  note_use(view, chosen != nullptr ? *chosen : find_backend(device.type)->default_queue(device.index));
}

namespace {

void note(const View& view) { note_use(view); }
void note(const IndexPlan& plan) {
  for (int i = 0; i < plan.count; ++i) note(plan.indices[i]);
}
void note(const AttentionPlan& plan) { note(plan.slopes), note(plan.sequences), note(plan.blocks); }
void note(std::span<const OptimizerSlot> slots) {
  for (const OptimizerSlot& s : slots) {
    note(s.parameter), note(s.gradient);
    for (const View& v : s.state) note(v);
  }
}
template <class T>
void note(const T&) {}

KernelTable own_tables[device_type_count];

template <auto slot, DeviceType type>
struct Noted;
template <class R, class... A, R (*KernelTable::*slot)(A...), DeviceType type>
struct Noted<slot, type> {
  static R call(A... arguments) {
    if (streams_in_use.load(MemoryOrder::relaxed)) [[unlikely]]
      (note(arguments), ...);
    return (own_tables[static_cast<int>(type)].*slot)(arguments...);
  }
};

template <DeviceType type>
void put_in_front() {
  KernelTable &row = kernel_tables[static_cast<int>(type)], &own = own_tables[static_cast<int>(type)];
  own = row;
#define WEFT_KERNEL_ROW(result, name, ...) \
  if (own.name != nullptr) row.name = &Noted<&KernelTable::name, type>::call;
#include "../kernel_rows.hpp"
}

}  // namespace

void note_uses_of(DeviceType type) {
  type == DeviceType::cuda ? put_in_front<DeviceType::cuda>() : put_in_front<DeviceType::hpu>();
}

}  // namespace weft::detail
