#include "host_sort.hpp"

#include <optional>

#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry sort_keys_entry(named::sort_keys);
constinit Entry sort_block_entry(named::sort_block);
constinit Entry sort_merge_entry(named::sort_merge);
constinit Entry sorted_entry(named::sorted);
constinit Entry search_entry(named::search);
constinit Entry number_keys_entry(named::number_keys);
constinit Entry count_keys_entry(named::count_keys);
constinit Entry select_rank_entry(named::select_rank);

constexpr int64_t sort_block = 32;  // as in sort.hpp

}  // namespace

SortPairs::SortPairs(Accelerator& device, int64_t lines, int64_t length, int bits)
    : device_(device),
      total_(lines * length),
      length_(length),
      bits_(bits),
      memory_(device, static_cast<size_t>(total_) * 32) {}

void SortPairs::sort() {
  if (length_ < 2) return;
  const PairsToSort pairs = {static_cast<const uint64_t*>(keys()),
                             static_cast<uint64_t*>(part(2 - now_)),
                             static_cast<const int64_t*>(order()),
                             static_cast<int64_t*>(part(3 - now_)),
                             total_ / length_,
                             length_,
                             bits_};
  if (device_.sort_pairs(pairs)) {
    now_ = 2 - now_;
    return;
  }
  const auto pass = [&](Entry& entry, auto... width) {
    void *const keys_out = part(2 - now_), *const order_out = part(3 - now_);
    launch(device_, entry.on(device_), item_grid(total_), keys_out, order_out, keys(), order(), total_, length_,
           width...);
    now_ = 2 - now_;
  };
  pass(sort_block_entry);
  for (int64_t width = sort_block; width < length_; width *= 2) pass(sort_merge_entry, width);
}

void sort(const View& out_view, const View& order_view, const View& x_view, int dim, bool descending) {
  if (!is_computable(x_view.layout.dtype)) unsupported("sort", x_view);
  if (x_view.layout.numel == 0) return;
  const View x = at_least_1d(x_view);
  Accelerator& device = device_of(x);
  portable::Sort plan = {};
  plan.has_out = out_view.data != nullptr;
  plan.has_order = order_view.data != nullptr;
  const View out = plan.has_out ? at_least_1d(out_view) : x, order = plan.has_order ? at_least_1d(order_view) : x;
  const Layout* const layouts[] = {&x.layout, &out.layout, &order.layout};
  plan.lines = walk_of(layouts, 0, x.layout.rank, dim);
  plan.length = x.layout.sizes[dim];
  for (int k = 0; k < 3; ++k) plan.step[k] = layouts[k]->strides[dim];
  plan.item = static_cast<int32_t>(itemsize(x.layout.dtype));
  plan.dtype = x.layout.dtype;
  plan.descending = descending;
  // Keys of floats have no bits but the element's; those above are all zeros, or all ones.
  SortPairs pairs(device, plan.lines.count, plan.length, is_floating(plan.dtype) ? 8 * plan.item : 64);
  launch(device, sort_keys_entry.on(device), item_grid(x.layout.numel), pairs.keys(), pairs.order(), x.data, plan);
  pairs.sort();

  void* from = x.data;
  std::optional<ScratchMemory> unsorted;
  if (plan.has_out && out.data == x.data) {  // in place: elements are read apart from where they are written
    unsorted.emplace(device, static_cast<size_t>(x.layout.numel * plan.item));
    View dense = x;
    dense.data = from = unsorted->data();
    int64_t stride = plan.item;
    for (int d = x.layout.rank - 1; d >= 0; --d) {
      dense.layout.strides[d] = stride;
      stride *= x.layout.sizes[d];
    }
    dense.layout.contiguous = 1;
    copy(dense, x);
    const Layout* const apart[] = {&dense.layout, &out.layout, &order.layout};
    plan.lines = walk_of(apart, 0, x.layout.rank, dim);
    plan.step[0] = dense.layout.strides[dim];
  }
  launch(device, sorted_entry.on(device), item_grid(x.layout.numel), plan.has_out ? out.data : nullptr,
         plan.has_order ? order.data : nullptr, from, pairs.order(), plan);
}

void bincount(const View& counts, const View& x) {
  const DType t = x.layout.dtype;
  if (t != DType::i32 && t != DType::i64) unsupported("bincount", x);
  const int64_t n = x.layout.numel, bins = counts.layout.numel;
  if (n == 0 || bins == 0) return;
  Accelerator& device = device_of(counts);
  SortPairs pairs(device, 1, n);
  launch(device, number_keys_entry.on(device), item_grid(n), pairs.keys(), pairs.order(), x.data, n,
         x.layout.strides[0], t);
  pairs.sort();
  launch(device, count_keys_entry.on(device), item_grid(bins), counts.data, pairs.keys(), n, bins);
}

void select_rank(const View& order, const View& x, const View& ranks, int dim) {
  if (!is_computable(x.layout.dtype)) unsupported("select_rank", x);
  if (order.layout.numel == 0) return;
  Accelerator& device = device_of(order);
  Layout lines = x.layout;  // every rank's line
  lines.strides[dim] = 0;
  const Layout* const layouts[] = {&order.layout, &ranks.layout, &lines};
  portable::SelectRank plan = {};
  plan.lines = walk_of(layouts, 0, order.layout.rank);
  plan.length = x.layout.sizes[dim];
  plan.step = x.layout.strides[dim];
  plan.dtype = x.layout.dtype;
  Grid grid = team_grid(device, plan.lines.count, plan.length);
  if (grid.group_size[0] > 1) grid = {{groups_for(plan.lines.count, 1), 1, 1}, {grid.group_size[0], 1, 1}};
  launch(device, select_rank_entry.on(device), grid, order.data, x.data, ranks.data, plan);
}

void searchsorted(const View& out_view, const View& sorted, const View& values_view, bool right) {
  if (!is_computable(sorted.layout.dtype)) unsupported("searchsorted", sorted);
  if (values_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), values = at_least_1d(values_view);
  Accelerator& device = device_of(out);
  Layout lines = values.layout;  // a value's line; stride 0 where all values share it
  const int last = lines.rank - 1, line_dim = sorted.layout.rank - 1;
  for (int d = 0; d <= last; ++d) {
    lines.strides[d] = d == last || sorted.layout.rank == 1 ? 0 : sorted.layout.strides[d];
  }
  const Layout* const layouts[] = {&out.layout, &values.layout, &lines};
  portable::Search plan = {};
  plan.walk = walk_of(layouts, 0, values.layout.rank);
  plan.length = sorted.layout.sizes[line_dim];
  plan.step = sorted.layout.strides[line_dim];
  plan.dtype = sorted.layout.dtype;
  plan.right = right;
  launch(device, search_entry.on(device), item_grid(values.layout.numel), out.data, address(sorted), values.data, plan);
}

}  // namespace weft::portable::host
