// Statistics: reductions past NaN, moments, histograms, covariances. `dims`, `keepdim` and their errors are those of
// <weft/ops/reduce.hpp>. Results are new contiguous tensors.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

/// sum and mean of the elements that are not NaN: 0 and NaN where there are none, with the gradient 0 (PyTorch's mean
/// has NaN there). Dtypes and errors as sum and mean.
[[nodiscard]] WEFT_API Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                                     std::optional<DType> dtype = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keepdim = false,
                                      std::optional<DType> dtype = {}, Location where = {});

struct MinMax {
  Tensor min, max;
};
/// amin and amax, also of bool: of all elements, or along `dim`. Where NaN wins it gets the gradient; PyTorch gives NaN
/// to every element. Raises ValueError for no elements, IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API MinMax aminmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
                                      Location where = {});

struct DispersionAndMean {
  Tensor dispersion, mean;
};
/// var and mean; std and mean. Errors as var.
[[nodiscard]] WEFT_API DispersionAndMean var_mean(const Tensor& x, const Dims& dims = {}, double correction = 1,
                                                  bool keepdim = false, Location where = {});
[[nodiscard]] WEFT_API DispersionAndMean std_mean(const Tensor& x, const Dims& dims = {}, double correction = 1,
                                                  bool keepdim = false, Location where = {});

/// vector_norm(x - y, p), 0-d; x and y broadcast (else ShapeError). Raises ValueError if p is NaN.
[[nodiscard]] WEFT_API Tensor dist(const Tensor& x, const Tensor& y, double p = 2, Location where = {});
/// x with each slice along `dim` of p-norm above `maxnorm` scaled by maxnorm / (norm + 1e-7). ShapeError for rank 0 and
/// 1, ValueError unless p > 0 and maxnorm >= 0. DTypeError unless x is floating.
[[nodiscard]] WEFT_API Tensor renorm(const Tensor& x, double p, int dim, double maxnorm, Location where = {});

/// Covariances of the rows of x, each a variable: [rows, rows], 0-d for one. `fweights` (integers) count how often each
/// observation is there and `aweights` (floats) say how much it matters: 1-d, not negative (else ValueError). The
/// divisor is the weights' sum less `correction`, at least 0; with aweights (Galassi et al., GSL) correction is
/// multiplied by sum(w aweights) / sum(w). ShapeError for rank 3 and above, DTypeError for bool.
[[nodiscard]] WEFT_API Tensor cov(const Tensor& x, int64_t correction = 1, const Tensor& fweights = {},
                                  const Tensor& aweights = {}, Location where = {});
/// Pearson's correlations of the rows of x, limited to [-1, 1]. Errors as cov.
[[nodiscard]] WEFT_API Tensor corrcoef(const Tensor& x, Location where = {});

/// The number of elements in each of `bins` equal intervals of [low, high], in x's dtype. An interval includes its
/// lower end, and the last one its upper end; NaN is not counted. If low = high, the extremes of x are used. No
/// gradient. DTypeError unless x is floating, ValueError for bins < 1, for bounds out of order or not finite.
[[nodiscard]] WEFT_API Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0, double high = 0,
                                    Location where = {});

struct HistogramResult {
  Tensor hist, bin_edges;
};
struct HistogramOptions {
  /// The outer edges; the extremes of x where they are left out.
  std::optional<std::pair<double, double>> range = {};
  /// The weight of each element, in x's shape and dtype (ShapeError, DTypeError).
  Tensor weight = {};
  /// Normalises the result to a density with integral 1 over the bins.
  bool density = false;
};
/// histc with its edges: [bins] and [bins + 1], in x's dtype. Raises DTypeError unless x is floating, and the errors of
/// histc.
[[nodiscard]] WEFT_API HistogramResult histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {},
                                                 Location where = {});
/// The same between given edges, ascending and of x's dtype, 1-d (else ShapeError).
[[nodiscard]] WEFT_API HistogramResult histogram(const Tensor& x, const Tensor& edges,
                                                 const HistogramOptions& options = {}, Location where = {});

}  // namespace weft
