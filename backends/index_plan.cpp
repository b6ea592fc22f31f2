#include "index_plan.hpp"

namespace weft {

void check_index_type(const char* kernel, const View& index) {
  if (index.layout.dtype != DType::i32 && index.layout.dtype != DType::i64) unsupported(kernel, index);
}

void plan_slices(IndexPlan& plan, View& base, const View& x, int dim, const View& index, bool wraps) {
  const Layout &from = x.layout, &list = index.layout;
  View& wide = plan.indices[0];
  base.data = x.data;
  wide.data = index.data;
  Layout &to = base.layout, &along = wide.layout;
  to.dtype = from.dtype;
  to.device_type = from.device_type;
  to.device_index = from.device_index;
  along.dtype = list.dtype;
  along.device_type = list.device_type;
  along.device_index = list.device_index;
  int rank = 0;
  int64_t numel = 1;
  const auto push = [&](int64_t size, int64_t stride, int64_t index_stride) {
    to.sizes[rank] = along.sizes[rank] = size;
    to.strides[rank] = stride;
    along.strides[rank++] = index_stride;
    if (__builtin_mul_overflow(numel, size, &numel)) numel = INT64_MAX;  // no memory holds it: refused when made
  };
  for (int d = 0; d < dim; ++d) push(from.sizes[d], from.strides[d], 0);
  for (int i = 0; i < list.rank; ++i) push(list.sizes[i], 0, list.strides[i]);
  for (int d = dim + 1; d < from.rank; ++d) push(from.sizes[d], from.strides[d], 0);
  to.rank = along.rank = static_cast<uint8_t>(rank);
  to.numel = along.numel = numel;
  to.contiguous = along.contiguous = 0;
  plan.count = 1;
  plan.wraps = wraps;
  plan.sizes[0] = from.sizes[dim];
  plan.strides[0] = from.strides[dim];
  plan.dims[0] = dim;
}

}  // namespace weft
