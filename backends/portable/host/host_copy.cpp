#include <vector>

#include <fmt/format.h>

#include "../../../tensor/error.hpp"
#include "../../cpu/kernels.hpp"
#include "../../functors/lists.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry move_entry(named::move);
constinit Entry fill_entry(named::fill);
constinit Entry where_entry(named::where);
constinit Entry convert_real_entry(named::convert_real);
constinit Entry convert_whole_entry(named::convert_whole);
constinit Entry arange_entry(named::arange);

/// One host element in another dtype, as bits.
uint64_t converted_bits(const void* element, DType from, DType to) {
  uint64_t bits = 0;
  View in, out;
  in.data = const_cast<void*>(element);
  in.layout.dtype = from;
  out.data = &bits;
  out.layout.dtype = to;
  cpu::copy(out, in);
  return bits;
}

uint64_t bits_of(Scalar value, DType to) {
  uint64_t bits = 0;
  View out;
  out.data = &bits;
  out.layout.dtype = to;
  cpu::fill(out, value);
  return bits;
}

void fill_bits(const View& out, uint64_t bits) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const int64_t item = itemsize(out.layout.dtype);
  const size_t bytes = static_cast<size_t>(out.layout.numel * item);
  if (out.layout.contiguous && device.fill(out.data, &bits, static_cast<size_t>(item), bytes)) return;
  const Layout* const layouts[] = {&out.layout};
  launch(device, fill_entry.on(device), item_grid(out.layout.numel), out.data, walk_of(layouts, 0, out.layout.rank),
         bits, static_cast<int32_t>(item));
}

/// Device kernels convert f8_e4m3fn and f8_e5m2 alone. Further formats would grow every load of a small float.
void check_converted_here(const View& view) {
  const DType t = view.layout.dtype;
  if (WEFT_LIKELY(!is_storage_only(t) || t <= DType::f8_e5m2)) return;
  const Device device(view.layout.device_type, view.layout.device_index);
  raise<DTypeError>({.problem = fmt::format("{} does not convert {}", device.name(), name(t)),
                     .remedy = "convert it on the CPU, before or after the copy"});
}

void move(Accelerator& device, const View& out, const View& in) {
  const int64_t item = itemsize(out.layout.dtype);
  if (out.layout.contiguous && in.layout.contiguous) {
    return device.copy(out.data, in.data, static_cast<size_t>(out.layout.numel * item));
  }
  const Layout* const layouts[] = {&out.layout, &in.layout};
  launch(device, move_entry.on(device), item_grid(out.layout.numel), out.data, in.data,
         walk_of(layouts, 0, out.layout.rank), static_cast<int32_t>(item));
}

}  // namespace

void copy(const View& out, const View& in) {
  if (out.layout.numel == 0) return;
  const DType to = out.layout.dtype, from = in.layout.dtype;
  if (is_complex(to) && (to != from || in.layout.host_scalar)) {
    copy(part_view(out, 0), is_complex(from) ? part_view(in, 0) : in);
    if (is_complex(from)) return copy(part_view(out, 1), part_view(in, 1));
    return fill(part_view(out, 1), 0);
  }
  if (is_complex(from) && to == DType::boolean && !in.layout.host_scalar) {
    return compare(CompareOp::logical_or, out, part_view(in, 0), part_view(in, 1));
  }
  if (is_complex(from) && to != from) unsupported("copy", in);
  if (in.layout.host_scalar) return fill_bits(out, converted_bits(in.data, from, to));
  Accelerator& device = device_of(out);
  if (to == from) return move(device, out, in);
  check_converted_here(out);
  check_converted_here(in);
  const Compute compute = to == DType::f64 || from == DType::f64 ? Compute::f64 : Compute::f32;
  require(device, compute, "copy", to == DType::f64 ? out : in);
  portable::Pointwise<1> plan = {};
  const Layout* const layouts[] = {&out.layout, &in.layout};
  plan.walk = walk_of(layouts, 0, out.layout.rank);
  plan.dtype[0] = to;
  plan.dtype[1] = from;
  Entry& entry = is_floating(from) ? convert_real_entry : convert_whole_entry;
  launch(device, entry.on(device, compute), item_grid(out.layout.numel), out.data, in.data, plan);
}

void fill(const View& out, Scalar value) {
  if (out.layout.dtype != DType::c128) return fill_bits(out, bits_of(value, out.layout.dtype));
  fill(part_view(out, 0), value);
  fill(part_view(out, 1), 0);
}

void where(const View& out, const View& condition, const View& a, const View& b) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const View* const in[] = {&condition, &a, &b};
  const Layout* layouts[4] = {&out.layout};
  portable::Pointwise<3> plan = {};
  void* data[3];
  for (int k = 0; k < 3; ++k) {
    layouts[k + 1] = &in[k]->layout;
    plan.is_scalar[k] = in[k]->layout.host_scalar;
    data[k] = plan.is_scalar[k] ? nullptr : in[k]->data;
    if (!plan.is_scalar[k]) continue;
    if (k > 0 && out.layout.dtype == DType::c128) unsupported("where", out);
    const DType to = k == 0 ? DType::boolean : out.layout.dtype;
    plan.scalar[k].bits = converted_bits(in[k]->data, in[k]->layout.dtype, to);
  }
  plan.walk = walk_of(layouts, 0, out.layout.rank);
  launch(device, where_entry.on(device), item_grid(out.layout.numel), out.data, data[0], data[1], data[2], plan,
         static_cast<int32_t>(itemsize(out.layout.dtype)));
}

void arange(const View& view, Scalar start, Scalar step) {
  const View out = at_least_1d(view);
  const DType t = out.layout.dtype;
  if (!is_computable(t)) unsupported("arange", out);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const bool real = is_floating(t) || start.is_floating() || step.is_floating();
  if (real && (!device.has_double() || !is_floating(t))) {  // numbers are made in double, then rounded once
    std::vector<char> host(static_cast<size_t>(out.layout.numel * itemsize(t)));
    View dense = out;
    dense.data = host.data();
    dense.layout.strides[0] = itemsize(t);
    cpu::arange(dense, start, step);
    return device.upload(out.data, host.data(), host.size());
  }
  Kernel& kernel = arange_entry.on(device, real ? Compute::f64 : Compute::i64);
  const auto run = [&](auto first, auto increment) {
    launch(device, kernel, item_grid(out.layout.numel), out.data, out.layout.strides[0], static_cast<int32_t>(t), first,
           increment, out.layout.numel);
  };
  if (real) run(start.to<double>(), step.to<double>());
  else run(start.to<int64_t>(), step.to<int64_t>());
}

}  // namespace weft::portable::host
