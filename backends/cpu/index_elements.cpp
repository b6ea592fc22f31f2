// Advanced indexing: elements at the offsets that tensors of indices give.
#include <cstring>

#include <weft/backends/cpu/indices.hpp>
#include <weft/backends/cpu/kernels.hpp>

namespace weft::cpu {
namespace {

int64_t offset_at(const Layout& layout, const Layout& sizes, int64_t position) {
  int64_t offset = 0;
  for (int d = sizes.rank - 1; d >= 0; --d) {
    offset += position % sizes.sizes[d] * layout.strides[d];
    position /= sizes.sizes[d];
  }
  return offset;
}

int64_t value_at(const View& index, const Layout& sizes, int64_t position) {
  const char* at = bytes(index) + offset_at(index.layout, sizes, position);
  return index.layout.dtype == DType::i64 ? index_at<int64_t>(at, 0) : index_at<int32_t>(at, 0);
}

void check(const IndexPlan& plan, const Layout& sizes) {
  for (int k = 0; k < plan.count; ++k) {
    for (int64_t i = 0; i < sizes.numel; ++i) {
      int64_t value = value_at(plan.indices[k], sizes, i);
      if (!wraps_into(value, plan.sizes[k])) {
        index_out_of_range(value_at(plan.indices[k], sizes, i), plan.dims[k], plan.sizes[k]);
      }
    }
  }
}

char* selected(const View& base, const IndexPlan& plan, const Layout& sizes, int64_t i) {
  char* at = bytes(base) + offset_at(base.layout, sizes, i);
  for (int k = 0; k < plan.count; ++k) {
    int64_t value = value_at(plan.indices[k], sizes, i);
    wraps_into(value, plan.sizes[k]);
    at += value * plan.strides[k];
  }
  return at;
}

}  // namespace

void index_get(const View& out, const View& base, const IndexPlan& plan) {
  check(plan, out.layout);
  const auto item = static_cast<size_t>(itemsize(out.layout.dtype));
  for (int64_t i = 0; i < out.layout.numel; ++i) {
    memcpy(bytes(out) + offset_at(out.layout, out.layout, i), selected(base, plan, out.layout, i), item);
  }
}

void index_put(const View& base, const View& values, const IndexPlan& plan, bool accumulate) {
  check(plan, values.layout);
  const auto item = static_cast<size_t>(itemsize(values.layout.dtype));
  for (int64_t i = 0; i < values.layout.numel; ++i) {
    const char* from = bytes(values) + offset_at(values.layout, values.layout, i);
    char* to = selected(base, plan, values.layout, i);
    if (!accumulate) {
      memcpy(to, from, item);
      continue;
    }
    double sum = 0, term = 0;
    load_line(&sum, to, 0, 1, values.layout.dtype);
    load_line(&term, from, 0, 1, values.layout.dtype);
    sum += term;
    store_line(to, 0, values.layout.dtype, &sum, 1);
  }
}

}  // namespace weft::cpu
