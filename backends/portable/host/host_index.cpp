#include "../../index_plan.hpp"
#include "host.hpp"
#include "host_sort.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry index_select_entry(named::index_select);
constinit Entry gather_entry(named::gather);
constinit Entry index_get_entry(named::index_get);
constinit Entry destinations_entry(named::destinations);
constinit Entry put_last_entry(named::put_last);
constinit Entry put_entries[] = {named::put_sum,  // in the order of Scatter, after replace
                                 named::put_prod, named::put_max, named::put_min};

/// Whether neighbours along dimension d may have destinations of their own by more than a stride of the base.
bool is_indexed(const View& base, const IndexPlan& plan, int d) {
  if (base.layout.strides[d] == 0) return true;
  for (int k = 0; k < plan.count; ++k) {
    if (plan.indices[k].layout.strides[d] != 0) return true;
  }
  return false;
}

/// Dimensions [0, rank of `values`), or those of them that are indexed.
IndexLookup lookup_of(Accelerator& device, const View& values, const View& base, const IndexPlan& plan, bool all) {
  IndexLookup lookup = {};
  WalkBuilder<2 + max_rank> walk;
  for (int d = values.layout.rank - 1; d >= 0; --d) {
    if (!all && !is_indexed(base, plan, d)) continue;
    int64_t strides[2 + max_rank] = {values.layout.strides[d], base.layout.strides[d]};
    for (int k = 0; k < plan.count; ++k) strides[2 + k] = plan.indices[k].layout.strides[d];
    walk.add(values.layout.sizes[d], strides);
  }
  lookup.walk = walk.get();
  lookup.count = plan.count;
  lookup.call = device.note_index_call();
  lookup.wraps = plan.wraps;
  for (int k = 0; k < plan.count; ++k) {
    lookup.sizes[k] = plan.sizes[k];
    lookup.strides[k] = plan.strides[k];
    lookup.dims[k] = plan.dims[k];
    lookup.dtype[k] = plan.indices[k].layout.dtype;
  }
  return lookup;
}

/// The indices' addresses, null beyond the last.
struct Addresses {
  void* at[max_rank] = {};
  explicit Addresses(const IndexPlan& plan) {
    for (int k = 0; k < plan.count; ++k) at[k] = plan.indices[k].data;
  }
};
static_assert(max_rank == 8, "index.inc takes an address for each index");

portable::Put put_plan(const View& values, const View& base, const IndexPlan& plan) {
  portable::Put put = {};
  WalkBuilder<1> positions;
  WalkBuilder<2> slab;
  for (int d = values.layout.rank - 1; d >= 0; --d) {
    const int64_t size = values.layout.sizes[d], of_values = values.layout.strides[d];
    if (is_indexed(base, plan, d)) positions.add(size, {of_values});
    else slab.add(size, {base.layout.strides[d], of_values});
  }
  put.positions = positions.get();
  put.slab = slab.get();
  put.item = static_cast<int32_t>(itemsize(base.layout.dtype));
  put.dtype = base.layout.dtype;
  return put;
}

/// The elements at the destinations are combined with the values, in the order of their positions.
void put(const char* kernel, Scatter mode, const View& base, const View& values, const IndexPlan& plan) {
  for (int k = 0; k < plan.count; ++k) check_index_type(kernel, plan.indices[k]);
  if (mode == Scatter::sum && is_complex(base.layout.dtype)) {
    for (int part = 0; part < 2; ++part) put(kernel, mode, part_view(base, part), part_view(values, part), plan);
    return;
  }
  if (mode != Scatter::replace && !is_computable(base.layout.dtype)) unsupported(kernel, base);
  if (values.layout.numel == 0) return;
  Accelerator& device = device_of(base);
  const Compute compute = compute_of(base.layout.dtype);
  if (mode != Scatter::replace) require(device, compute, kernel, base);
  const portable::Put what = put_plan(values, base, plan);
  SortPairs pairs(device, 1, what.positions.count);
  const Addresses indices(plan);
  const auto& at = indices.at;
  launch_indexing(device, destinations_entry.on(device), item_grid(what.positions.count), pairs.keys(), pairs.order(),
                  at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], device.bad_index(),
                  lookup_of(device, values, base, plan, false));
  pairs.sort();
  Kernel& last = mode == Scatter::replace ? put_last_entry.on(device)
                                          : put_entries[static_cast<size_t>(mode) - 1].on(device, compute);
  launch(device, last, item_grid(values.layout.numel), base.data, values.data, pairs.keys(), pairs.order(), what);
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
  plan.check = {device.note_index_call(), dim, false};
  plan.item = static_cast<int32_t>(itemsize(out.layout.dtype));
  plan.index_dtype = index.layout.dtype;
  launch_indexing(device, index_select_entry.on(device), item_grid(out.layout.numel), out.data, x.data, index.data,
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
  plan.check = {device.note_index_call(), dim, false};
  plan.item = static_cast<int32_t>(itemsize(out.layout.dtype));
  plan.index_dtype = index.layout.dtype;
  launch_indexing(device, gather_entry.on(device), item_grid(out.layout.numel), out.data, x.data, index.data,
                  device.bad_index(), plan);
}

void scatter(Scatter mode, const View& out_view, int dim, const View& index_view, const View& source_view) {
  const View out = at_least_1d(out_view), index = at_least_1d(index_view), source = at_least_1d(source_view);
  const IndexPlan plan = {.count = 1,
                          .indices = {index},
                          .sizes = {out.layout.sizes[dim]},
                          .strides = {out.layout.strides[dim]},
                          .dims = {dim},
                          .wraps = false};
  View base = out;  // along `dim` it is addressed by the index alone
  base.layout.strides[dim] = 0;
  put("scatter", mode, base, source, plan);
}

void scatter_copy(Scatter mode, const View& out, const View& x, int dim, const View& index, const View& source) {
  copy(out, x);
  scatter(mode, out, dim, index, source);
}

void index_add(const View& out, int dim, const View& index, const View& source) {
  IndexPlan plan;
  View base;
  plan_slices(plan, base, at_least_1d(out), dim, at_least_1d(index), false);
  put("index_add", Scatter::sum, base, at_least_1d(source), plan);
}

void index_get(const View& out, const View& base, const IndexPlan& plan) {
  for (int k = 0; k < plan.count; ++k) check_index_type("index_get", plan.indices[k]);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const Addresses indices(plan);
  const auto& at = indices.at;
  launch_indexing(device, index_get_entry.on(device), item_grid(out.layout.numel), out.data, base.data, at[0], at[1],
                  at[2], at[3], at[4], at[5], at[6], at[7], device.bad_index(),
                  lookup_of(device, out, base, plan, true), static_cast<int32_t>(itemsize(out.layout.dtype)));
}

void index_put(const View& base, const View& values, const IndexPlan& plan, bool accumulate) {
  put("index_put", accumulate ? Scatter::sum : Scatter::replace, base, values, plan);
}

}  // namespace weft::portable::host
