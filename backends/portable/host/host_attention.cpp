#include "device_allocator.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry attention_entry(named::attention);
constinit Entry few_entry(named::attention_few);
constinit Entry delta_entry(named::attention_delta);
constinit Entry by_query_entry(named::attention_by_query);
constinit Entry by_key_entry(named::attention_by_key);

portable::Heads heads_of(const View& view) {
  const Layout& l = view.layout;
  portable::Heads heads = {};
  if (view.data == nullptr) return heads;
  heads.batch = l.strides[0];
  heads.head = l.strides[1];
  heads.row = l.strides[2];
  heads.column = l.rank > 3 ? l.strides[3] : 0;
  heads.dtype = l.dtype;
  return heads;
}

portable::Attention plan_of(const View& q, const View& k, const View& v, const View& mask, const View& log_sum_exp,
                            const AttentionSettings& settings) {
  portable::Attention plan = {};
  plan.batch = q.layout.sizes[0];
  plan.heads = q.layout.sizes[1];
  plan.queries = q.layout.sizes[2];
  plan.keys = k.layout.sizes[2];
  plan.depth = q.layout.sizes[3];
  plan.width = v.layout.sizes[3];
  plan.q = heads_of(q);
  plan.k = heads_of(k);
  plan.v = heads_of(v);
  plan.mask = heads_of(mask);
  plan.log_sum_exp = heads_of(log_sum_exp);
  plan.causal = settings.causal;
  plan.has_mask = mask.data != nullptr;
  return plan;
}

/// Raises for operands that the kernels do not read.
Compute checked_type(const char* kernel, std::initializer_list<const View*> views) {
  const Compute compute = compute_of((*views.begin())->layout.dtype);
  for (const View* v : views) {
    if (!is_computable_float(v->layout.dtype) || compute_of(v->layout.dtype) != compute) unsupported(kernel, *v);
  }
  require(device_of(**views.begin()), compute, kernel, **views.begin());
  return compute;
}

/// A group for each block of rows of each head, and for each block of columns.
Grid group_grid(const portable::Attention& plan, int64_t rows, int64_t columns, int64_t edge) {
  return tile_grid(plan.batch * plan.heads * ((rows + edge - 1) / edge),
                   groups_for(columns, portable::attention_columns));
}

int64_t edge_of(Compute compute) {
  return compute == Compute::f64 ? portable::attention_edge_f64 : portable::attention_edge_f32;
}

}  // namespace

void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               AttentionSettings settings) {
  const Compute compute = checked_type("attention", {&q, &k, &v, &out});
  portable::Attention plan = plan_of(q, k, v, mask, log_sum_exp, settings);
  if (log_sum_exp.layout.numel == 0) return;
  Accelerator& device = device_of(q);
  plan.out = heads_of(out);
  const bool few = plan.queries <= portable::attention_edge_small;
  // Where values have no width, a group still writes log_sum_exp.
  const Grid grid = group_grid(plan, plan.queries, std::max<int64_t>(plan.width, 1),
                               few ? int64_t{portable::attention_edge_small} : edge_of(compute));
  in_compute_type(compute, settings.scale, [&](auto scale) {
    launch(device, (few ? few_entry : attention_entry).on(device, compute), grid, address(out), log_sum_exp.data,
           address(q), address(k), address(v), address(mask), plan, scale);
  });
}

void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        AttentionSettings settings) {
  const Compute compute = checked_type("attention_gradient", {&q, &k, &v, &g, &out, &dq, &dk, &dv});
  portable::Attention plan = plan_of(q, k, v, mask, log_sum_exp, settings);
  Accelerator& device = device_of(q);
  plan.g = heads_of(g);
  plan.dq = heads_of(dq);
  plan.dk = heads_of(dk);
  plan.dv = heads_of(dv);
  const DType wide = dtype_of(compute);
  const int64_t rows = log_sum_exp.layout.numel, item = itemsize(wide);
  const ScratchMemory delta(device, static_cast<size_t>(std::max<int64_t>(rows, 1) * item));
  plan.delta = {plan.heads * plan.queries * item, plan.queries * item, item, 0, wide};
  if (rows != 0) {
    View deltas = g;  // one number for each row of g
    deltas.data = delta.data();
    deltas.layout.dtype = wide;
    const int64_t strides[] = {plan.delta.batch, plan.delta.head, plan.delta.row, 0};
    std::copy_n(strides, 4, deltas.layout.strides);
    const auto plan_of_rows = rows_of({&deltas, &g, &out}, 3);
    launch(device, delta_entry.on(device, compute), team_grid(device, rows, plan.width), delta.data(), address(g),
           address(out), plan_of_rows);
  }
  const int64_t edge = edge_of(compute);
  in_compute_type(compute, settings.scale, [&](auto scale) {
    const auto run = [&](Entry& entry, int64_t lines, int64_t columns, auto... results) {
      if (plan.batch * plan.heads * lines == 0 || columns == 0) return;
      launch(device, entry.on(device, compute), group_grid(plan, lines, columns, edge), results..., address(q),
             address(k), address(v), address(g), address(log_sum_exp), delta.data(), address(mask), plan, scale);
    };
    run(by_query_entry, plan.queries, plan.depth, address(dq));
    run(by_key_entry, plan.keys, std::max(plan.depth, plan.width), address(dk), address(dv));
  });
}

}  // namespace weft::portable::host
