#include <vector>

#include "device_allocator.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry max_pool_entry(named::max_pool);
constinit Entry mean_pool_entry(named::mean_pool);
constinit Entry mean_pool_gradient_entry(named::mean_pool_gradient);

portable::Pooling plan_of(const View& planes, const View& windows, const PoolPlan& given) {
  portable::Pooling plan = {};
  plan.elements = planes.layout.numel;
  plan.windows = windows.layout.numel;
  for (int d = 0; d < 3; ++d) {
    const PoolPlan::Line& line = given.lines[d];
    plan.in[d] = planes.layout.sizes[1 + d];
    plan.out[d] = windows.layout.sizes[1 + d];
    plan.size[d] = line.size;
    plan.stride[d] = line.stride;
    plan.padding[d] = line.padding;
    plan.dilation[d] = line.dilation;
  }
  return plan;
}

/// The windows' shares of their divisors, dimension after dimension, on the device in the compute type.
class Shares {
 public:
  Shares(Accelerator& device, Compute compute, const PoolPlan& plan)
      : memory_(device, count(plan) * static_cast<size_t>(itemsize(dtype_of(compute)))) {
    if (compute == Compute::f64) fill<double>(device, plan);
    else fill<float>(device, plan);
  }
  const void* data() const { return memory_.data(); }

 private:
  static size_t count(const PoolPlan& plan) {
    size_t n = 0;
    for (const PoolPlan::Line& line : plan.lines) n += line.extents.size();
    return n;
  }
  template <class T>
  void fill(Accelerator& device, const PoolPlan& plan) {
    std::vector<T> all;
    all.reserve(count(plan));
    for (const PoolPlan::Line& line : plan.lines) {
      for (const double share : line.extents) all.push_back(static_cast<T>(share));
    }
    device.upload(memory_.data(), all.data(), all.size() * sizeof(T));
  }

  ScratchMemory memory_;
};

}  // namespace

void pool(Pool how, const View& out, const View& index, const View& x, const PoolPlan& given) {
  const Compute compute = wide_float("pool", x);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(x);
  portable::Pooling plan = plan_of(x, out, given);
  plan.has_index = index.data != nullptr;
  const Grid grid = item_grid(plan.windows);
  if (how == Pool::max) {
    return launch(device, max_pool_entry.on(device, compute), grid, out.data, address(index), x.data, plan);
  }
  const Shares shares(device, compute, given);
  launch(device, mean_pool_entry.on(device, compute), grid, out.data, x.data, shares.data(), plan);
}

void pool_gradient(const View& dx, const View& g, const PoolPlan& given) {
  const Compute compute = wide_float("pool_gradient", dx);
  if (dx.layout.numel == 0) return;
  Accelerator& device = device_of(dx);
  const portable::Pooling plan = plan_of(dx, g, given);
  const Shares shares(device, compute, given);
  launch(device, mean_pool_gradient_entry.on(device, compute), item_grid(plan.elements), dx.data, address(g),
         shares.data(), plan);
}

}  // namespace weft::portable::host
