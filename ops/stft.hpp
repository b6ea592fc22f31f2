// Short-time Fourier transforms: the spectrum of a signal around each of many moments, and the signal of such spectra
// (Griffin and Lim, Signal estimation from modified short-time Fourier transform, 1984).
#pragma once

#include "pad.hpp"

namespace weft {

struct StftOptions {
  /// From one window to the next; a quarter of n_fft unless given.
  std::optional<int64_t> hop_length = {};
  /// n_fft unless given; a shorter window is zero-padded on both sides.
  std::optional<int64_t> win_length = {};
  /// [win_length]; ones unless given.
  Tensor window = {};
  /// The middle of window t is the number t * hop_length: the signal is padded at both ends, in `pad_mode`.
  bool center = true;
  Padding pad_mode = Padding::reflect;
  /// Divided by sqrt(n_fft).
  bool normalized = false;
  /// The first n_fft / 2 + 1 frequencies alone: unless given where the signal is real, or the spectrum has as many.
  std::optional<bool> onesided = {};
  /// For istft: the length of the signal, which is zero-padded; by default the extent of the windows.
  std::optional<int64_t> length = {};
  /// Of istft without onesided: a complex signal.
  bool return_complex = false;
};

/// x [length] or [batch, length], real or complex, as complex [frequencies, windows], with the batch before, in the
/// dtype of the product of x and the window. ValueError for lengths that do not fit each other, ShapeError for a signal
/// shorter than n_fft.
[[nodiscard]] WEFT_API Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& options = {},
                                   Location where = {});
/// The signal with the stft x, or the least-squares estimate: inverse transforms of the windows are overlap-added and
/// divided by the sum of the squared windows. Raises ValueError if that sum is 0 anywhere.
[[nodiscard]] WEFT_API Tensor istft(const Tensor& x, int64_t n_fft, const StftOptions& options = {},
                                    Location where = {});

}  // namespace weft
