#include <weft/backends/cpu/simd_targets.hpp>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index_offsets.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <weft/backends/cpu/index_offsets.hpp>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class I, bool more>
void contiguous_offsets(int64_t* HWY_RESTRICT offset, const I* HWY_RESTRICT index, int64_t n, int64_t size,
                        int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t given = index[i], wrapped = given + (given >> 63 & size);
    offset[i] = more ? offset[i] + wrapped * stride : wrapped * stride;
  }
}

template <class I>
void offsets_of(int64_t* offset, const char* index, int64_t step, int64_t n, int64_t size, int64_t stride, bool more) {
  if (step == (int64_t)sizeof(I)) {
    auto* const given = reinterpret_cast<const I*>(index);
    if (more) contiguous_offsets<I, true>(offset, given, n, size, stride);
    else contiguous_offsets<I, false>(offset, given, n, size, stride);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t row = index_at<I>(index, i * step);
    wraps_into(row, size);
    offset[i] = more ? offset[i] + row * stride : row * stride;
  }
}

void any_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size, int64_t stride,
                 bool more) {
  if (type == DType::i64) offsets_of<int64_t>(offset, index, step, n, size, stride, more);
  else offsets_of<int32_t>(offset, index, step, n, size, stride, more);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(any_offsets);
void index_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size,
                   int64_t stride, bool more) {
  HWY_DYNAMIC_DISPATCH(any_offsets)(offset, index, type, step, n, size, stride, more);
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

}  // namespace weft::cpu
#endif
