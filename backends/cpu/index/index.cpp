// Reading by an index along one dimension, for elements of any type.
#include <algorithm>
#include <atomic>

#include "index_loops.hpp"
#include "index_offsets.hpp"
#include "indices.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../read_ahead.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {

void index_select(const View& out, const View& x, int dim, const View& index) {
  check_index_type("index_select", index);
  if (x.layout.rank == 1 && index.layout.rank == 1) {
    return read_list(out, x, 0, index, 0, x.layout.sizes[0], x.layout.strides[0], false);
  }
  IndexPlan plan;
  View base;
  plan_slices(plan, base, at_least_1d(x), dim, at_least_1d(index), false);
  index_get(at_least_1d(out), base, plan);
}

namespace {
/// A line with indices along itself.
bool gather_along(GatherLine line, GatherLoop loop, NextLine next) {
  const int64_t n = line.n, piece = std::min(n, next.piece);
  bool valid = true;
  for (int64_t i = 0; i < n; i += piece) {
    next.fetch();
    line.n = std::min(piece, n - i);
    valid &= loop(line);
    line.out += piece * line.out_step;
    line.index += piece * line.index_step;
  }
  return valid;
}
}  // namespace

// Indices are checked as they are read: `out` is the op's own, and nobody sees it when this raises.
void gather(const View& out_view, const View& x_view, int dim, const View& index_view) {
  check_index_type("gather", index_view);
  if (out_view.layout.rank == 1) {
    return read_list(out_view, x_view, 0, index_view, 0, x_view.layout.sizes[0], x_view.layout.strides[0], false);
  }
  const View out = at_least_1d(out_view), x = at_least_1d(x_view), index = at_least_1d(index_view);
  if (out.layout.numel == 0) return;
  // Blocks of columns of all rows, so that the indexed elements stay in the cache; whole lines if the indices are along
  // the line itself.
  constexpr int64_t cache = 1 << 19, ahead = 8;
  const int last = out.layout.rank - 1;
  const int64_t size = x.layout.sizes[dim], item = itemsize(out.layout.dtype);
  const bool by_columns = dim != last;
  Walk<3> walk;
  for (int d = 0; d < last; ++d) {
    if (d == dim) continue;
    walk.push(out.layout.sizes[d], {out.layout.strides[d], x.layout.strides[d], index.layout.strides[d]});
  }
  const int64_t rows = by_columns ? out.layout.sizes[dim] : 1, columns = out.layout.sizes[last];
  const int64_t fitting = std::max<int64_t>(cache / (std::max<int64_t>(size, 1) * item) / 16 * 16, 16);
  const int64_t block = std::min(by_columns ? fitting : 32768, columns), blocks = (columns + block - 1) / block;
  const int64_t out_step = out.layout.strides[last], index_step = index.layout.strides[last];
  const int64_t x_step = by_columns ? x.layout.strides[last] : 0;
  const int64_t out_row = out.layout.strides[dim], index_row = index.layout.strides[dim];
  const GatherLoop loop = gather_loop(out.layout.dtype, index.layout.dtype);
  std::atomic<bool> valid = true;
  const LinePrefetcher<3> lines(walk, 1, x.layout, by_columns ? -1 : dim, columns, 256);
  parallel_for(walk.count * blocks, rows_per_chunk(rows * block), [&](int64_t begin, int64_t end) {
    Cursor<3> at(walk, begin / blocks);
    for (int64_t t = begin, part = begin % blocks; t < end; ++t) {
      const int64_t first = part * block, width = std::min(block, columns - first);
      GatherLine line = {bytes(out) + at.offset[0] + first * out_step,
                         bytes(x) + at.offset[1] + first * x_step,
                         bytes(index) + at.offset[2] + first * index_step,
                         width,
                         size,
                         out_step,
                         x_step,
                         x.layout.strides[dim],
                         index_step,
                         false};
      bool all = by_columns || gather_along(line, loop, lines.after(bytes(x), t / blocks));
      for (int64_t i = 0; by_columns && i < rows; ++i, line.out += out_row, line.index += index_row) {
        if (i + ahead < rows && block < columns) {
          prefetch(line.index + ahead * index_row, width * index_step);
          for (int64_t b = 0; b < width * out_step; b += 64) __builtin_prefetch(line.out + ahead * out_row + b, 1);
        }
        all &= loop(line);
      }
      if (!all) valid.store(false, std::memory_order_relaxed);
      if (++part == blocks) part = 0, at.next();
    }
  });
  if (!valid.load(std::memory_order_relaxed)) raise_first_invalid(index, dim, size, false);
}

}  // namespace weft::cpu
