// Comparisons and logical ops. They are exact: no integer is rounded or wrapped around to fit the other operand's
// dtype.
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>

#include "../complex.hpp"
#include "../detail/common.hpp"
#include "../detail/compare.hpp"
#include "../detail/complex.hpp"
#include "../detail/masked.hpp"
#include "../detail/promote.hpp"
#include "../pointwise.hpp"

namespace weft {

namespace {

constexpr double infinity = __builtin_inf();
const double nan = __builtin_nan("");

constexpr const char* names[] = {
#define WEFT_COMPARE_NAME(name, ...) #name,
    WEFT_COMPARE_OPS(WEFT_COMPARE_NAME)};

bool is_logical(CompareOp op) {
  return op == CompareOp::logical_and || op == CompareOp::logical_or || op == CompareOp::logical_xor;
}
bool is_below(CompareOp op) { return op == CompareOp::lt || op == CompareOp::le; }
bool is_above(CompareOp op) { return op == CompareOp::gt || op == CompareOp::ge; }

// op(a, b) is mirrored(op)(b, a).
CompareOp mirrored(CompareOp op) {
  switch (op) {
    case CompareOp::lt:
      return CompareOp::gt;
    case CompareOp::le:
      return CompareOp::ge;
    case CompareOp::gt:
      return CompareOp::lt;
    case CompareOp::ge:
      return CompareOp::le;
    default:
      return op;
  }
}

// ---- tensors with numbers: a comparison with the same answers by a number that the tensor's dtype holds -------------

// x is an integer, so x < 2.5 is x < 3, x <= 2.5 is x <= 2.
double next_whole(CompareOp op, double number) {
  return op == CompareOp::lt || op == CompareOp::ge ? std::ceil(number) : std::floor(number);
}

template <class T>
Comparison among_integers(CompareOp op, Scalar number) {
  using Limits = std::numeric_limits<T>;
  constexpr int64_t lowest = Limits::min();
  constexpr uint64_t highest = Limits::max();
  const auto always = [&]() -> Comparison {
    return is_below(op) ? Comparison{CompareOp::le, Limits::max()} : Comparison{CompareOp::ge, Limits::min()};
  };
  const auto never = [&]() -> Comparison {
    return is_above(op) ? Comparison{CompareOp::gt, Limits::max()} : Comparison{CompareOp::lt, Limits::min()};
  };
  const auto larger = [&] { return is_below(op) || op == CompareOp::ne ? always() : never(); };
  const auto smaller = [&] { return is_above(op) || op == CompareOp::ne ? always() : never(); };
  if (number.is_floating()) {
    const double given = number.to<double>(), whole = next_whole(op, given);
    const bool equality = op == CompareOp::eq || op == CompareOp::ne;
    if (std::isnan(given) || (equality && whole != given)) return op == CompareOp::ne ? always() : never();
    if (whole >= std::ldexp(1.0, Limits::digits)) return larger();
    if (whole < static_cast<double>(lowest)) return smaller();
    return {op, static_cast<T>(whole)};
  }
  if (number.held_as() == DType::u64) {
    return highest < number.to<uint64_t>() ? larger() : Comparison{op, number};
  }
  const auto whole = number.to<int64_t>();
  if (std::cmp_less(highest, whole)) return larger();
  return whole < lowest ? smaller() : Comparison{op, number};
}

// A number strictly between the neighbours `low` and `high`.
Comparison between(CompareOp op, double low, double high) {
  if (is_below(op)) return {CompareOp::le, low};
  if (is_above(op)) return {CompareOp::ge, high};
  return {op, nan};
}

// Fractions are rounded to the dtype, as in x == 0.1; integers and overflowing numbers are not.
template <class T>
Comparison among_floats(CompareOp op, Scalar number) {
  constexpr T largest = std::numeric_limits<T>::max();
  if (number.is_floating()) {
    const double given = number.to<double>();
    if (!std::isinf(static_cast<T>(given)) || std::isinf(given)) return {op, number};
    return given > 0 ? between(op, largest, infinity) : between(op, -infinity, -largest);
  }
  __extension__ using Wide = __int128;
  const Wide given = number.held_as() == DType::u64 ? Wide{number.to<uint64_t>()} : Wide{number.to<int64_t>()};
  const T nearest = static_cast<T>(given);
  const Wide rounded = static_cast<Wide>(nearest);
  if (rounded == given) return {op, number};
  const T end = rounded < given ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
  const T other = std::nextafter(nearest, end);
  return rounded < given ? between(op, nearest, other) : between(op, other, nearest);
}

// The number as a 16-bit float tensor has it.
Scalar rounded_to(DType dtype, Scalar number) {
  if (!number.is_floating() || dtype == compute_type(dtype) || !is_floating(dtype)) return number;
  const double given = number.to<double>();
  const float nearest =
      dtype == DType::f16 ? to_float(to_float16(odd_float(given))) : to_float(to_bfloat16(odd_float(given)));
  return std::isinf(nearest) ? number : Scalar(nearest);
}

}  // namespace

Comparison exact_in(DType dtype, CompareOp op, Scalar number) {
  if (is_logical(op)) return {op, !number.is_zero()};
  if (number.is_complex() && !is_complex(dtype)) {
    const complex128 z = number.to_complex();
    return exact_in(dtype, op, z.im == 0 ? z.re : nan);
  }
  if (is_complex(dtype) && number.is_complex()) return {op, number};
  const DType part = compute_type(real_type(dtype));
  if (part == DType::f64) return among_floats<double>(op, number);
  if (part == DType::f32) return among_floats<float>(op, rounded_to(dtype, number));
  return visit_dtype(dtype, [&]<class T>() -> Comparison {
    if constexpr (std::is_same_v<T, bool>) return among_integers<bool>(op, number);
    else if constexpr (std::is_integral_v<T>) return among_integers<T>(op, number);
    else return {op, number};
  });
}

namespace {

// ---- tensors of two dtypes ------------------------------------------------------------------------------------------

Tensor compare(CompareOp op, const Operand& a, const Operand& b);

Tensor compare_in(DType dtype, CompareOp op, const Operand& a, const Operand& b) {
  Prepared<2> p;
  prepare(p, {&a, &b}, PointwiseKind::any, dtype);
  if (WEFT_UNLIKELY(computes_by_parts(p.dtype, p.device)) && (op == CompareOp::eq || op == CompareOp::ne)) {
    const auto promoted = [&](const Tensor& t) { return t.to(p.dtype).to(p.device); };
    const Tensor x = promoted(p.operands[0]), y = promoted(p.operands[1]);
    const Tensor equal = logical_and(real(x) == real(y), imag(x) == imag(y));
    return op == CompareOp::eq ? equal : logical_not(equal);
  }
  Tensor out = make(p.shape, DType::boolean, p.device);
  WEFT_KERNEL(compare, out)(op, out.raw_view(), p.views[0], p.views[1]);
  return out;
}

bool is_same(Scalar a, Scalar b) {
  if (a.held_as() != b.held_as()) return false;
  if (a.is_complex()) return a.to_complex() == b.to_complex();
  return a.is_floating() ? a.to<double>() == b.to<double>() : a.to<uint64_t>() == b.to<uint64_t>();
}

Tensor with_number(CompareOp op, const Tensor& x, const Operand& operand) {
  const Scalar number = operand.tensor().item_scalar();
  const Comparison exact = exact_in(x.dtype(), op, number);
  const bool as_given = exact.op == op && is_same(exact.number, number);
  return as_given ? compare_in(x.dtype(), op, x, operand) : compare_in(x.dtype(), exact.op, x, exact.number);
}

int digits_of(DType t) {
  if (t == DType::f64 || t == DType::c128) return DBL_MANT_DIG;
  if (!is_whole(t)) return FLT_MANT_DIG;  // in which the smaller floats are compared
  return t == DType::boolean ? 1 : static_cast<int>(8 * itemsize(t)) - (is_signed(t) ? 1 : 0);
}

}  // namespace

std::optional<DType> exact_type(DType a, DType b) {
  if (!is_whole(a) && is_whole(b)) return exact_type(b, a);
  if (is_whole(a) && is_whole(b)) {
    const bool signs = (a == DType::u64 && is_signed(b)) || (b == DType::u64 && is_signed(a));
    return signs ? std::nullopt : std::optional(promote(a, b));
  }
  if (!is_whole(a)) return promote(a, b);
  return digits_of(a) <= digits_of(b) ? std::optional(promote(a, compute_type(b))) : std::nullopt;
}

namespace {

// `whole` has more digits than the floating-point `real`.
Tensor compare_whole(CompareOp op, const Tensor& whole, const Tensor& real) {
  if (op == CompareOp::ne) return logical_not(compare_whole(CompareOp::eq, whole, real));
  const DType wide = whole.dtype() == DType::u64 ? DType::u64 : DType::i64;
  const double low = wide == DType::u64 ? 0 : -0x1p63, end = wide == DType::u64 ? 0x1p64 : 0x1p63;
  const Tensor next = op == CompareOp::lt || op == CompareOp::ge ? ceil(real) : floor(real);
  const Tensor inside = logical_and(next >= low, next < end);
  const Tensor found = logical_and(inside, compare(op, whole.to(wide), where(inside, next, 0).to(wide)));
  if (is_below(op)) return logical_or(found, next >= end);
  if (is_above(op)) return logical_or(found, next < low);
  return logical_and(found, next == real);
}

// By the CPU's kernel, which takes both as they are.
Tensor compare_in_kernel(CompareOp op, const Tensor& whole, const Tensor& real) {
  Tensor out = make(broadcast_shape(whole, real), DType::boolean, whole.device());
  const View a = broadcast_view(whole.raw_view(), out.sizes()), b = broadcast_view(real.raw_view(), out.sizes());
  WEFT_KERNEL(compare, out)(op, out.raw_view(), a, b);
  return out;
}

Tensor compare_signs(CompareOp op, const Tensor& natural, const Tensor& integer) {
  const Tensor negative = integer < 0, found = compare(op, natural, integer.to(DType::u64));
  if (is_above(op) || op == CompareOp::ne) return logical_or(found, negative);
  return logical_and(found, logical_not(negative));
}

Tensor compare_mixed(CompareOp op, const Tensor& a, const Tensor& b) {
  const DType s = a.dtype(), t = b.dtype();
  if (is_logical(op)) return compare_in(DType::boolean, op, a.to(DType::boolean), b.to(DType::boolean));
  if (!is_whole(s) && !is_whole(t)) return compare_in(result_type(a, b), op, a, b);
  if (const auto common = exact_type(s, t)) return compare_in(*common, op, a, b);
  if (!is_whole(s)) return compare_mixed(mirrored(op), b, a);
  if (is_whole(t)) return s == DType::u64 ? compare_signs(op, a, b) : compare_signs(mirrored(op), b, a);
  const bool here = a.device().is_cpu() && b.device().is_cpu();
  if (!is_complex(t)) return here ? compare_in_kernel(op, a, b) : compare_whole(op, a, b);
  if (op != CompareOp::eq && op != CompareOp::ne) raise_complex(t);
  const Tensor equal = logical_and(compare_mixed(CompareOp::eq, a, real(b)), imag(b) == 0);
  return op == CompareOp::eq ? equal : logical_not(equal);
}

bool is_stored_only(const Operand& x) { return x.impl() != nullptr && is_storage_only(x.impl()->view.layout.dtype); }
bool has_complex(const Operand& a, const Operand& b) {
  return a.impl() != nullptr && b.impl() != nullptr &&
         (is_complex(a.impl()->view.layout.dtype) || is_complex(b.impl()->view.layout.dtype));
}

Tensor compare(CompareOp op, const Operand& a, const Operand& b) {
  const CallScope call(names[static_cast<int>(op)], a.where);
  if (WEFT_UNLIKELY(is_stored_only(a) || is_stored_only(b))) {
    const NoGradGuard unrecorded;
    const Tensor x = computable(a), y = computable(b);
    return compare(op, x, y);
  }
  if (WEFT_UNLIKELY(has_complex(a, b)) && is_logical(op)) {
    const NoGradGuard unrecorded;
    return compare(op, a.tensor() != 0, b.tensor() != 0);
  }
  if (WEFT_LIKELY(a.impl() != nullptr && b.impl() != nullptr && same_plain(a.impl(), b.impl())) &&
      !computes_by_parts(a.tensor().dtype(), a.tensor().device())) {
    Tensor out = make(a.tensor().sizes(), DType::boolean, a.tensor().device());
    WEFT_KERNEL(compare, out)(op, out.raw_view(), a.impl()->view, b.impl()->view);
    return out;
  }
  const Tensor &x = checked(a.tensor()), &y = checked(b.tensor());
  const bool of_x = x.impl()->wrapped_number, of_y = y.impl()->wrapped_number;
  const NoGradGuard unrecorded;
  if (of_y && !of_x) return with_number(op, x, b);
  if (of_x && !of_y) return with_number(mirrored(op), y, a);
  const Tensor out = x.dtype() == y.dtype() ? compare_in(x.dtype(), op, a, b) : compare_mixed(op, x, y);
  out.impl()->wrapped_number = of_x;  // of numbers it is a number
  return out;
}

}  // namespace

#define WEFT_DEFINE_COMPARE(name, ...) \
  Tensor name(const Operand& a, const Operand& b) { return compare(CompareOp::name, a, b); }
WEFT_COMPARE_OPS(WEFT_DEFINE_COMPARE)

Tensor operator==(const Operand& a, const Operand& b) { return compare(CompareOp::eq, a, b); }
Tensor operator!=(const Operand& a, const Operand& b) { return compare(CompareOp::ne, a, b); }
Tensor operator<(const Operand& a, const Operand& b) { return compare(CompareOp::lt, a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return compare(CompareOp::le, a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return compare(CompareOp::gt, a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return compare(CompareOp::ge, a, b); }

}  // namespace weft
