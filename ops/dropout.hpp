// Dropout of whole channels, dropout that keeps mean and variance, and a rectifier with random slopes. Each draws in
// training alone, from the generator or the default one of the tensor's device; otherwise, and with p = 0, dropout
// gives x itself. ValueError unless 0 <= p <= 1, DTypeError unless x is floating.
#pragma once

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// Zeroes each channel with probability p and scales the others by 1 / (1 - p) (Tompson et al. 2015). x is [C, L] or
/// [N, C, L] for dropout1d, [N, C, H, W] for dropout2d, [C, D, H, W] or [N, C, D, H, W] for dropout3d; as in PyTorch,
/// dropout2d takes the first dimension of [N, C, L] for a batch, too. ShapeError for other ranks.
[[nodiscard]] WEFT_API Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                                        Generator* generator = nullptr, Location where = {});
[[nodiscard]] WEFT_API Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                                        Generator* generator = nullptr, Location where = {});
[[nodiscard]] WEFT_API Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                                        Generator* generator = nullptr, Location where = {});

/// Sets each element (of feature_alpha_dropout each channel of x, of rank 2 or more) with probability p to the negative
/// saturation of selu. Then shifts and scales all elements to preserve mean 0 and variance 1 (Klambauer et al. 2017).
[[nodiscard]] WEFT_API Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                                            Generator* generator = nullptr, Location where = {});
[[nodiscard]] WEFT_API Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                                                    Generator* generator = nullptr, Location where = {});

/// x where it is above 0, else x times a slope: in training uniform in [lower, upper) for each element, else their mean
/// (Xu et al. 2015). ValueError unless lower <= upper.
[[nodiscard]] WEFT_API Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3,
                                    bool training = false, Generator* generator = nullptr, Location where = {});

}  // namespace weft
