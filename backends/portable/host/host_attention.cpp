#include "scratch_memory.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry attention_entry(named::attention);
constinit Entry few_entry(named::attention_few);
constinit Entry join_entry(named::attention_join);
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

static_assert(portable::attention_unlimited == AttentionPlan::unlimited);

portable::Attention plan_of(const View& q, const View& k, const View& v, const View& mask, const View& log_sum_exp,
                            const AttentionPlan& from) {
  portable::Attention plan = {};
  const bool packed = from.sequences.data != nullptr;
  plan.sequences = packed ? from.sequences.layout.sizes[0] : q.layout.sizes[0];
  plan.heads = q.layout.sizes[1];
  plan.key_heads = k.layout.sizes[1];
  plan.queries = packed ? from.most_queries : q.layout.sizes[2];
  plan.keys = packed ? from.most_keys : k.layout.sizes[2];
  plan.depth = q.layout.sizes[3];
  plan.width = v.layout.sizes[3];
  plan.q = heads_of(q);
  plan.k = heads_of(k);
  plan.v = heads_of(v);
  plan.mask = heads_of(mask);
  plan.log_sum_exp = heads_of(log_sum_exp);
  plan.slopes.batch = from.slopes.data != nullptr ? from.slopes.layout.strides[0] : 0;
  plan.slopes.head = from.slopes.data != nullptr ? from.slopes.layout.strides[1] : 0;
  plan.length = q.layout.sizes[2];
  plan.pieces = 1;
  plan.before = from.before;
  plan.after = from.after;
  plan.at_end = from.at_end;
  plan.has_mask = mask.data != nullptr;
  plan.has_slopes = from.slopes.data != nullptr;
  plan.has_sequences = packed;
  plan.has_blocks = from.blocks.data != nullptr;
  plan.block_size = from.block_size;
  plan.blocks = plan.has_blocks != 0 ? from.blocks.layout.sizes[1] : 0;
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
Grid group_grid(const portable::Attention& plan, int64_t heads, int64_t rows, int64_t columns, int64_t edge) {
  return tile_grid(plan.pieces * plan.sequences * heads * ((rows + edge - 1) / edge),
                   groups_for(columns, portable::attention_columns));
}

int64_t edge_of(Compute compute) {
  return compute == Compute::f64 ? portable::attention_edge_f64 : portable::attention_edge_f32;
}

struct Forward {
  const View &out, &log_sum_exp, &q, &k, &v, &mask;
};
/// Few queries would leave most of the device idle: groups split the keys, and their results are merged.
void attention_in_pieces(Accelerator& device, Compute compute, portable::Attention plan, const Forward& views,
                         const AttentionPlan& settings) {
  const DType wide = dtype_of(compute);
  const int64_t item = itemsize(wide), rows = views.log_sum_exp.layout.numel,
                columns = std::max<int64_t>(plan.width, 1);
  plan.piece_keys = portable::attention_piece;
  plan.pieces = (plan.keys + plan.piece_keys - 1) / plan.piece_keys;
  plan.log_sum_exp_step = rows * item;
  plan.out_step = plan.log_sum_exp_step * columns;
  const ScratchMemory pieces(device, static_cast<size_t>(plan.pieces * plan.out_step));
  const ScratchMemory sums(device, static_cast<size_t>(plan.pieces * plan.log_sum_exp_step));
  portable::Attention parts = plan;
  const int64_t line = plan.length * item, head = line * columns;
  parts.out = {plan.heads * head, head, columns * item, item, wide};
  parts.log_sum_exp = {plan.heads * line, line, item, 0, wide};
  const Grid grid = group_grid(parts, plan.heads, plan.queries, columns, portable::attention_edge_small);
  in_compute_type(compute, settings.scale, [&](auto scale) {
    launch(device, few_entry.on(device, compute), grid, pieces.data(), sums.data(), address(views.q), address(views.k),
           address(views.v), address(views.mask), address(settings.slopes), address(settings.sequences),
           address(settings.blocks), parts, scale);
  });
  const int64_t items = rows * columns;
  launch(device, join_entry.on(device, compute), item_grid(items), address(views.out), views.log_sum_exp.data,
         pieces.data(), sums.data(), plan, items);
}

}  // namespace

void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               const AttentionPlan& settings) {
  const Compute compute = checked_type("attention", {&q, &k, &v, &out});
  portable::Attention plan = plan_of(q, k, v, mask, log_sum_exp, settings);
  if (log_sum_exp.layout.numel == 0 || plan.sequences * plan.queries == 0) return;
  Accelerator& device = device_of(q);
  plan.out = heads_of(out);
  const bool few = plan.queries <= portable::attention_edge_small;
  if (few && plan.keys > portable::attention_piece) {
    return attention_in_pieces(device, compute, plan, {out, log_sum_exp, q, k, v, mask}, settings);
  }
  // Where values have no width, a group still writes log_sum_exp.
  const Grid grid = group_grid(plan, plan.heads, plan.queries, std::max<int64_t>(plan.width, 1),
                               few ? int64_t{portable::attention_edge_small} : edge_of(compute));
  in_compute_type(compute, settings.scale, [&](auto scale) {
    launch(device, (few ? few_entry : attention_entry).on(device, compute), grid, address(out), log_sum_exp.data,
           address(q), address(k), address(v), address(mask), address(settings.slopes), address(settings.sequences),
           address(settings.blocks), plan, scale);
  });
}

void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        const AttentionPlan& settings) {
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
  const int64_t length = q.layout.sizes[2];
  plan.delta = {plan.heads * length * item, length * item, item, 0, wide};
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
    const auto run = [&](Entry& entry, int64_t heads, int64_t lines, int64_t columns, auto... results) {
      if (plan.sequences * heads * lines == 0 || columns == 0) return;
      launch(device, entry.on(device, compute), group_grid(plan, heads, lines, columns, edge), results..., address(q),
             address(k), address(v), address(g), address(log_sum_exp), delta.data(), address(mask),
             address(settings.slopes), address(settings.sequences), plan, scale);
    };
    run(by_query_entry, plan.heads, plan.queries, plan.depth, address(dq));
    run(by_key_entry, plan.key_heads, plan.keys, std::max(plan.depth, plan.width), address(dk), address(dv));
  });
}

}  // namespace weft::portable::host
