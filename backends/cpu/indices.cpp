#include <weft/backends/cpu/indices.hpp>

#include <weft/backends/cpu/index_loops.hpp>
#include <weft/backends/cpu/kernels.hpp>

namespace weft::cpu {

void check_index_type(const char* kernel, const View& index) {
  if (index.layout.dtype != DType::i32 && index.layout.dtype != DType::i64) unsupported(kernel, index);
}

std::vector<int64_t> resolve(const View& index, int dim, int64_t size) {
  const View flat = at_least_1d(index);
  const int64_t n = flat.layout.sizes[0], stride = flat.layout.strides[0];
  std::vector<int64_t> result(static_cast<size_t>(n));
  with_index_type(flat, [&](auto type) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t given = index_at<decltype(type)>(bytes(flat), j * stride);
      int64_t row = given;
      if (!wraps_into(row, size)) index_out_of_range(given, dim, size);
      result[static_cast<size_t>(j)] = row;
    }
  });
  return result;
}

View broadcast_index(const View& index, int dim, const View& like) {
  View result = at_least_1d(index);
  const int64_t stride = result.layout.strides[0];
  result.layout.rank = like.layout.rank;
  result.layout.numel = like.layout.numel;
  result.layout.contiguous = 0;
  for (int d = 0; d < like.layout.rank; ++d) {
    result.layout.sizes[d] = like.layout.sizes[d];
    result.layout.strides[d] = d == dim ? stride : 0;
  }
  return result;
}

void raise_first_invalid(const View& index, int dim, int64_t size) {
  const Layout* const layouts[] = {&index.layout};
  Walk<1> walk = walk_of(layouts, 0, index.layout.rank);
  int64_t step[1];
  const int64_t n = walk.pop(step);
  with_index_type(index, [&](auto type) {
    using I = decltype(type);
    Cursor<1> at(walk, 0);
    for (int64_t i = 0; i < walk.count; ++i, at.next()) {
      const char* line = bytes(index) + at.offset[0];
      if (all_in_range(line, index.layout.dtype, step[0], n, size)) continue;
      for (int64_t j = 0; j < n; ++j) {
        const int64_t given = index_at<I>(line, j * step[0]);
        int64_t row = given;
        if (!wraps_into(row, size)) index_out_of_range(given, dim, size);
      }
    }
  });
}

void check_plan(const char* kernel, const IndexPlan& plan) {
  for (int k = 0; k < plan.count; ++k) {
    check_index_type(kernel, plan.indices[k]);
    // Each index once: where it repeats, in a selection of no elements too.
    View once = plan.indices[k];
    once.layout.numel = 1;
    for (int d = 0; d < once.layout.rank; ++d) {
      if (once.layout.strides[d] == 0) once.layout.sizes[d] = 1;
      once.layout.numel *= once.layout.sizes[d];
    }
    if (once.layout.numel > 0) raise_first_invalid(once, plan.dims[k], plan.sizes[k]);
  }
}

IndexPlan plan_of(const View& index, int dim, const View& base) {
  IndexPlan plan;
  plan.count = 1;
  plan.indices[0] = index;
  plan.sizes[0] = base.layout.sizes[dim];
  plan.strides[0] = base.layout.strides[dim];
  plan.dims[0] = dim;
  return plan;
}

}  // namespace weft::cpu
