// Numbers that follow a formula, 1-d: geometric sequences and windows for spectra. They are computed in f64 on the host
// and rounded once to the dtype of the options, the default one unless given. ValueError for a negative count; errors
// of dtypes and devices as in <weft/ops/create.hpp>.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

/// `count` powers of `base`, their exponents equidistant from first to last, both included; c64 where one of the
/// exponents is complex.
[[nodiscard]] WEFT_API Tensor logspace(Scalar first, Scalar last, int64_t count, double base = 10,
                                       TensorOptions options = {}, Location where = {});
/// `count` numbers from first to last, both included, each the same multiple of the one before. ValueError unless both
/// are finite, not 0 and of one sign.
[[nodiscard]] WEFT_API Tensor geomspace(double first, double last, int64_t count, TensorOptions options = {},
                                        Location where = {});

// Windows of `length` samples. Periodic ones are the first `length` of a window of length + 1, so that the next period
// follows without a repeated sample. A window of length 1 is 1. DTypeError unless the dtype is floating.

/// (1 - cos(2 pi n / N)) / 2. All windows raise ValueError for a negative length.
[[nodiscard]] WEFT_API Tensor hann_window(int64_t length, bool periodic = true, TensorOptions options = {},
                                          Location where = {});
/// alpha - beta cos(2 pi n / N)
[[nodiscard]] WEFT_API Tensor hamming_window(int64_t length, bool periodic = true, double alpha = 0.54,
                                             double beta = 0.46, TensorOptions options = {}, Location where = {});
/// 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)
[[nodiscard]] WEFT_API Tensor blackman_window(int64_t length, bool periodic = true, TensorOptions options = {},
                                              Location where = {});
/// 1 - |2 n / N - 1|
[[nodiscard]] WEFT_API Tensor bartlett_window(int64_t length, bool periodic = true, TensorOptions options = {},
                                              Location where = {});
/// I0(beta sqrt(1 - (2 n / N - 1)²)) / I0(beta) with the modified Bessel function I0 (Kaiser 1974).
[[nodiscard]] WEFT_API Tensor kaiser_window(int64_t length, bool periodic = true, double beta = 12,
                                            TensorOptions options = {}, Location where = {});

}  // namespace weft
