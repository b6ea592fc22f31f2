#include "indices.hpp"

#include <algorithm>
#include <atomic>

#include "index_loops.hpp"
#include "../kernels.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {

namespace {
bool all_valid(const View& index, int64_t size, bool wraps) {
  const Layout* const layouts[] = {&index.layout};
  Walk<1> walk = walk_of(layouts, 0, index.layout.rank);
  int64_t step[1];
  const int64_t n = walk.pop(step);
  std::atomic<bool> valid = true;
  parallel_for(walk.count * n, 65536, [&](int64_t begin, int64_t end) {
    Cursor<1> at(walk, begin / n);
    for (int64_t position = begin, j = begin % n; position < end; j = 0, at.next()) {
      const int64_t count = std::min(n - j, end - position);
      const char* const line = bytes(index) + at.offset[0] + j * step[0];
      if (!all_in_range(line, index.layout.dtype, step[0], count, size, wraps))
        valid.store(false, std::memory_order_relaxed);
      position += count;
    }
  });
  return valid.load(std::memory_order_relaxed);
}
}  // namespace

void raise_first_invalid(const View& index, int dim, int64_t size, bool wraps) {
  if (all_valid(index, size, wraps)) return;
  const Layout* const layouts[] = {&index.layout};
  const Walk<1> walk = walk_of(layouts, 0, index.layout.rank);
  Cursor<1> at(walk, 0);
  with_index_type(index, [&](auto type) {
    for (int64_t i = 0; i < walk.count; ++i, at.next()) {
      const int64_t given = index_at<decltype(type)>(bytes(index), at.offset[0]);
      int64_t row = given;
      if (!wraps_into(row, size, wraps)) index_out_of_range(given, dim, size, wraps);
    }
  });
}

void check_plan(const char* kernel, const IndexPlan& plan) {
  for (int k = 0; k < plan.count; ++k) {
    const View& index = plan.indices[k];
    check_index_type(kernel, index);
    const Layout& list = index.layout;
    const bool any = list.rank == 1 && list.numel > 0;
    if (any && all_in_range(bytes(index), list.dtype, list.strides[0], list.numel, plan.sizes[k], plan.wraps)) continue;
    // Each index once: where it repeats, in a selection of no elements too.
    View once = plan.indices[k];
    once.layout.numel = 1;
    for (int d = 0; d < once.layout.rank; ++d) {
      if (once.layout.strides[d] == 0) once.layout.sizes[d] = 1;
      once.layout.numel *= once.layout.sizes[d];
    }
    if (once.layout.numel > 0) raise_first_invalid(once, plan.dims[k], plan.sizes[k], plan.wraps);
  }
}

}  // namespace weft::cpu
