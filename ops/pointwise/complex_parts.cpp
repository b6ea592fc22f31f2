// Complex arithmetic by components, for devices with kernels for real numbers only, and for ops that are composed on
// all devices. The gradient is that of the recorded ops.
//
// A conversion never drops an imaginary part: ops that need real operands convert them, and `to` raises. An op
// without a complex implementation therefore raises.
#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../masked.hpp"
#include "../pointwise.hpp"

namespace weft {

namespace {

struct Parts {
  Tensor re, im;
  explicit Parts(const Tensor& z) : re(real(z)), im(imag(z)) {}
};

// Divided by the larger part of b first, so that no square leaves the range; by 0 part by part.
Tensor quotient(const Parts& a, const Parts& b) {
  const Tensor size = maximum(abs(b.re), abs(b.im)), by_zero = size == 0, c = b.re / size, d = b.im / size;
  const Tensor divisor = c * b.re + d * b.im;
  return complex(weft::where(by_zero, a.re / size, (a.re * c + a.im * d) / divisor),
                 weft::where(by_zero, a.im / size, (a.im * c - a.re * d) / divisor));
}

Tensor product(const Parts& a, const Parts& b) { return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }

// The logarithm of the larger exponential and the quotient of both.
Tensor log_add_exp(const Tensor& x, const Tensor& y) {
  const Tensor re = real(x), below = re < real(y);
  const Tensor larger = weft::where(below, y, x), smaller = weft::where(below, x, y);
  const Tensor both_infinite = logical_and(isinf(re), re == real(y));
  return larger + log1p(exp(masked_fill(smaller - larger, both_infinite, 0)));
}

// sin(t) / t for t = pi x; near 0 by the series of (-1)^k / (2k + 1)! t^(2k), because its derivatives have no
// cancellation.
Tensor complex_sinc(const Tensor& x) {
  const Tensor t = x * 3.1415926535897932, is_small = abs(t) < 1;
  const Tensor z = square(masked_fill(t, logical_not(is_small), 0)), far = masked_fill(t, is_small, 1);
  Tensor series = ones_like(x);
  for (int k = 10; k > 0; --k) series = 1 - z * series / (2 * k * (2 * k + 1));
  return weft::where(is_small, series, sin(far) / far);
}

}  // namespace

Tensor by_parts(BinaryOp op, const Tensor& x, const Tensor& y) {
  constexpr double log2 = 0.69314718055994531;
  if (op == BinaryOp::logaddexp) return log_add_exp(x, y);
  if (op == BinaryOp::logaddexp2) return log_add_exp(x * log2, y * log2) / log2;
  const Parts a(x), b(y);
  switch (op) {
    case BinaryOp::mul:
      return product(a, b);
    case BinaryOp::div:
      return quotient(a, b);
    default:
      raise_complex(x.dtype());
  }
}

Tensor by_parts(UnaryOp op, const Tensor& x) {
  if (op == UnaryOp::sinc) return complex_sinc(x);
  if (op == UnaryOp::softsign) return x / (1 + abs(x));
  if (op == UnaryOp::tanhshrink) return x - tanh(x);
  const Parts z(x);
  switch (op) {
    case UnaryOp::neg:
      return complex(-z.re, -z.im);
    case UnaryOp::conj:
      return complex(z.re * 1, -z.im);
    case UnaryOp::square:
      return product(z, z);
    case UnaryOp::reciprocal:
      return quotient(Parts(ones_like(x)), z);
    case UnaryOp::exp:
      return polar(exp(z.re), z.im);
    case UnaryOp::log:
      return complex(log(hypot(z.re, z.im)), atan2(z.im, z.re));
    case UnaryOp::log1p:
      return complex(log1p(z.re * (2 + z.re) + square(z.im)) * 0.5, atan2(z.im, 1 + z.re));
    case UnaryOp::sqrt:
      return polar(sqrt(hypot(z.re, z.im)), atan2(z.im, z.re) * 0.5);
    case UnaryOp::sin:
      return complex(sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im));
    case UnaryOp::cos:
      return complex(cos(z.re) * cosh(z.im), -sin(z.re) * sinh(z.im));
    case UnaryOp::sinh:
      return complex(sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im));
    case UnaryOp::cosh:
      return complex(cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im));
    default:
      raise_complex(x.dtype());
  }
}

}  // namespace weft
