// Dot products of rows of two matrices, where a sparse matrix has elements.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/sampled_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "../../sparse.hpp"
#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void sample(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  const int64_t rows = a.layout.sizes[0], width = a.layout.sizes[1], n = out.layout.numel;
  const auto* const starts = static_cast<const int64_t*>(row_starts.data);
  const auto* const in = static_cast<const int64_t*>(columns.data);
  const int64_t work = (width + 16) * (n / std::max<int64_t>(rows, 1) + 1);
  parallel_for(rows, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = static_cast<const T*>(a.data) + r * width;
      for (int64_t e = starts[r]; e < starts[r + 1]; ++e) {
        const T* const y = static_cast<const T*>(b.data) + in[e] * width;
        const double dot = sum_lines<T>(width, [&](int64_t i, int64_t left) HWY_ATTR {
          return Lanes<T>::load(x + i, left, T(0)) * Lanes<T>::load(y + i, left, T(0));
        });
        static_cast<T*>(out.data)[e] = static_cast<T>(dot);
      }
    }
  });
}

void sample_any(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  if (out.layout.dtype == DType::f64) sample<double>(out, row_starts, columns, a, b);
  else sample<float>(out, row_starts, columns, a, b);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(sample_any);

void csr_sampled_product(const View& out, const View& row_starts, const View& columns, const View& a, const View& b) {
  HWY_DYNAMIC_DISPATCH(sample_any)(out, row_starts, columns, a, b);
}

}  // namespace weft::cpu
#endif
