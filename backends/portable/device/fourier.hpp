// Discrete Fourier transforms by stages of small radices, in natural order (Stockham), and of other lengths as
// convolutions (Bluestein 1970).
#pragma once

#include "device.hpp"

namespace weft::portable {

template <class C>
struct ComplexNumber {
  C re, im;
};

template <class C>
WEFT_DEVICE ComplexNumber<C> complex_number(C re, C im) {
  ComplexNumber<C> z;
  z.re = re;
  z.im = im;
  return z;
}
template <class C>
WEFT_DEVICE ComplexNumber<C> plus(ComplexNumber<C> a, ComplexNumber<C> b) {
  return complex_number(a.re + b.re, a.im + b.im);
}
template <class C>
WEFT_DEVICE ComplexNumber<C> minus(ComplexNumber<C> a, ComplexNumber<C> b) {
  return complex_number(a.re - b.re, a.im - b.im);
}
template <class C>
WEFT_DEVICE ComplexNumber<C> times(ComplexNumber<C> a, ComplexNumber<C> b) {
  return complex_number(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <class C>
WEFT_DEVICE ComplexNumber<C> conjugate(ComplexNumber<C> a) {
  return complex_number(a.re, -a.im);
}

template <class C>
WEFT_DEVICE ComplexNumber<C> complex_at(In p, int64_t i) {
  const In at = p + i * 2 * (int64_t)sizeof(C);
  return complex_number(peek<C>(at), peek<C>(at + sizeof(C)));
}
template <class C>
WEFT_DEVICE void put_complex(Out p, int64_t i, ComplexNumber<C> z) {
  const Out at = p + i * 2 * (int64_t)sizeof(C);
  poke(at, z.re);
  poke(at + sizeof(C), z.im);
}

/// exp(-2 pi i k / n) for 0 <= k < n, by an angle in the first eighth of the circle.
template <class C>
WEFT_DEVICE ComplexNumber<C> root_of_unity(int64_t k, int64_t n) {
  const int64_t eighth = quotient(8 * k, n), rest = 8 * k - eighth * n;
  const C angle = (C)((eighth & 1) != 0 ? n - rest : rest) / (C)n * (C)0.78539816339744830962;
  const C small = sin(angle), large = cos(angle);
  // By bits: of comparisons LLVM makes a switch, which its translator to SPIR-V gets wrong.
  const bool swapped = ((eighth + 1) & 2) != 0;
  const C re = swapped ? small : large, im = swapped ? large : small;
  return complex_number(((eighth + 2) & 4) != 0 ? -re : re, (eighth & 4) != 0 ? im : -im);
}

// ---- operands -------------------------------------------------------------------------------------------------------

/// Where a line of out and of in begins, in bytes.
struct LineOffsets {
  int64_t out, in;
};
WEFT_DEVICE LineOffsets line_offsets(const Fourier& plan, int64_t line) {
  int64_t offset[2];
  offsets_at(plan.rows.walk, plan.first_line + line, offset);
  LineOffsets found;
  found.out = offset[0];
  found.in = offset[1];
  return found;
}

template <class C>
WEFT_DEVICE ComplexNumber<C> number_of_operand(In line, const Fourier& plan, int64_t i) {
  const bool halved = plan.form[1] == fourier_half, mirrored = halved && i > plan.n / 2;
  const In at = line + (mirrored ? plan.n - i : i) * plan.rows.step[1];
  const bool is_real = plan.form[1] == fourier_real || (halved && (i == 0 || 2 * i == plan.n));
  const C re = peek<C>(at), im = is_real ? (C)0 : peek<C>(at + sizeof(C));
  return complex_number(re, mirrored != (plan.conjugate != 0) ? -im : im);
}

template <class C>
WEFT_DEVICE void put_in_operand(Out line, const Fourier& plan, int64_t i, ComplexNumber<C> z) {
  if (plan.form[0] == fourier_half && i > plan.n / 2) return;
  const Out at = line + i * plan.rows.step[0];
  poke(at, z.re);
  if (plan.form[0] != fourier_real) poke(at + sizeof(C), plan.conjugate != 0 ? -z.im : z.im);
}

// ---- stages ---------------------------------------------------------------------------------------------------------

/// x transformed, of R numbers; step-th roots are those of R.
template <class C, int R>
struct SmallTransform {
  static WEFT_DEVICE void run(ComplexNumber<C> (&x)[R], In roots, int64_t step) {
    ComplexNumber<C> y[R];
    WEFT_UNROLL
    for (int j = 0; j < R; ++j) {
      y[j] = x[0];
      WEFT_UNROLL
      for (int k = 1; k < R; ++k) y[j] = plus(y[j], times(x[k], complex_at<C>(roots, j * k % R * step)));
    }
    WEFT_UNROLL
    for (int j = 0; j < R; ++j) x[j] = y[j];
  }
};
/// By halves, for powers of two.
template <class C, int R>
struct HalvedTransform {
  static WEFT_DEVICE void run(ComplexNumber<C> (&x)[R], In roots, int64_t step) {
    ComplexNumber<C> even[R / 2], odd[R / 2];
    WEFT_UNROLL
    for (int k = 0; k < R / 2; ++k) {
      even[k] = x[2 * k];
      odd[k] = x[2 * k + 1];
    }
    HalvedTransform<C, R / 2>::run(even, roots, 2 * step);
    HalvedTransform<C, R / 2>::run(odd, roots, 2 * step);
    WEFT_UNROLL
    for (int k = 0; k < R / 2; ++k) {
      if (k != 0) odd[k] = times(odd[k], complex_at<C>(roots, k * step));
      x[k] = plus(even[k], odd[k]);
      x[k + R / 2] = minus(even[k], odd[k]);
    }
  }
};
template <class C>
struct HalvedTransform<C, 1> {
  static WEFT_DEVICE void run(ComplexNumber<C> (&)[1], In, int64_t) {}
};

template <class C, int R, class Transform>
WEFT_DEVICE void fourier_butterfly(Out out, In in, In roots, const FourierStage& stage, C factor, int64_t item) {
  const Fourier& plan = stage.lines;
  const int64_t share = plan.n / R, line = quotient(item, share), t = item - line * share;
  const int64_t block = quotient(t, stage.span), first = line * plan.n;
  LineOffsets offsets = {0, 0};
  if (stage.reads_operand != 0 || stage.writes_operand != 0) offsets = line_offsets(plan, line);
  ComplexNumber<C> x[R];
  WEFT_UNROLL
  for (int k = 0; k < R; ++k) {
    const int64_t i = t + k * share;
    x[k] = stage.reads_operand != 0 ? number_of_operand<C>(in + offsets.in, plan, i) : complex_at<C>(in, first + i);
  }
  Transform::run(x, roots, share);
  const int64_t to = t + block * stage.span * (R - 1);
  WEFT_UNROLL
  for (int j = 0; j < R; ++j) {
    if (block * j != 0) x[j] = times(x[j], complex_at<C>(roots, block * j * stage.span));
    const int64_t i = to + j * stage.span;
    if (stage.writes_operand != 0) {
      put_in_operand(out + offsets.out, plan, i, complex_number(x[j].re * factor, x[j].im * factor));
    } else {
      put_complex<C>(out, first + i, x[j]);
    }
  }
}

template <class C>
WEFT_DEVICE void fourier_stage_item(Out out, In in, In roots, const FourierStage& stage, C factor, int64_t item) {
  if (item >= stage.lines.lines * (stage.lines.n / stage.radix)) return;
  switch (stage.radix) {
    case 1:
      return fourier_butterfly<C, 1, HalvedTransform<C, 1>>(out, in, roots, stage, factor, item);
    case 2:
      return fourier_butterfly<C, 2, HalvedTransform<C, 2>>(out, in, roots, stage, factor, item);
    case 4:
      return fourier_butterfly<C, 4, HalvedTransform<C, 4>>(out, in, roots, stage, factor, item);
    case 8:
      return fourier_butterfly<C, 8, HalvedTransform<C, 8>>(out, in, roots, stage, factor, item);
    case 3:
      return fourier_butterfly<C, 3, SmallTransform<C, 3>>(out, in, roots, stage, factor, item);
    case 5:
      return fourier_butterfly<C, 5, SmallTransform<C, 5>>(out, in, roots, stage, factor, item);
    default:
      return fourier_butterfly<C, 7, SmallTransform<C, 7>>(out, in, roots, stage, factor, item);
  }
}

// ---- as a convolution -----------------------------------------------------------------------------------------------

/// exp(-pi i k² / n), of the roots of 2n.
template <class C>
WEFT_DEVICE ComplexNumber<C> chirp_at(In roots, int64_t k, int64_t n) {
  return complex_at<C>(roots, (int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * n)));
}

template <class C>
WEFT_DEVICE void chirp_item(Out out, In in, In roots, const FourierConvolution& plan, int64_t item) {
  if (item >= plan.lines.lines * plan.m) return;
  const int64_t line = quotient(item, plan.m), i = item - line * plan.m;
  ComplexNumber<C> z = complex_number((C)0, (C)0);
  if (i < plan.lines.n) {
    const In at = in + line_offsets(plan.lines, line).in;
    z = times(number_of_operand<C>(at, plan.lines, i), chirp_at<C>(roots, i, plan.lines.n));
  }
  put_complex(out, item, z);
}

template <class C>
WEFT_DEVICE void response_item(Out out, In roots, const FourierConvolution& plan, int64_t item) {
  if (item >= plan.m) return;
  const int64_t k = item < plan.lines.n ? item : plan.m - item;
  ComplexNumber<C> z = complex_number((C)0, (C)0);
  if (k < plan.lines.n) z = conjugate(chirp_at<C>(roots, k, plan.lines.n));
  put_complex(out, item, z);
}

template <class C>
WEFT_DEVICE void respond_item(Out lines, In response, const FourierConvolution& plan, int64_t item) {
  if (item >= plan.lines.lines * plan.m) return;
  const int64_t i = item - quotient(item, plan.m) * plan.m;
  put_complex(lines, item, conjugate(times(complex_at<C>(lines, item), complex_at<C>(response, i))));
}

template <class C>
WEFT_DEVICE void unchirp_item(Out out, In in, In roots, const FourierConvolution& plan, C factor, int64_t item) {
  if (item >= plan.lines.lines * plan.lines.n) return;
  const int64_t line = quotient(item, plan.lines.n), i = item - line * plan.lines.n;
  const ComplexNumber<C> found = conjugate(complex_at<C>(in, line * plan.m + i));
  const ComplexNumber<C> z = times(found, chirp_at<C>(roots, i, plan.lines.n));
  const Out at = out + line_offsets(plan.lines, line).out;
  put_in_operand(at, plan.lines, i, complex_number(z.re * factor, z.im * factor));
}

}  // namespace weft::portable
