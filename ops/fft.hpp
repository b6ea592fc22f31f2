// Discrete Fourier transforms, with PyTorch's names and normalisations: X[k] = sum over t of x[t] exp(-2 pi i k t / n).
//
// f32 and f64, and their complex dtypes; integers, bool and 16-bit floats are converted to f32. A length n beyond x's
// own pads with zeros, one below it leaves the rest out; ValueError for n < 1, IndexError for a dimension that x lacks,
// ShapeError where lists differ in length. All of them have gradients of any order, and give new tensors. Any length
// takes O(n log n): products of primes up to 31 directly (Stockham's autosort, split in two where one line is long,
// Bailey 1990), others as a convolution (Bluestein 1970). Devices without a kernel compute on the host.
#pragma once

#include "../tensor/index.hpp"

namespace weft::fft {

/// The divisor of a transform of n elements: n for the inverse, sqrt(n) for both directions, or n for the forward one.
enum class Norm : uint8_t { backward, ortho, forward };

struct Options {
  /// The length; x's own where it is left out. Of irfft and hfft it is that of the real result: 2 (size - 1) unless
  /// given.
  std::optional<int64_t> n = {};
  int dim = -1;
  Norm norm = Norm::backward;
};

/// Complex [..., n, ...] of real or complex x. Errors as above.
[[nodiscard]] WEFT_API Tensor fft(const Tensor& x, Options options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ifft(const Tensor& x, Options options = {}, Location where = {});
/// The first n / 2 + 1 elements of the transform of real x; the others are their conjugates. Raises DTypeError for
/// complex x.
[[nodiscard]] WEFT_API Tensor rfft(const Tensor& x, Options options = {}, Location where = {});
/// The real inverse of rfft. Reads the first n / 2 + 1 elements of x, and ignores the imaginary parts of x[0] and x[n /
/// 2]. Errors as above.
[[nodiscard]] WEFT_API Tensor irfft(const Tensor& x, Options options = {}, Location where = {});
/// The real transform of a signal with x[-t] = conj(x[t]), of which x is the first half; and its inverse. Errors as
/// above.
[[nodiscard]] WEFT_API Tensor hfft(const Tensor& x, Options options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ihfft(const Tensor& x, Options options = {}, Location where = {});

struct ManyOptions {
  /// The lengths along `dims`, -1 for x's own.
  std::optional<Dims> s = {};
  /// All dimensions, or the last ones that `s` speaks of, unless given; of the functions on 2 dimensions the last two.
  std::optional<Dims> dims = {};
  Norm norm = Norm::backward;
};

/// One transform after the other; of the real ones the last dimension is the one that is halved. ValueError for a
/// dimension named twice.
[[nodiscard]] WEFT_API Tensor fftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ifftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor rfftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor irfftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor hfftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ihfftn(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor fft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ifft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor rfft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor irfft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor hfft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ihfft2(const Tensor& x, const ManyOptions& options = {}, Location where = {});

/// The frequencies of the numbers of fft and of rfft, in cycles per unit of the spacing d. ValueError for n < 1.
[[nodiscard]] WEFT_API Tensor fftfreq(int64_t n, double d = 1, TensorOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor rfftfreq(int64_t n, double d = 1, TensorOptions options = {}, Location where = {});
/// x with frequency 0 in the middle of `dims` (all of them unless given), and the inverse. Any dtype. Raises IndexError
/// for a dimension that x lacks.
[[nodiscard]] WEFT_API Tensor fftshift(const Tensor& x, const std::optional<Dims>& dims = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ifftshift(const Tensor& x, const std::optional<Dims>& dims = {}, Location where = {});

}  // namespace weft::fft
