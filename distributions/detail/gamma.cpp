#include "gamma.hpp"

#include <cmath>

#include "kind.hpp"
#include "../../autograd/function.hpp"
#include "../../ops/axes.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/detail/gamma_draws.hpp"
#include "../../ops/distribution.hpp"

namespace weft::distributions::detail {

namespace {

/// A number with its first two derivatives with respect to a.
struct Jet {
  double v = 0, d = 0, dd = 0;
};
Jet operator+(const Jet& x, const Jet& y) { return {x.v + y.v, x.d + y.d, x.dd + y.dd}; }
Jet operator*(const Jet& x, const Jet& y) {
  return {x.v * y.v, x.d * y.v + x.v * y.d, x.dd * y.v + 2 * x.d * y.d + x.v * y.dd};
}
Jet reciprocal(const Jet& x) {
  const double r = 1 / x.v, slope = -r * r * x.d;
  return {r, slope, -r * r * x.dd - 2 * r * slope * x.d};
}
bool small_beside(const Jet& part, const Jet& whole) {
  const double fraction = 1e-17;
  return std::fabs(part.v) <= fraction * std::fabs(whole.v) && std::fabs(part.d) <= fraction * std::fabs(whole.d) &&
         std::fabs(part.dd) <= fraction * std::fabs(whole.dd);
}

double polygamma_at(int n, double x) {  // n is 0 or 1; x above 0
  double sum = 0;
  for (; x < 12; ++x) sum += n == 0 ? -1 / x : 1 / (x * x);
  const double s = 1 / (x * x);
  if (n == 0) {
    return sum + std::log(x) - 0.5 / x -
           s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * 691.0 / 32760)))));
  }
  return sum + 1 / x + 0.5 * s +
         s / x * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66 - s * 691.0 / 2730)))));
}

/// Sum in P(a, x) = x^a exp(-x) / Γ(a + 1) · Σ x^n / ((a + 1) … (a + n)) (DLMF 8.7.1), for x below a + 1.
Jet lower_series(double a, double x) {
  Jet sum{1}, term{1};
  for (int n = 1; n < 100000; ++n) {
    const double down = 1 / (a + n), factor = x * down;
    term = term * Jet{factor, -factor * down, 2 * factor * down * down};
    sum = sum + term;
    if (small_beside(term, sum)) break;
  }
  return sum;
}

/// Continued fraction in Q(a, x) = x^a exp(-x) / Γ(a) · fraction (DLMF 8.9.2, by Lentz), for x from a + 1 on.
Jet upper_fraction(double a, double x) {
  Jet b{x + 1 - a, -1}, c{1e300}, d = reciprocal(b), h = d;
  bool first = true;
  for (int i = 1; i < 100000; ++i) {
    const Jet numerator{-i * (i - a), static_cast<double>(i)};
    b.v += 2;
    d = reciprocal(numerator * d + b);
    c = first ? b : b + numerator * reciprocal(c);
    first = false;
    const Jet factor = c * d;
    h = h * factor;
    if (std::fabs(factor.v - 1) < 1e-16 && std::fabs(factor.d) < 1e-16 && std::fabs(factor.dd) < 1e-15) break;
  }
  return h;
}

/// dx/da at constant P(a, x), and its partial derivatives with respect to a and x.
struct Slope {
  double value, by_a, by_x;
};
Slope slope_of(double a, double x) {
  Slope slope;
  if (!(a > 0) || !std::isfinite(a) || !std::isfinite(x)) return {NAN, NAN, NAN};
  if (a > 1e6) {  // Wilson and Hilferty 1931: x = a (1 - w + z √w)³ with w = 1 / (9 a) at constant z
    const double w = 1 / (9 * a), r = std::cbrt(x / a), highest = r * r * (1 + w), least = 0.5 * r * r * r;
    return {1.5 * highest - least, (least - highest - 1.5 * r * r * w) / a, (highest - least) / x};
  }
  if (x < a + 1) {
    const Jet s = lower_series(a, x);
    const double lead = std::log(x) - polygamma_at(0, a + 1), scale = -x / a, inner = lead * s.v + s.d;
    slope.value = scale * inner;
    slope.by_a = x / (a * a) * inner + scale * (lead * s.d - polygamma_at(1, a + 1) * s.v + s.dd);
  } else {
    const Jet h = upper_fraction(a, x);
    const double lead = std::log(x) - polygamma_at(0, a);
    slope.value = x * (lead * h.v + h.d);
    slope.by_a = x * (lead * h.d - polygamma_at(1, a) * h.v + h.dd);
  }
  // The rest follows from the mixed derivatives of log P: G = -F_a / F_x, so G_x = -(log p)_a - G (log p)_x.
  const double log_density_by_x = (a - 1) / x - 1;
  slope.by_x = -(std::log(x) - polygamma_at(0, a)) - slope.value * log_density_by_x;
  return slope;
}

/// As slope_of for y = log x: dy/da, and its partial derivatives with respect to a and y.
Slope log_slope_of(double a, double y) {
  if (!(a > 0) || !std::isfinite(a) || !std::isfinite(y)) return {NAN, NAN, NAN};
  constexpr double least = -600;  // below this P(a, x) is x^a / Γ(a + 1) to the last digit
  if (y < least) {
    const double lead = y - polygamma_at(0, a + 1);
    return {-lead / a, lead / (a * a) + polygamma_at(1, a + 1) / a, -1 / a};
  }
  const double x = std::exp(y);
  const Slope slope = slope_of(a, x);
  return {slope.value / x, slope.by_a / x, slope.by_x - slope.value / x};
}

double lower_probability(double a, double x) {
  if (std::isnan(a) || std::isnan(x)) return NAN;
  if (x <= 0) return 0;
  if (std::isinf(x)) return 1;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  return x < a + 1 ? scale / a * lower_series(a, x).v : 1 - scale * upper_fraction(a, x).v;
}

/// f(a, x) of each pair of elements, not recorded, in the dtype and on the device of `like`.
template <class F>
Tensor on_host(const Tensor& a, const Tensor& x, F&& f) {
  const std::vector<double> as = a.detach().to_vector<double>(), xs = x.detach().to_vector<double>();
  const Tensor out = empty(x.shape(), {f64});
  auto* const numbers = static_cast<double*>(out.data_ptr());
  for (size_t i = 0; i < xs.size(); ++i) numbers[i] = f(as[i], xs[i]);
  return out.to(x.dtype()).to(x.device());
}

/// dx/da of draws x, by slope_of or log_slope_of.
template <Slope (*slope_at)(double, double)>
struct SlopeOfDraws : autograd::Function<SlopeOfDraws<slope_at>> {
  using Context = autograd::Context;
  static Tensor forward(Context& context, const Tensor& a, const Tensor& x) {
    context.save({a, x});
    return on_host(a, x, [](double shape, double draw) { return slope_at(shape, draw).value; });
  }
  static std::vector<Tensor> backward(Context& context, const Tensor& g) {
    if (grad_mode().enabled) {
      raise<NotImplementedError>({.problem = "draws of a gamma distribution have no third derivative"});
    }
    const Tensor a = context.saved(0), x = context.saved(1);
    const auto by = [&](double Slope::*part) {
      return on_host(a, x, [part](double shape, double draw) { return slope_at(shape, draw).*part; });
    };
    return {g * by(&Slope::by_a), g * by(&Slope::by_x)};
  }
};

using GammaSlope = SlopeOfDraws<slope_of>;
using LogGammaSlope = SlopeOfDraws<log_slope_of>;

/// draw(shapes), whose gradient by the shapes is that of the draws at a fixed probability.
template <Tensor (*draw)(const Tensor&, Generator*, Location), class Slope>
struct Draws : autograd::Function<Draws<draw, Slope>> {
  using Context = autograd::Context;
  static Tensor forward(Context& context, const Tensor& shapes, Generator* const& generator) {
    const Tensor x = draw(shapes, generator, {});
    context.save({shapes, x});
    return x;
  }
  static Tensor backward(Context& context, const Tensor& g) {
    return g * Slope::apply(context.saved(0), context.saved(1));
  }
};

using GammaDraws = Draws<standard_gamma, GammaSlope>;
using LogGammaDraws = Draws<log_standard_gamma, LogGammaSlope>;

struct GammaCdf : autograd::Function<GammaCdf> {
  static Tensor forward(Context& context, const Tensor& a, const Tensor& x) {
    context.save({a, x});
    return on_host(a, x, lower_probability);
  }
  static std::vector<Tensor> backward(Context& context, const Tensor& g) {
    const Tensor a = context.saved(0), x = context.saved(1);
    const Tensor density = exp(xlogy(a - 1, x) - x - lgamma(a));
    return {-g * density * GammaSlope::apply(a, x), g * density};
  }
};

}  // namespace

Tensor gamma_draws(const Tensor& shapes, Generator* generator) { return GammaDraws::apply(shapes, generator); }

Tensor log_gamma_draws(const Tensor& shapes, Generator* generator) { return LogGammaDraws::apply(shapes, generator); }

Tensor gamma_cdf(const Tensor& a, const Tensor& x) {
  const Tensor both[] = {a, x.to(a.dtype())};
  const std::vector<Tensor> wide = broadcast_tensors(both);
  return GammaCdf::apply(wide[0], wide[1]);
}

}  // namespace weft::distributions::detail
