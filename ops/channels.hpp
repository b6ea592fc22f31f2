// Across the channels of [N, C, ...].
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// x / (k + alpha mean(x²))^beta with the mean over `size` channels around each, those beyond the first and the last
/// counting as 0 (Krizhevsky et al. 2012). x has rank 3 or more (else ShapeError) and is floating (else DTypeError);
/// 16-bit floats are computed in f32. ValueError for a size below 1.
[[nodiscard]] WEFT_API Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4,
                                                  double beta = 0.75, double k = 1, Location where = {});

/// The largest of each `groups` neighbouring elements along `axis` (Goodfellow et al. 2013): its size is divided by
/// groups. Of equal elements the first gets the gradient, and NaN wins. ValueError where groups does not divide the
/// size.
[[nodiscard]] WEFT_API Tensor maxout(const Tensor& x, int64_t groups, int axis = 1, Location where = {});

}  // namespace weft
