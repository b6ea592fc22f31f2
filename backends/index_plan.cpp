#include <weft/backends/index_plan.hpp>

namespace weft {

void check_index_type(const char* kernel, const View& index) {
  if (index.layout.dtype != DType::i32 && index.layout.dtype != DType::i64) unsupported(kernel, index);
}

View broadcast_index(const View& index, int dim, const View& like) {
  View result = index;
  const int64_t stride = index.layout.rank > 0 ? index.layout.strides[0] : itemsize(index.layout.dtype);
  result.layout.rank = like.layout.rank;
  result.layout.numel = like.layout.numel;
  result.layout.contiguous = 0;
  for (int d = 0; d < like.layout.rank; ++d) {
    result.layout.sizes[d] = like.layout.sizes[d];
    result.layout.strides[d] = d == dim ? stride : 0;
  }
  return result;
}

IndexPlan plan_along(const View& index, int dim, const View& base) {
  IndexPlan plan;
  plan.count = 1;
  plan.indices[0] = index;
  plan.sizes[0] = base.layout.sizes[dim];
  plan.strides[0] = base.layout.strides[dim];
  plan.dims[0] = dim;
  return plan;
}

}  // namespace weft
