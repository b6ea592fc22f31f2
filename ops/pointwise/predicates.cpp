// Predicates of elements and of two tensors.
#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../complex.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr double infinity = __builtin_inf();

struct Distance {
  Tensor apart, size;
};
// |a - b| and |b| as floats. Integers that are near each other are subtracted exactly.
Distance distance_of(const Tensor& a, const Tensor& b) {
  const DType common = result_type(a, b);
  if (is_inexact(common)) {
    const DType wide = compute_type(common);
    const Tensor y = b.to(wide);
    return {abs(a.to(wide) - y), abs(y)};
  }
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64), apart = abs(x - y);
  const Tensor exact = abs(a.to(DType::i64) - b.to(DType::i64)).to(DType::f64);  // exact where it does not wrap around
  return {where(apart < 0x1p53, exact, apart), abs(y)};
}

void check_tolerances(double relative, double absolute) {
  expect_at_least("rtol", relative, 0);
  expect_at_least("atol", absolute, 0);
}

std::vector<Values> predicate_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 3)}, {make.tensor({}, 0, 1)}, {make.tensor({0, 2})}};
}
#define WEFT_PREDICATE(name, document)                                                               \
  OpRecord {                                                                                         \
#name, #name "(x)", document, false, OpRecord::Domain::any, predicate_samples, parts::pointwise, \
        detail::boxed < &weft::name>, {                                                              \
      .unary = weft::name                                                                            \
    }                                                                                                \
  }
std::vector<Values> near_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 3), make.tensor({2, 3}, -3, 3)},
          {make.tensor({2, 3}, -3, 3), make.tensor({3}, -3, 3), 0.5, 0.25},
          {make.tensor({}), make.tensor({2}), 0.0, 0.0, true},
          {make.tensor({0, 2}), make.tensor({2})}};
}
std::vector<Values> same_samples(SampleMaker& make) {
  const Tensor x = make.tensor({2, 3}, -3, 3);
  return {{x, x}, {x, make.tensor({2, 3}, -3, 3)}, {make.tensor({0, 2}), make.tensor({0, 2})}};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord records[] = {
    WEFT_PREDICATE(logical_not, "True where x is zero."),
    WEFT_PREDICATE(isnan, "True where x is NaN."),
    WEFT_PREDICATE(isinf, "True where x is infinite."),
    WEFT_PREDICATE(isfinite, "True where x is a finite number."),
    WEFT_PREDICATE(isposinf, "True where x is infinity."),
    WEFT_PREDICATE(isneginf, "True where x is -infinity."),
    WEFT_PREDICATE(isreal, "True where the imaginary part is 0: everywhere where x is real."),
    WEFT_PREDICATE(signbit, "True where x is negative, -0 included."),
    {"isclose", "isclose(a, b|other, rtol=1e-05, atol=1e-08, equal_nan=False)",
     "Where |a - b| <= atol + rtol * |b|; infinities equal themselves.", false, any, near_samples, parts::pointwise,
     detail::boxed<&weft::isclose>},
    {"allclose", "allclose(a, b|other, rtol=1e-05, atol=1e-08, equal_nan=False)", "Whether isclose holds everywhere.",
     OpFacts(false, OpFacts::reads_values), any, near_samples, parts::whole, detail::boxed<&weft::allclose>},
    {"equal", "equal(a, b|other)", "Whether both have one shape and equal elements.",
     OpFacts(false, OpFacts::reads_values), any, same_samples, parts::whole, detail::boxed<&weft::equal>},
};
#undef WEFT_PREDICATE

}  // namespace

std::span<const OpRecord> predicate_records() { return records; }

Tensor logical_not(const Operand& x) { return eq(x, Operand(0, x.where)); }
Tensor isnan(const Operand& x) { return ne(x, Operand(x.tensor(), x.where)); }
Tensor isinf(const Operand& x) {
  const CallScope call("isinf", x.where);
  const Tensor magnitude = abs(computable(x));
  return is_floating(magnitude.dtype()) ? magnitude == __builtin_inf() : magnitude != magnitude;
}
Tensor isfinite(const Operand& x) {
  const CallScope call("isfinite", x.where);
  const Tensor magnitude = abs(computable(x));
  return is_floating(magnitude.dtype()) ? magnitude < __builtin_inf() : magnitude == magnitude;
}
Tensor isposinf(const Operand& x) {
  const CallScope call("isposinf", x.where);
  return eq(x, infinity);
}
Tensor isneginf(const Operand& x) {
  const CallScope call("isneginf", x.where);
  return eq(x, -infinity);
}
Tensor isreal(const Operand& x) {
  const CallScope call("isreal", x.where);
  const Tensor& t = checked(x.tensor());
  if (is_complex(t.dtype())) return imag(t) == 0;
  return full(t.shape(), true, {DType::boolean, t.device()});
}
Tensor signbit(const Operand& x) {
  const CallScope call("signbit", x.where);
  const Tensor& t = checked(x.tensor());
  if (!is_floating(t.dtype())) return t.dtype() == DType::boolean ? zeros_like(t) : t < 0;
  return copysign(Operand(1.0), t) < 0;
}

Tensor isclose(const Operand& a, const Operand& b, double relative, double absolute, bool equal_nan) {
  const CallScope call("isclose", a.where);
  check_tolerances(relative, absolute);
  const NoGradGuard unrecorded;
  const Tensor &x = checked(a.tensor()), &y = checked(b.tensor());
  Tensor is_close = x == y;
  if (relative != 0 || absolute != 0) {
    const auto [apart, size] = distance_of(x, y);
    is_close = logical_or(is_close, logical_and(isfinite(apart), apart <= absolute + relative * size));
  }
  return equal_nan ? logical_or(is_close, logical_and(isnan(x), isnan(y))) : is_close;
}

bool allclose(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan, Location where) {
  const CallScope call("allclose", where);
  return all(isclose(a, b, relative, absolute, equal_nan)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("equal", where);
  return checked(a).shape() == checked(b).shape() && all(a == b).item<bool>();
}

}  // namespace weft
