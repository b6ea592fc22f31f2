// torch::fft: discrete Fourier transforms.
#pragma once

#include <torch/types.h>

#include <weft/ops/fft.hpp>

namespace torch::fft {

namespace detail {
/// "backward", "ortho" or "forward". Raises Error for other names.
weft::fft::Norm norm(const optional<std::string_view>& name);
weft::fft::Options along(const optional<int64_t>& n, int64_t dim, const optional<std::string_view>& name);
weft::fft::ManyOptions along(const OptionalIntArrayRef& s, const OptionalIntArrayRef& dims,
                             const optional<std::string_view>& name);
}  // namespace detail

#define TORCH_TRANSFORM(name)                                                                                   \
  inline Tensor name(const Tensor& self, optional<int64_t> n = nullopt, int64_t dim = -1,                       \
                     optional<std::string_view> norm = nullopt) {                                               \
    return weft::fft::name(self, detail::along(n, dim, norm));                                                  \
  }                                                                                                             \
  inline Tensor name##n(const Tensor& self, OptionalIntArrayRef s = nullopt, OptionalIntArrayRef dim = nullopt, \
                        optional<std::string_view> norm = nullopt) {                                            \
    return weft::fft::name##n(self, detail::along(s, dim, norm));                                               \
  }                                                                                                             \
  inline Tensor name##2(const Tensor& self, OptionalIntArrayRef s = nullopt, OptionalIntArrayRef dim = nullopt, \
                        optional<std::string_view> norm = nullopt) {                                            \
    return weft::fft::name##2(self, detail::along(s, dim, norm));                                               \
  }
TORCH_TRANSFORM(fft)
TORCH_TRANSFORM(ifft)
TORCH_TRANSFORM(rfft)
TORCH_TRANSFORM(irfft)
TORCH_TRANSFORM(hfft)
TORCH_TRANSFORM(ihfft)
#undef TORCH_TRANSFORM

inline Tensor fftfreq(int64_t n, double d = 1, const TensorOptions& options = {}) {
  return weft::fft::fftfreq(n, d, options);
}
inline Tensor rfftfreq(int64_t n, double d = 1, const TensorOptions& options = {}) {
  return weft::fft::rfftfreq(n, d, options);
}
inline Tensor fftshift(const Tensor& self, OptionalIntArrayRef dim = nullopt) {
  return weft::fft::fftshift(self, detail::along(nullopt, dim, nullopt).dims);
}
inline Tensor ifftshift(const Tensor& self, OptionalIntArrayRef dim = nullopt) {
  return weft::fft::ifftshift(self, detail::along(nullopt, dim, nullopt).dims);
}

}  // namespace torch::fft
