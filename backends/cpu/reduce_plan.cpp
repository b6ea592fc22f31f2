#include <weft/backends/cpu/reduce_plan.hpp>

namespace weft::cpu {

namespace {
int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/// Sorts dimension numbers by falling stride of `layout`, keeping the order of equal ones.
void sort_by_stride(int* dims, int count, const Layout& layout) {
  for (int i = 1; i < count; ++i) {
    for (int j = i; j > 0 && magnitude(layout.strides[dims[j]]) > magnitude(layout.strides[dims[j - 1]]); --j) {
      const int swapped = dims[j];
      dims[j] = dims[j - 1];
      dims[j - 1] = swapped;
    }
  }
}
}  // namespace

ReducePlan::ReducePlan(const View& out_view, const View& in)
    : out(bytes(out_view)), data(bytes(in)), out_dtype(out_view.layout.dtype), dtype(in.layout.dtype) {
  int kept_dims[max_rank], reduced_dims[max_rank], kept_count = 0, reduced_count = 0;
  for (int d = 0; d < in.layout.rank; ++d) {
    if (in.layout.sizes[d] == 1) continue;
    if (out_view.layout.sizes[d] == in.layout.sizes[d]) kept_dims[kept_count++] = d;
    else reduced_dims[reduced_count++] = d;
  }
  sort_by_stride(kept_dims, kept_count, in.layout);
  sort_by_stride(reduced_dims, reduced_count, in.layout);
  for (int i = 0; i < kept_count; ++i) {
    const int d = kept_dims[i];
    kept.push(in.layout.sizes[d], {out_view.layout.strides[d], in.layout.strides[d]});
  }
  for (int i = 0; i < reduced_count; ++i) {
    const int d = reduced_dims[i];
    reduced.push(in.layout.sizes[d], {in.layout.strides[d]});
  }
  by_columns = false;
  if (kept.rank > 0 && reduced.rank > 0) {
    const int64_t kept_stride = magnitude(kept.strides[1][kept.rank - 1]);
    const int64_t reduced_stride = magnitude(reduced.strides[0][reduced.rank - 1]);
    by_columns = kept_stride < reduced_stride && kept.sizes[kept.rank - 1] >= 4;
  }
}

}  // namespace weft::cpu
