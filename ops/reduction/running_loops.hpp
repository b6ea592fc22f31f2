// Running products and extremes on the host, whose slices would be too many ops. Not public.
#pragma once

#include "../detail/common.hpp"

namespace weft {

/// Prefix products along `dim`; x and out are contiguous, on the CPU, and f32, f64, i64 or u64. Products of f32 are
/// carried in double, integers wrap.
void running_product(const Tensor& out, const Tensor& x, int dim);
/// log of the prefix sums of exp(x) along `dim`, carried in double; f32 or f64, else as above.
void running_log_sum_exp(const Tensor& out, const Tensor& x, int dim);
/// The extreme so far along `dim`, and the last index of it (i64); NaN wins. f32, f64 or integers, else as
/// above.
void running_extreme(const Tensor& out, const Tensor& index, const Tensor& x, int dim, bool largest);

}  // namespace weft
