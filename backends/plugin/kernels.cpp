// The kernels of a plug-in's devices: calls as C structs on the current queue, and host fallbacks.
#include "kernels.hpp"

#include <cstring>
#include <vector>

#include "marshal.hpp"
#include "queue.hpp"
#include "../cpu/kernels.hpp"
#include "../queued/stream_use.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/layout.hpp"

namespace weft::plugin {

namespace {

KernelTable own_rows[plugin_type_count];

const KernelTable& own_row(const View& view) {
  return own_rows[static_cast<int>(view.layout.device_type) - static_cast<int>(DeviceType::first_plugin)];
}

PluginQueue& queue_of(const View& view) {
  return static_cast<PluginQueue&>(find_device(Device(view.layout.device_type, view.layout.device_index))->queue());
}

bool is_on_plugin(const WeftView& view) {
  return view.layout.device_type >= static_cast<int>(DeviceType::first_plugin) && view.layout.host_scalar == 0;
}

/// One host element in another dtype, as bits.
template <class Write>
uint64_t bits_in(DType to, const Write& write) {
  uint64_t bits = 0;
  View out;
  out.data = &bits;
  out.layout.dtype = to;
  write(out);
  return bits;
}

/// Fills dense memory by the device's own command, or by a copy from the host where there is no kernel either.
bool fill_dense(const View& out, uint64_t bits, bool has_kernel) {
  if (out.layout.contiguous == 0) return false;
  const auto item = static_cast<size_t>(itemsize(out.layout.dtype));
  const size_t bytes = static_cast<size_t>(out.layout.numel) * item;
  PluginQueue& queue = queue_of(out);
  if (queue.fill(out.data, &bits, item, bytes)) return true;
  if (has_kernel) return false;
  std::vector<char> host(bytes);
  for (size_t at = 0; at < bytes; at += item) std::memcpy(host.data() + at, &bits, item);
  queue.upload(out.data, host.data(), bytes);
  return true;
}

[[noreturn]] void raise_missing(const char* kernel, const View& out) {
  const Device device(out.layout.device_type, out.layout.device_index);
  raise<NotImplementedError>({.problem = std::string("there is no kernel ") + kernel + " for " + device.name(),
                              .remedy = "move the tensors to cpu with to(\"cpu\")"});
}

void note(const View& out) {
  if (detail::streams_in_use.load(MemoryOrder::relaxed)) [[unlikely]]
    detail::note_use(out, queue_of(out));
}

void fill(const View& out, Scalar value) {
  if (out.layout.numel == 0) return;
  note(out);
  const auto kernel = own_row(out).fill;
  const uint64_t bits = bits_in(out.layout.dtype, [&](const View& one) { cpu::fill(one, value); });
  if (fill_dense(out, bits, kernel != nullptr)) return;
  if (kernel == nullptr) raise_missing("fill", out);
  kernel(out, value);
}

void copy(const View& out, const View& in) {
  if (out.layout.numel == 0) return;
  note(out);
  const auto kernel = own_row(out).copy;
  if (in.layout.host_scalar != 0) {
    const uint64_t bits = bits_in(out.layout.dtype, [&](const View& one) { cpu::copy(one, in); });
    if (fill_dense(out, bits, kernel != nullptr)) return;
  } else if (out.layout.dtype == in.layout.dtype && out.layout.contiguous != 0 && in.layout.contiguous != 0) {
    note(in);
    const auto bytes = static_cast<size_t>(out.layout.numel * itemsize(out.layout.dtype));
    return queue_of(out).copy(out.data, in.data, bytes);
  }
  if (kernel == nullptr) raise_missing("copy", out);
  kernel(out, in);
}

}  // namespace

void run_call(WeftKernelCall& call) {
  if (call.view_count == 0) return;  // an optimizer's step over no parameters
  PluginQueue* queue = nullptr;
  const bool noting = detail::streams_in_use.load(MemoryOrder::relaxed);
  for (int i = 0; i < call.view_count; ++i) {
    if (!is_on_plugin(call.views[i])) continue;
    View view;
    std::memcpy(static_cast<void*>(&view), &call.views[i], sizeof view);
    if (queue == nullptr) queue = &queue_of(view);
    if (!noting) break;
    detail::note_use(view, *queue);
  }
  if (queue == nullptr) raise<DeviceError>({.problem = "no operand is on the plug-in's device"});
  queue->run(call);
}

void fill_kernels(DeviceType type, const WeftDeviceInterface& table) {
  const auto none = [](const char*) -> int32_t { return 0; };
  KernelTable& own = own_rows[static_cast<int>(type) - static_cast<int>(DeviceType::first_plugin)];
  fill_row(own, table.has_kernel != nullptr ? table.has_kernel : none);
  KernelTable& row = kernel_tables[static_cast<int>(type)];
  row = own;
  row.copy = copy;
  row.fill = fill;
}

}  // namespace weft::plugin
