// Short-time Fourier transforms: those of windows that slide over a signal.
#include "../stft.hpp"

#include <cmath>

#include "../../tensor/checked.hpp"
#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../detail/padding.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../fft.hpp"
#include "../pad.hpp"
#include "../pointwise.hpp"
#include "../rearrange.hpp"
#include "../reduce.hpp"
#include "../index.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

struct Frames {
  int64_t n, hop;
  Tensor window;  // [n]
};

Frames frames_of(int64_t n_fft, const StftOptions& o, DType dtype, Device device) {
  const int64_t hop = o.hop_length.value_or(n_fft / 4), length = o.win_length.value_or(n_fft);
  if (n_fft < 1 || hop < 1 || length < 1 || length > n_fft) {
    raise<ValueError>(
        {.problem = fmt::format("windows of {} numbers, {} apart, for transforms of {}", length, hop, n_fft),
         .remedy = "1 <= win_length <= n_fft and hop_length >= 1"});
  }
  Tensor window = o.window;
  if (!window.defined()) {
    window = ones({length}, {dtype, device});
  } else {
    refuse_complex(window);
    if (window.dim() != 1 || window.size(0) != length) {
      raise<ShapeError>({.problem = fmt::format("a window of shape {} for {} numbers", window.shape().text(), length)});
    }
    check_same_device({&window});
    window = window.to(dtype);
  }
  const int64_t before = (n_fft - length) / 2;
  if (length < n_fft) window = pad(window, {before, n_fft - length - before});
  return {n_fft, hop, window};
}

// The operand in the dtype of its product with the window.
Tensor with_dtype_of(const Tensor& x, const Tensor& window) {
  return window.defined() ? x.to(promote(x.dtype(), window.dtype())) : x;
}

double scale_of(const StftOptions& o, int64_t n) { return o.normalized ? 1 / std::sqrt(static_cast<double>(n)) : 1; }

}  // namespace

Tensor stft(const Tensor& given, int64_t n_fft, const StftOptions& o, Location where) {
  const CallScope call("stft", where);
  const Tensor x = with_dtype_of(is_inexact(checked(given).dtype()) ? given : given.to(default_dtype()), o.window);
  const bool complex_signal = is_complex(x.dtype());
  expect_shape("x", x, x.dim() == 1 || x.dim() == 2, "[length] or [batch, length]");
  const Frames frames = frames_of(n_fft, o, real_type(x.dtype()), x.device());
  const bool onesided = o.onesided.value_or(!complex_signal);
  if (onesided && complex_signal) {
    raise<ValueError>({.problem = "the transform of a complex signal has no second half to leave out"});
  }
  Tensor signal = x.dim() == 1 ? x.unsqueeze(0) : x;
  if (o.center) {
    const int64_t half = n_fft / 2;
    const auto padded = [&](const Tensor& part) { return pad(part.unsqueeze(1), {half, half}, o.pad_mode).squeeze(1); };
    signal =
        complex_signal ? complex(padded(real(signal).contiguous()), padded(imag(signal).contiguous())) : padded(signal);
  }
  if (signal.size(-1) < n_fft) {
    raise<ShapeError>({.problem = fmt::format("a signal of {} numbers has no window of {}", signal.size(-1), n_fft)});
  }
  const Tensor windows = signal.unfold(-1, n_fft, frames.hop) * frames.window;
  Tensor out = onesided ? fft::rfft(windows) : fft::fft(windows);
  if (o.normalized) out = out * scale_of(o, n_fft);
  out = out.transpose(-1, -2);
  return x.dim() == 1 ? out.squeeze(0) : out;
}

Tensor istft(const Tensor& given, int64_t n_fft, const StftOptions& o, Location where) {
  const CallScope call("istft", where);
  expect_dtype("x", given, is_complex(checked(given).dtype()), "a complex spectrum");
  const Tensor x = with_dtype_of(given, o.window);
  expect_shape("x", x, x.dim() == 2 || x.dim() == 3, "[frequencies, windows] or [batch, frequencies, windows]");
  const Frames frames = frames_of(n_fft, o, real_type(x.dtype()), x.device());
  const bool onesided = o.onesided.value_or(x.size(-2) != n_fft);
  const int64_t wanted = onesided ? n_fft / 2 + 1 : n_fft, count = x.size(-1);
  if (x.size(-2) != wanted || count == 0) {
    raise_shape("x", fmt::format("[..., {}, windows]", wanted), x);
  }
  const int64_t begin = o.center ? n_fft / 2 : 0;
  const Checked covered = Checked(n_fft) + Checked(frames.hop) * (count - 1),
                asked = Checked(begin) + o.length.value_or(0);
  if (!covered.fits() || !asked.fits()) {
    raise<ValueError>(
        {.problem = fmt::format("{} windows that are {} apart, or their length, exceed 64 bits", count, frames.hop)});
  }
  const Tensor spectrum = (x.dim() == 2 ? x.unsqueeze(0) : x).transpose(-1, -2);
  Tensor windows = onesided ? fft::irfft(spectrum, {.n = n_fft}) : fft::ifft(spectrum);
  if (!onesided && !o.return_complex) windows = real(windows);
  if (o.normalized) windows = windows * (1 / scale_of(o, n_fft));
  windows = windows * frames.window;
  const int64_t length = covered.value(), batch = windows.size(0);
  const TensorOptions indices{.dtype = DType::i64, .device = x.device()};
  const Tensor starts = arange(0, count, 1, indices) * frames.hop;
  const Tensor places = (starts.unsqueeze(1) + arange(0, n_fft, 1, indices)).reshape({-1});
  const auto overlapped = [&](const Tensor& pieces) {
    return index_add(zeros({pieces.size(0), length}, {pieces.dtype(), x.device()}), 1, places,
                     pieces.reshape({pieces.size(0), -1}));
  };
  Tensor signal = overlapped(windows.reshape({batch, -1}));
  const Tensor weight = overlapped(square(frames.window).expand({1, count, n_fft}));
  const int64_t end = o.length ? asked.value() : o.center ? length - n_fft / 2 : length;
  const int64_t last = std::min(end, length);
  if (begin >= last) raise<ShapeError>({.problem = "nothing is left of the signal without its edges"});
  const Tensor divisor = weight.narrow(1, begin, last - begin);
  check_elements([divisor] {
    if (is_meta(divisor) || all(divisor > 1e-11).item<bool>()) return;
    raise<ValueError>({.problem = "the windows leave places of the signal uncovered",
                       .remedy = "a smaller hop_length, a window without zeros at its ends, or center"});
  });
  signal = signal.narrow(1, begin, last - begin) / divisor;
  if (end > last) signal = pad(signal, {0, end - last});
  return x.dim() == 2 ? signal.squeeze(0) : signal;
}

namespace {

Tensor call_stft(const Tensor& x, int64_t n_fft, std::optional<int64_t> hop_length, std::optional<int64_t> win_length,
                 const Tensor& window, bool center, const std::string& pad_mode, bool normalized,
                 std::optional<bool> onesided, std::optional<bool> return_complex) {
  const Tensor spectrum = stft(x, n_fft,
                               {.hop_length = hop_length,
                                .win_length = win_length,
                                .window = window,
                                .center = center,
                                .pad_mode = padding_named(pad_mode),
                                .normalized = normalized,
                                .onesided = onesided});
  return return_complex == false ? view_as_real(spectrum) : spectrum;
}
Tensor call_istft(const Tensor& x, int64_t n_fft, std::optional<int64_t> hop_length, std::optional<int64_t> win_length,
                  const Tensor& window, bool center, bool normalized, std::optional<bool> onesided,
                  std::optional<int64_t> length, bool return_complex) {
  return istft(x, n_fft,
               {.hop_length = hop_length,
                .win_length = win_length,
                .window = window,
                .center = center,
                .normalized = normalized,
                .onesided = onesided,
                .length = length,
                .return_complex = return_complex});
}

std::vector<Values> stft_samples(SampleMaker& make) {
  return {{make.tensor({2, 12}), int64_t{4}},
          {make.tensor({11}), int64_t{5}, int64_t{2}, int64_t{3}, make.tensor({3}, 0.5, 1), false},
          {make.tensor({9}), int64_t{4}, int64_t{3}, {}, {}, true, "constant", true, false}};
}
std::vector<Values> istft_samples(SampleMaker& make) {
  const auto spectrum = [&](const Dims& shape) { return complex(make.tensor(shape), make.tensor(shape)); };
  return {{spectrum({2, 3, 5}), int64_t{4}},
          {spectrum({3, 4}), int64_t{5}, int64_t{2}, int64_t{5}, make.tensor({5}, 0.5, 1), true, true, {}, int64_t{7}}};
}

const OpRecord all_stft_records[] = {
    {"stft",
     "stft(x|input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', "
     "normalized=False, onesided=None, return_complex=None)",
     "The spectrum of each of the windows that slide over a signal: [..., frequencies, windows].", true,
     OpRecord::Domain::floating, stft_samples, parts::whole, detail::boxed<&call_stft>},
    {"istft",
     "istft(x|input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, "
     "onesided=None, "
     "length=None, return_complex=False)",
     "The signal whose stft is x, or comes nearest to it.", true, OpRecord::Domain::floating, istft_samples,
     parts::whole, detail::boxed<&call_istft>}};

}  // namespace

std::span<const OpRecord> stft_records() { return all_stft_records; }

}  // namespace weft
