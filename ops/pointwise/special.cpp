#include "../special.hpp"

#include <cmath>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr double pi = 3.1415926535897932, infinity = __builtin_inf();

// ---- polygamma ------------------------------------------------------------------------------------------------------

// The sum of (x + k)^-s over k from 0, for s above 1 and x above 0 (Euler and Maclaurin; DLMF 25.11.28).
Tensor hurwitz_zeta(double s, const Tensor& x) {
  // B_2j / (2j)!
  constexpr double bernoulli[] = {8.3333333333333333e-02,  -1.3888888888888889e-03, 3.3068783068783069e-05,
                                  -8.2671957671957672e-07, 2.0876756987868099e-08,  -5.2841901386874932e-10,
                                  1.3382536530684679e-11,  -3.3896802963225829e-13};
  const int terms = 9 + static_cast<int>(std::min(s, 1e3));
  Tensor sum = pow(x, -s);
  for (int k = 1; k < terms; ++k) sum = sum + pow(x + double(k), -s);
  const Tensor w = x + double(terms), last = pow(w, -s);
  sum = sum + last * w / (s - 1) + 0.5 * last;
  Tensor power = last / w;
  double rising = s;  // s (s + 1) … (s + 2j - 2)
  for (size_t j = 0; j < std::size(bernoulli); ++j) {
    sum = sum + power * (bernoulli[j] * rising);
    power = power / (w * w);
    const double next = s + 2 * static_cast<double>(j);
    rising *= (next + 1) * (next + 2);
  }
  return sum;
}

// The n-th derivative of cot(pi x): pi^n P(cot(pi x)), where P begins as c and becomes -(1 + c²) P'(c).
Tensor cotangent_derivative(int64_t n, const Tensor& x) {
  std::vector<double> p = {0, 1};
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> next(p.size() + 1, 0.0);
    for (size_t k = 1; k < p.size(); ++k) {
      next[k - 1] -= pi * static_cast<double>(k) * p[k];
      next[k + 1] -= pi * static_cast<double>(k) * p[k];
    }
    p = std::move(next);
  }
  const Tensor c = 1.0 / tan(pi * (x - round(x)));
  Tensor sum = full_like(c, p.back());
  for (size_t k = p.size() - 1; k-- > 0;) sum = sum * c + p[k];
  return sum;
}

// By (-1)^n psi(1 - x) - psi(x) = pi D(x) below 0, where psi and D are the n-th derivatives of digamma and cot(pi x).
Tensor polygamma_values(int64_t n, const Tensor& x) {
  const double sign = n % 2 == 0 ? 1 : -1, order = static_cast<double>(n);
  const Tensor below = x < 0.0;
  const Tensor right = hurwitz_zeta(order + 1, where(below, 1.0 - x, x)) * (-sign * std::tgamma(order + 1));
  const bool looks = !is_meta(x) && detail::capture_recorder == nullptr;
  if (looks && !any(below).item<bool>()) return where(x == 0.0, -sign * infinity, right);
  const Tensor left = sign * right - pi * cotangent_derivative(n, x);
  const Tensor at_pole = logical_and(x <= 0.0, x == floor(x));
  return where(at_pole, -sign * infinity, where(below, left, right));
}

std::vector<Values> polygamma_samples(SampleMaker& make) {
  return {{int64_t{1}, make.tensor({2, 3}, 0.3, 4)},
          {int64_t{0}, make.tensor({3}, 0.3, 4)},
          {int64_t{2}, make.tensor({2, 1}, 0.5, 6)},
          {int64_t{3}, make.tensor({4}, -1.7, -1.2)},
          {int64_t{1}, make.tensor({0, 2})}};
}
std::vector<Values> mvlgamma_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 2, 5), int64_t{3}}, {make.tensor({}, 1, 3), int64_t{1}}, {make.tensor({0}), int64_t{2}}};
}

// ---- the parts of a number ------------------------------------------------------------------------------------------

DType bits_of(DType dtype) {
  if (dtype == DType::f64) return DType::i64;
  return dtype == DType::f32 ? DType::i32 : DType::i16;
}

std::vector<Tensor> call_frexp(const Operand& x) {
  auto [mantissa, exponent] = frexp(x);
  return {mantissa, exponent};
}

std::vector<Values> frexp_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -9, 9)}, {make.tensor({}, 1, 3)}, {make.tensor({0, 2})}};
}
std::vector<Values> nextafter_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 3), make.tensor({3}, -3, 3)},
          {make.tensor({}, -3, 3), make.tensor({2}, -3, 3)},
          {make.tensor({0, 2}), make.tensor({2})}};
}
std::vector<Values> positive_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 3)}, {make.tensor({})}, {make.tensor({0, 2})}};
}
std::vector<Values> bitwise_not_samples(SampleMaker& given) {
  SampleMaker make = of_integers(given);
  return positive_samples(make);
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"polygamma", "polygamma(n, x)", "The n-th derivative of digamma.", true, floating, polygamma_samples,
     parts::pointwise, detail::boxed<&weft::polygamma>},
    {"mvlgamma", "mvlgamma(x, p)", "The logarithm of the gamma function of p dimensions.", true, floating,
     mvlgamma_samples, parts::pointwise, detail::boxed<&weft::mvlgamma>},
    {"nextafter", "nextafter(a, b|other)",
     "The next number after a in the direction of b; it moves as a does, and as b where both are equal.", true,
     floating, nextafter_samples, parts::pointwise, detail::boxed<&weft::nextafter>},
    {"frexp", "frexp(x) -> (mantissa, exponent)", "x = mantissa * 2 ** exponent, with 1/2 <= |mantissa| < 1.", true,
     floating, frexp_samples, parts::pointwise, detail::boxed<&call_frexp>},
    {"positive", "positive(x)", "x itself.", true, OpRecord::Domain::numeric, positive_samples, parts::copy,
     detail::boxed<&weft::positive>},
    {"bitwise_not",
     "bitwise_not(x)",
     "Every bit turned over; not, for bool.",
     false,
     OpRecord::Domain::any,
     bitwise_not_samples,
     parts::pointwise,
     detail::boxed<&weft::bitwise_not>,
     {.unary = weft::bitwise_not, .unary_in_place = weft::bitwise_not_}},
};

}  // namespace

std::span<const OpRecord> special_records() { return records; }

Tensor polygamma(int64_t n, const Operand& operand) {
  const CallScope call("polygamma", operand.where);
  constexpr int64_t limit = 170;  // n! is a double up to here
  expect_range("n", n, 0, limit);
  if (n == 0) return digamma(operand);
  const Tensor x = floating_point(operand.tensor());
  Tensor y;
  {
    const NoGradGuard unrecorded;
    const DType wide = x.device().is_cpu() ? DType::f64 : compute_type(x.dtype());
    y = polygamma_values(n, x.to(wide)).to(x.dtype());
  }
  if (should_record(x)) {
    record(
        y, [n, saved = Saved(x)](Node& self, Tensor&& g) { return g * polygamma(n + 1, saved.get(self)); }, x);
  }
  return y;
}

Tensor mvlgamma(const Operand& operand, int64_t p) {
  const CallScope call("mvlgamma", operand.where);
  constexpr int64_t limit = 4096;
  expect_range("p", p, 1, limit);
  const Tensor x = floating_point(operand.tensor());
  Tensor sum = lgamma(x);
  for (int64_t j = 1; j < p; ++j) sum = sum + lgamma(x - 0.5 * static_cast<double>(j));
  const double order = static_cast<double>(p);
  const Tensor result = sum + order * (order - 1) / 4 * std::log(pi);
  return where(x > 0.5 * (order - 1), result, std::numeric_limits<double>::quiet_NaN());
}

namespace {

Tensor number_after(const Tensor& first, const Tensor& to, DType dtype) {
  const NoGradGuard unrecorded;
  const Tensor from = first.contiguous();
  const auto kernel = kernels(from.raw_view()).nextafter;
  const auto shape = broadcast(from.sizes(), to.sizes());
  if (kernel != nullptr && compute_type(dtype) == dtype && from.device() == to.device() && shape) {
    const Tensor x = from.expand(*shape).contiguous(), y = to.expand(*shape).contiguous(), out = make_like(x);
    kernel(out.raw_view(), x.raw_view(), y.raw_view());
    return out;
  }
  const DType whole = bits_of(dtype);
  // Bits of numbers of one sign are in the order of their sizes.
  const Tensor outwards = (from < to) == (from > 0.0);
  const Tensor step = where(outwards, ones({}, {whole, from.device()}), full({}, -1, {whole, from.device()}));
  const Tensor moved = (from.view_bytes(whole) + step).view_bytes(dtype);
  const Tensor smallest = full({}, 1, {whole, from.device()}).view_bytes(dtype);
  const Tensor off_zero = where(to > 0.0, smallest, -smallest);
  const Tensor next = where(from == to, to, where(from == 0.0, off_zero, moved));
  return where(logical_or(isnan(from), isnan(to)), std::numeric_limits<double>::quiet_NaN(), next);
}

// The result moves with a, but where a and b are equal, it is b.
struct StepBackward {
  Saved equal;
  Dims a_shape, b_shape;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor same = equal.get(self), &g = incoming[0];
    if (self.wants(0)) outgoing[0] = sum_to(masked_fill(g, same, 0), a_shape);
    if (self.wants(1)) outgoing[1] = sum_to(masked_fill(g, logical_not(same), 0), b_shape);
  }
};

}  // namespace

Tensor nextafter(const Operand& a, const Operand& b) {
  const CallScope call("nextafter", a.where);
  checked(a.tensor()), checked(b.tensor());
  const DType dtype = result_type(a, b);
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise<DTypeError>({.problem = fmt::format("there is no next number of {}", name(dtype)),
                       .remedy = "convert to a floating-point dtype"});
  }
  const Tensor first = a.tensor().to(dtype), second = b.tensor().to(dtype);
  const Tensor next = number_after(first, second, dtype);
  if (should_record(first, second))
    record(next, StepBackward{Saved(first == second), first.shape(), second.shape()}, first, second);
  return next;
}

MantissaAndExponent frexp(const Operand& operand) {
  const CallScope call("frexp", operand.where);
  const Tensor x = floating_point(operand.tensor());
  const DType wide = compute_type(x.dtype()), whole = bits_of(wide);
  const int bits = wide == DType::f64 ? 52 : 23, bias = wide == DType::f64 ? 1022 : 126;
  const int64_t ones_above = wide == DType::f64 ? 0x7FF : 0xFF;
  const Tensor t = x.to(wide);
  Tensor exponent;
  {
    const NoGradGuard unrecorded;
    const auto exponent_bits = [&](const Tensor& y) {
      return bitwise_and(bitwise_right_shift(y.contiguous().view_bytes(whole), bits), ones_above);
    };
    const double lift = std::ldexp(1.0, bits + 1);  // brings subnormal numbers among the normal ones
    const Tensor plain = exponent_bits(t), lifted = exponent_bits(t * lift) - (bits + 1);
    const Tensor ordinary = logical_and(isfinite(t), t != 0.0);
    exponent = where(ordinary, where(plain == 0, lifted, plain) - bias, zeros({}, {whole, x.device()})).to(DType::i32);
  }
  // In two factors, of which neither leaves the range.
  const Tensor half = floor_divide(exponent, 2);
  const Tensor scale = exp2(half.to(wide) * -1.0), rest = exp2((exponent - half).to(wide) * -1.0);
  return {(t * scale * rest).to(x.dtype()), exponent};
}

Tensor positive(const Tensor& x, Location where) {
  const CallScope call("positive", where);
  if (checked(x).dtype() == DType::boolean) raise<DTypeError>({.problem = "bool has no sign"});
  return x;
}

Tensor bitwise_not(const Operand& x) {
  const CallScope call("bitwise_not", x.where);
  if (checked(x.tensor()).dtype() == DType::boolean) return logical_not(x);
  return bitwise_xor(x, Operand(-1, x.where));
}
const Tensor& bitwise_not_(const Tensor& x, Location where) {
  const CallScope call("bitwise_not_", where);
  if (checked(x).dtype() == DType::boolean) return bitwise_xor_(x, true);
  return bitwise_xor_(x, -1);
}

Tensor operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
Tensor operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }
Tensor operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b); }
Tensor operator~(const Operand& x) { return bitwise_not(x); }

}  // namespace weft
