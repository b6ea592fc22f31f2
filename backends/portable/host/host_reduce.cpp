#include <cmath>
#include <cstdlib>

#include "host.hpp"
#include "launch.hpp"
#include "scratch_memory.hpp"

namespace weft::portable::host {

namespace {

constinit Entry reduce_entries[] = {named::reduce_sum, named::reduce_sum, named::reduce_prod, named::reduce_max,
                                    named::reduce_min, named::reduce_any, named::reduce_all};
constinit Entry variance_entry(named::variance);
constinit Entry arg_reduce_entry(named::arg_reduce);
constinit Entry cumsum_entry(named::cumsum);
constinit Entry running_product_entry(named::running_product);
constinit Entry running_log_sum_exp_entry(named::running_log_sum_exp);
constinit Entry running_extreme_entry(named::running_extreme);

/// A reduction of more elements is cut into pieces where outputs are few.
int64_t piece_elements(const Accelerator& device) { return device.simd_width() > 1 ? 8192 : 65536; }
constexpr int64_t few_outputs = 1024;

int64_t innermost_stride(const Layout& l, bool reduced, const Layout& out) {
  for (int d = l.rank - 1; d >= 0; --d) {
    if (l.sizes[d] == 1 || (out.sizes[d] != l.sizes[d]) != reduced) continue;
    return l.strides[d] < 0 ? -l.strides[d] : l.strides[d];
  }
  return INT64_MAX;
}

/// Of the dimensions but `skip`.
int64_t innermost_stride(const Layout& l, int skip) {
  for (int d = l.rank - 1; d >= 0; --d) {
    if (d != skip && l.sizes[d] != 1) return std::abs(l.strides[d]);
  }
  return INT64_MAX;
}

portable::Reduce plan_of(const View& out, const View& in) {
  portable::Reduce plan = {};
  WalkBuilder<2> kept;
  WalkBuilder<1> reduced;
  for (int d = in.layout.rank - 1; d >= 0; --d) {
    if (out.layout.sizes[d] == in.layout.sizes[d]) {
      kept.add(in.layout.sizes[d], {out.layout.strides[d], in.layout.strides[d]});
    } else {
      reduced.add(in.layout.sizes[d], {in.layout.strides[d]});
    }
  }
  plan.kept = kept.get();
  plan.reduced = reduced.get();
  plan.piece = plan.reduced.count;
  plan.pieces = 1;
  plan.divisor = -1;
  plan.to = out.layout.dtype;
  plan.from = in.layout.dtype;
  plan.by_columns = innermost_stride(in.layout, false, out.layout) < innermost_stride(in.layout, true, out.layout);
  return plan;
}

void launch_plan(Accelerator& device, Kernel& kernel, void* out, void* in, const portable::Reduce& plan) {
  const Grid grid = team_grid(device, plan.kept.count * plan.pieces, plan.piece, plan.by_columns);
  launch(device, kernel, grid, out, in, plan);
}

/// [outputs, pieces] of the compute type to the outputs.
portable::Reduce second_pass(const portable::Reduce& first, DType type, int64_t divisor) {
  portable::Reduce plan = first;
  const int64_t item = itemsize(type);
  plan.reduced = {};
  plan.reduced.count = first.pieces;
  plan.reduced.rank = 1;
  plan.reduced.sizes[0] = first.pieces;
  plan.reduced.strides[0][0] = item;
  plan.from = type;
  plan.piece = first.pieces;
  plan.pieces = 1;
  plan.divisor = divisor;
  plan.by_columns = 0;
  int64_t stride = item * first.pieces;
  for (int d = 0; d < plan.kept.rank; ++d) {
    plan.kept.strides[1][d] = stride;
    stride *= plan.kept.sizes[d];
  }
  return plan;
}

/// `index` may have no data.
void launch_running(Entry& entry, const char* kernel, const View& out_view, const View& index_view, const View& x_view,
                    int dim, bool largest) {
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), x = at_least_1d(x_view);
  const View index = index_view.data != nullptr ? at_least_1d(index_view) : out;
  Accelerator& device = device_of(out);
  const Compute compute = compute_of(out.layout.dtype);
  require(device, compute, kernel, out);
  portable::Running plan = {};
  plan.rows = rows_of({&out, &x, &index}, dim);
  plan.largest = largest;
  plan.by_columns = innermost_stride(x.layout, dim) < std::abs(plan.rows.step[1]);
  const Grid grid = team_grid(device, plan.rows.walk.count, plan.rows.length, plan.by_columns);
  Kernel& found = entry.on(device, compute);
  if (index_view.data == nullptr) launch(device, found, grid, out.data, x.data, plan);
  else launch(device, found, grid, out.data, index.data, x.data, plan);
}

}  // namespace

void reduce(Reduction reduction, const View& out, const View& in) {
  for (const View* v : {&out, &in}) {
    if (!is_computable(v->layout.dtype)) unsupported("reduce", *v);
  }
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const bool sums = reduction == Reduction::sum || reduction == Reduction::mean || reduction == Reduction::prod;
  const Compute compute = compute_of(sums && is_floating(out.layout.dtype) ? out.layout.dtype : in.layout.dtype);
  require(device, compute, "reduce", compute_of(out.layout.dtype) == compute ? out : in);
  portable::Reduce plan = plan_of(out, in);
  const int64_t divisor = reduction == Reduction::mean ? plan.reduced.count : -1;
  Kernel& kernel = reduce_entries[static_cast<size_t>(reduction)].on(device, compute);
  const int64_t piece = piece_elements(device);
  if (plan.reduced.count < 2 * piece || plan.kept.count > few_outputs) {
    plan.divisor = divisor;
    return launch_plan(device, kernel, out.data, address(in), plan);
  }
  plan.piece = piece;
  plan.pieces = (plan.reduced.count + piece - 1) / piece;
  plan.by_columns = 0;
  const DType type = dtype_of(compute);
  const ScratchMemory partial(device, static_cast<size_t>(plan.kept.count * plan.pieces * itemsize(type)));
  launch_plan(device, kernel, partial.data(), address(in), plan);
  launch_plan(device, kernel, out.data, partial.data(), second_pass(plan, type, divisor));
}

void variance(const View& out, const View& in, double correction) {
  for (const View* v : {&out, &in}) {
    if (!is_computable_float(v->layout.dtype)) unsupported("variance", *v);
  }
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const Compute compute = compute_of(in.layout.dtype);
  require(device, compute, "variance", in);
  portable::Reduce plan = plan_of(out, in);
  plan.correction = static_cast<float>(correction);
  launch_plan(device, variance_entry.on(device, compute), out.data, address(in), plan);
}

void arg_reduce(ArgReduction reduction, const View& out_view, const View& in_view, int dim) {
  if (!is_computable(in_view.layout.dtype)) unsupported("arg_reduce", in_view);
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), in = at_least_1d(in_view);
  Accelerator& device = device_of(out);
  const Compute compute = compute_of(in.layout.dtype);
  require(device, compute, "arg_reduce", in);
  portable::ArgReduce plan = {};
  plan.rows = rows_of({&out, &in}, dim);
  plan.rows.length = in.layout.sizes[dim];
  plan.largest = reduction == ArgReduction::max;
  const Grid grid = team_grid(device, plan.rows.walk.count, plan.rows.length);
  launch(device, arg_reduce_entry.on(device, compute), grid, out.data, address(in), plan);
}

void cumsum(const View& out_view, const View& in_view, int dim, bool exclusive, bool reverse) {
  for (const View* v : {&out_view, &in_view}) {
    if (!is_computable(v->layout.dtype)) unsupported("cumsum", *v);
  }
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), in = at_least_1d(in_view);
  Accelerator& device = device_of(out);
  const Compute compute = compute_of(out.layout.dtype);
  require(device, compute, "cumsum", out);
  portable::Scan plan = {};
  plan.rows = rows_of({&out, &in}, dim);
  plan.exclusive = exclusive;
  plan.reverse = reverse;
  plan.by_columns = innermost_stride(in.layout, dim) < std::abs(plan.rows.step[1]);
  const Grid grid = team_grid(device, plan.rows.walk.count, plan.rows.length, plan.by_columns);
  launch(device, cumsum_entry.on(device, compute), grid, out.data, address(in), plan);
}

void running_product(const View& out, const View& x, int dim) {
  for (const View* v : {&out, &x}) {
    if (!is_computable(v->layout.dtype)) unsupported("running_product", *v);
  }
  launch_running(running_product_entry, "running_product", out, View{}, x, dim, false);
}

void running_log_sum_exp(const View& out, const View& x, int dim) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("running_log_sum_exp", x);
  launch_running(running_log_sum_exp_entry, "running_log_sum_exp", out, View{}, x, dim, false);
}

void running_extreme(const View& out, const View& index, const View& x, int dim, bool largest) {
  const DType t = x.layout.dtype;
  if (t == DType::boolean || (is_floating(t) && compute_type(t) != t)) unsupported("running_extreme", x);
  launch_running(running_extreme_entry, "running_extreme", out, index, x, dim, largest);
}

}  // namespace weft::portable::host
