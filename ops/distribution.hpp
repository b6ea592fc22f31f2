// Random numbers of other distributions. Generators, devices and dtypes as in <weft/ops/random.hpp>: the same seed
// gives the same numbers on every device, and how far an op advances its generator follows from its sizes alone. No
// gradient.
//
// poisson, standard_gamma, binomial and multinomial are drawn on the host, in f64, and wait for the device of their
// arguments; each result has its own counters, so that numbers that are thrown away do not shift the others.
#pragma once

#include <optional>

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// mean + deviation * z with z standard normal; both broadcast. DTypeError unless one of them is floating, ValueError
/// for a negative deviation, which waits for a device.
[[nodiscard]] WEFT_API Tensor normal(const Operand& mean, const Operand& deviation, Generator* generator = nullptr,
                                     Location where = {});
[[nodiscard]] WEFT_API Tensor normal(double mean, double deviation, const Dims& shape, TensorOptions options = {},
                                     Generator* generator = nullptr, Location where = {});
/// Integers in [low, high) in x's shape, dtype and device. ValueError as randint.
[[nodiscard]] WEFT_API Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Generator* generator = nullptr,
                                           Location where = {});

// These overwrite x and return it, with the errors of in-place writes in <weft/tensor/methods.hpp>. DTypeError unless x
// is floating (geometric_ takes integers, too).

/// Density rate exp(-rate x). ValueError unless rate > 0.
WEFT_API const Tensor& exponential_(const Tensor& x, double rate = 1, Generator* generator = nullptr,
                                    Location where = {});
/// The number of trials until one of probability p succeeds, 1 or more; at most the largest number of x's dtype.
/// ValueError unless 0 < p < 1.
WEFT_API const Tensor& geometric_(const Tensor& x, double p, Generator* generator = nullptr, Location where = {});
/// median + scale tan(pi (u - 1/2)) with u uniform. ValueError unless scale > 0.
WEFT_API const Tensor& cauchy_(const Tensor& x, double median = 0, double scale = 1, Generator* generator = nullptr,
                               Location where = {});
/// exp of a normal number. ValueError unless deviation > 0.
WEFT_API const Tensor& log_normal_(const Tensor& x, double mean = 1, double deviation = 2,
                                   Generator* generator = nullptr, Location where = {});

/// Counts of a Poisson distribution with the rate in each element (below 10 by inversion, else PTRS, Hörmann 1993), in
/// its dtype. ValueError for a negative rate, NaN or infinity.
[[nodiscard]] WEFT_API Tensor poisson(const Tensor& rates, Generator* generator = nullptr, Location where = {});
/// Density x^(alpha - 1) exp(-x) / Gamma(alpha) with the shape in each element (Marsaglia and Tsang 2000), in its
/// dtype, 0 excepted: at least the smallest normal number. ValueError for a negative shape, NaN or infinity.
[[nodiscard]] WEFT_API Tensor standard_gamma(const Tensor& shapes, Generator* generator = nullptr, Location where = {});
/// How many of `count` trials of probability p succeed (by inversion, or BTRS, Hörmann 1993); both broadcast and have
/// one floating dtype (else DTypeError). ValueError where a count is negative, NaN or infinite or p outside [0, 1].
/// Fractions of a count are left out.
[[nodiscard]] WEFT_API Tensor binomial(const Tensor& count, const Tensor& p, Generator* generator = nullptr,
                                       Location where = {});

/// i64 [..., samples]: positions in the last dimension of `weights` [n] or [m, n] (else ShapeError), chosen in
/// proportion to them. Without replacement each is chosen once at most (by exponential keys, Efraimidis and Spirakis
/// 2006). ValueError for no samples, without replacement more than a row has weights above 0, a weight that is negative
/// or not finite, and a row without any positive weight. DTypeError unless the weights are floating.
[[nodiscard]] WEFT_API Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement = false,
                                          Generator* generator = nullptr, Location where = {});

}  // namespace weft
