#include <optional>

#include <weft/backends/portable/host.hpp>
#include <weft/backends/portable/launch.hpp>
#include <weft/backends/portable/device_allocator.hpp>

namespace weft::portable::host {

namespace {

constinit Entry index_select_entry("index_select", Module::move_any);
constinit Entry gather_entry("gather", Module::move_any);
constinit Entry scatter_add_entry("scatter_add", Module::reduce_f32);

void check_index_type(const char* kernel, const View& index) {
  if (index.layout.dtype != DType::i32 && index.layout.dtype != DType::i64) unsupported(kernel, index);
}

/// A 1-d index seen with the sizes of `source`, stride 0 but along `dim`.
View broadcast_index(const View& index, int dim, const View& source) {
  View result = at_least_1d(index);
  const int64_t stride = result.layout.strides[0];
  result.layout.rank = source.layout.rank;
  result.layout.numel = source.layout.numel;
  result.layout.contiguous = 0;
  for (int d = 0; d < source.layout.rank; ++d) {
    result.layout.sizes[d] = source.layout.sizes[d];
    result.layout.strides[d] = d == dim ? stride : 0;
  }
  return result;
}

/// A contiguous f32 array in the shape of a 16-bit one, which is summed in it and rounded once.
View widened(const View& view, void* data) {
  View wide = view;
  wide.data = data;
  Layout& l = wide.layout;
  l.dtype = DType::f32;
  l.contiguous = 1;
  int64_t stride = itemsize(DType::f32);
  for (int d = l.rank - 1; d >= 0; --d) {
    l.strides[d] = stride;
    stride *= l.sizes[d];
  }
  return wide;
}

void add_by_index(Accelerator& device, const View& out, int dim, const View& index, const View& source) {
  const Compute compute = compute_of(out.layout.dtype);
  portable::ScatterAdd plan = {};
  const Layout* const layouts[] = {&out.layout, &source.layout, &index.layout};
  WalkBuilder<3> columns;
  for (int d = out.layout.rank - 1; d >= 0; --d) {
    if (d == dim) continue;
    columns.add(index.layout.sizes[d], {layouts[0]->strides[d], layouts[1]->strides[d], layouts[2]->strides[d]});
  }
  plan.columns = columns.get();
  plan.count = index.layout.sizes[dim];
  plan.size = out.layout.sizes[dim];
  for (int k = 0; k < 3; ++k) plan.step[k] = layouts[k]->strides[dim];
  // Narrow problems are cut by destination too, where the device runs many work-items at once.
  const int64_t wanted = device.simd_width() > 1 ? 4096 : 1;
  plan.parts = std::clamp<int64_t>(wanted / plan.columns.count, 1, std::max<int64_t>(plan.size, 1));
  plan.check = {device.note_index_call(), dim};
  plan.dtype = out.layout.dtype;
  plan.source_dtype = source.layout.dtype;
  plan.index_dtype = index.layout.dtype;
  launch(device, scatter_add_entry.on(device, compute), item_grid(plan.columns.count * plan.parts), out.data,
         source.data, index.data, device.bad_index(), plan);
}

}  // namespace

void index_select(const View& out_view, const View& x_view, int dim, const View& index_view) {
  check_index_type("index_select", index_view);
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), x = at_least_1d(x_view), index = at_least_1d(index_view);
  Accelerator& device = device_of(out);
  const Layout* const layouts[] = {&out.layout, &x.layout};
  portable::IndexSelect plan = {};
  plan.outer = walk_of(layouts, 0, dim);
  plan.inner = walk_of(layouts, dim + 1, out.layout.rank);
  plan.count = out.layout.sizes[dim];
  plan.size = x.layout.sizes[dim];
  plan.out_step = out.layout.strides[dim];
  plan.x_step = x.layout.strides[dim];
  plan.index_step = index.layout.strides[0];
  plan.check = {device.note_index_call(), dim};
  plan.item = static_cast<int32_t>(itemsize(out.layout.dtype));
  plan.index_dtype = index.layout.dtype;
  launch(device, index_select_entry.on(device), item_grid(out.layout.numel), out.data, x.data, index.data,
         device.bad_index(), plan);
}

void gather(const View& out_view, const View& x_view, int dim, const View& index_view) {
  check_index_type("gather", index_view);
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), x = at_least_1d(x_view), index = at_least_1d(index_view);
  Accelerator& device = device_of(out);
  Layout selected = x.layout;  // along `dim` x is addressed by the index alone
  selected.strides[dim] = 0;
  const Layout* const layouts[] = {&out.layout, &selected, &index.layout};
  portable::Gather plan = {};
  plan.walk = walk_of(layouts, 0, out.layout.rank);
  plan.size = x.layout.sizes[dim];
  plan.x_step = x.layout.strides[dim];
  plan.check = {device.note_index_call(), dim};
  plan.item = static_cast<int32_t>(itemsize(out.layout.dtype));
  plan.index_dtype = index.layout.dtype;
  launch(device, gather_entry.on(device), item_grid(out.layout.numel), out.data, x.data, index.data, device.bad_index(),
         plan);
}

void scatter(Scatter mode, const View& out_view, int dim, const View& index_view, const View& source_view) {
  check_index_type("scatter", index_view);
  if (mode != Scatter::sum || is_storage_only(out_view.layout.dtype)) unsupported("scatter", out_view);
  if (index_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), index = at_least_1d(index_view), source = at_least_1d(source_view);
  Accelerator& device = device_of(out);
  require(device, compute_of(out.layout.dtype), "scatter", out);
  if (out.layout.dtype != DType::f16 && out.layout.dtype != DType::bf16) {
    return add_by_index(device, out, dim, index, source);
  }
  const ScratchMemory sums(device, static_cast<size_t>(std::max<int64_t>(out.layout.numel, 1)) * sizeof(float));
  const View wide = widened(out, sums.data());
  copy(wide, out);
  add_by_index(device, wide, dim, index, source);
  copy(out, wide);
}

void index_add(const View& out, int dim, const View& index, const View& source_view) {
  check_index_type("index_add", index);
  const View source = at_least_1d(source_view);
  if (source.layout.numel == 0) return;
  scatter(Scatter::sum, out, dim, broadcast_index(index, dim, source), source);
}

}  // namespace weft::portable::host
