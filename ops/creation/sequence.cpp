#include "../sequence.hpp"

#include <cmath>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

template <class F>
Tensor from_formula(int64_t count, const TensorOptions& options, F&& value) {
  expect_at_least("count", count, 0);
  const DType dtype = options.dtype.value_or(default_dtype());
  if (options.device.type == DeviceType::meta) return empty(count, {dtype, options.device});
  const Tensor numbers = empty(count, DType::f64);
  auto* const data = static_cast<double*>(numbers.raw_view().data);
  for (int64_t i = 0; i < count; ++i) data[i] = value(i);
  const Tensor out = numbers.to(dtype).to(options.device);
  return options.requires_grad ? out.requires_grad_(true) : out;
}

// value(x) for x from 0 to 1 along the window.
template <class F>
Tensor window(int64_t length, bool periodic, const TensorOptions& options, F&& value) {
  if (const DType dtype = options.dtype.value_or(default_dtype()); !is_floating(dtype)) {
    raise_dtype("dtype", "a floating-point dtype", dtype);
  }
  const double last = static_cast<double>(length) - (periodic ? 0 : 1);
  return from_formula(length, options,
                      [&](int64_t i) { return length == 1 ? 1 : value(static_cast<double>(i) / last); });
}

double turn(double x) { return std::cos(2 * M_PI * x); }

// exp(-x) I0(x): the mean of exp(x (cos t - 1)) over a circle, on which the trapezoidal rule with n points is as good
// as exp(-n²/2x); from 1000 on Hankel's series.
double scaled_bessel(double x) {
  if (!(x < 1000)) {
    double term = 1, series = 1;
    for (int k = 1; k <= 8; ++k) series += term *= (2 * k - 1) * (2 * k - 1) / (8 * x * k);
    return series / std::sqrt(2 * M_PI * x);
  }
  const int n = 16 + static_cast<int>(9 * std::sqrt(x));
  double total = 0;
  for (int i = 0; i < n; ++i) {
    const double s = std::sin(M_PI * i / n);
    total += std::exp(-2 * x * s * s);
  }
  return total / n;
}

}  // namespace

Tensor logspace(Scalar from, Scalar to, int64_t count, double base, TensorOptions options, Location where) {
  const CallScope call("logspace", where);
  if (from.is_complex() || to.is_complex()) {
    options.dtype = options.dtype.value_or(complex_type(default_dtype()));
    const Tensor powers = pow(Operand(base), linspace(from, to, count, {DType::c128, options.device}));
    return powers.to(*options.dtype).requires_grad_(options.requires_grad);
  }
  const double first = from.to<double>(), last = to.to<double>();
  const double steps = static_cast<double>(count) - 1;
  return from_formula(count, options, [&](int64_t i) {
    const double share = count > 1 ? static_cast<double>(i) / steps : 0;
    return std::pow(base, i + 1 == count && count > 1 ? last : first + (last - first) * share);
  });
}

Tensor geomspace(double first, double last, int64_t count, TensorOptions options, Location where) {
  const CallScope call("geomspace", where);
  const bool fits = std::isfinite(first) && std::isfinite(last) && first != 0 && last != 0;
  if (!fits || (first < 0) != (last < 0)) {
    raise<ValueError>({.problem = fmt::format("no constant factor leads from {} to {}", first, last)});
  }
  const double steps = static_cast<double>(count) - 1;
  return from_formula(count, options, [&](int64_t i) {
    if (i == 0) return first;
    if (i + 1 == count) return last;
    const double share = static_cast<double>(i) / steps;
    return std::copysign(std::pow(std::fabs(first), 1 - share) * std::pow(std::fabs(last), share), first);
  });
}

Tensor hann_window(int64_t length, bool periodic, TensorOptions options, Location where) {
  const CallScope call("hann_window", where);
  return window(length, periodic, options, [](double x) { return 0.5 - 0.5 * turn(x); });
}
Tensor hamming_window(int64_t length, bool periodic, double alpha, double beta, TensorOptions options, Location where) {
  const CallScope call("hamming_window", where);
  return window(length, periodic, options, [&](double x) { return alpha - beta * turn(x); });
}
Tensor blackman_window(int64_t length, bool periodic, TensorOptions options, Location where) {
  const CallScope call("blackman_window", where);
  return window(length, periodic, options, [](double x) { return 0.42 - 0.5 * turn(x) + 0.08 * turn(2 * x); });
}
Tensor bartlett_window(int64_t length, bool periodic, TensorOptions options, Location where) {
  const CallScope call("bartlett_window", where);
  return window(length, periodic, options, [](double x) { return 1 - std::fabs(2 * x - 1); });
}
Tensor kaiser_window(int64_t length, bool periodic, double beta, TensorOptions options, Location where) {
  const CallScope call("kaiser_window", where);
  const double magnitude = std::fabs(beta), whole = scaled_bessel(magnitude);
  return window(length, periodic, options, [&](double x) {
    const double place = 2 * x - 1, at = magnitude * std::sqrt(std::fmax(0, 1 - place * place));
    return std::exp(at - magnitude) * scaled_bessel(at) / whole;
  });
}

namespace {

using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

Tensor call_logspace(Scalar start, Scalar end, int64_t steps, double base, MaybeType dtype, MaybeDevice device,
                     bool grad) {
  return logspace(start, end, steps, base, options_of(dtype, device, grad));
}
Tensor call_geomspace(double start, double end, int64_t steps, MaybeType dtype, MaybeDevice device, bool grad) {
  return geomspace(start, end, steps, options_of(dtype, device, grad));
}
using Window = Tensor (*)(int64_t, bool, TensorOptions, Location);
template <Window make>
Tensor call_window(int64_t length, bool periodic, MaybeType dtype, MaybeDevice device, bool grad) {
  return make(length, periodic, options_of(dtype, device, grad), {});
}
Tensor call_hamming(int64_t length, bool periodic, double alpha, double beta, MaybeType dtype, MaybeDevice device,
                    bool grad) {
  return hamming_window(length, periodic, alpha, beta, options_of(dtype, device, grad));
}
Tensor call_kaiser(int64_t length, bool periodic, double beta, MaybeType dtype, MaybeDevice device, bool grad) {
  return kaiser_window(length, periodic, beta, options_of(dtype, device, grad));
}

std::vector<Values> with_options(SampleMaker& make, std::vector<Values> samples) {
  for (Values& values : samples) {
    values.emplace_back(make.dtype());
    values.emplace_back(make.device().name());
  }
  return samples;
}
std::vector<Values> logspace_samples(SampleMaker& make) {
  return with_options(make, {{-1.0, 1.0, int64_t{5}, 2.0}, {0.5, 0.0, int64_t{1}, 10.0}, {0.0, 1.0, int64_t{0}, 3.0}});
}
std::vector<Values> geomspace_samples(SampleMaker& make) {
  return with_options(make, {{0.5, 8.0, int64_t{5}}, {-1.0, -2.0, int64_t{3}}, {1.0, 2.0, int64_t{0}}});
}
std::vector<Values> window_samples(SampleMaker& make) {
  return with_options(make, {{int64_t{6}, true}, {int64_t{5}, false}, {int64_t{1}, true}, {int64_t{0}, false}});
}
std::vector<Values> hamming_samples(SampleMaker& make) {
  return with_options(make, {{int64_t{6}, true, 0.54, 0.46}, {int64_t{5}, false, 0.6, 0.4}});
}
std::vector<Values> kaiser_samples(SampleMaker& make) {
  return with_options(make, {{int64_t{6}, true, 12.0}, {int64_t{5}, false, 3.0}, {int64_t{0}, true, 1.0}});
}

#define WEFT_OPTIONS "*, dtype=None, device=None, requires_grad=False)"
#define WEFT_WINDOW(op, document)                                                                        \
  {                                                                                                      \
#op "_window", #op "_window(window_length, periodic=True, " WEFT_OPTIONS, document, false, floating, \
        window_samples, parts::whole, detail::boxed < call_window < weft::op##_window>>                  \
  }

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"logspace", "logspace(start, end, steps, base=10.0, " WEFT_OPTIONS,
     "`steps` powers of base, their exponents equidistant from start to end, both included.", false, floating,
     logspace_samples, parts::whole, detail::boxed<call_logspace>},
    {"geomspace", "geomspace(start, end, steps|num, " WEFT_OPTIONS,
     "`steps` numbers from start to end, both included, each the same multiple of the one before.", false, floating,
     geomspace_samples, parts::whole, detail::boxed<call_geomspace>},
    WEFT_WINDOW(hann, "(1 - cos(2 pi n / N)) / 2."),
    WEFT_WINDOW(blackman, "0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."),
    WEFT_WINDOW(bartlett, "1 - |2 n / N - 1|."),
    {"hamming_window", "hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, " WEFT_OPTIONS,
     "alpha - beta cos(2 pi n / N).", false, floating, hamming_samples, parts::whole, detail::boxed<call_hamming>},
    {"kaiser_window", "kaiser_window(window_length, periodic=True, beta=12.0, " WEFT_OPTIONS,
     "I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta) with the modified Bessel function I0 (Kaiser 1974).", false,
     floating, kaiser_samples, parts::whole, detail::boxed<call_kaiser>},
};
#undef WEFT_WINDOW
#undef WEFT_OPTIONS

}  // namespace

std::span<const OpRecord> sequence_records() { return records; }

}  // namespace weft
