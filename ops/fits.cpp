#include "detail/fits.hpp"

#include "../tensor/layout.hpp"
#include "detail/complex.hpp"
#include "pointwise.hpp"

#include <array>
#include <limits>
#include <utility>

namespace weft {

namespace {

template <class T>
bool in_range(double x) {
  using Limits = std::numeric_limits<T>;
  constexpr double end = 2.0 * static_cast<double>(T(1) << (Limits::digits - 1));  // the maximum and 1
  if constexpr (std::is_unsigned_v<T>) return x >= 0 && x < end;
  else if constexpr (sizeof(T) == 8) return x >= -end && x < end;
  else return x > -end - 1 && x < end;
}

template <class T>
bool in_range(Scalar value) {
  if (value.held_as() == DType::u64) return std::in_range<T>(value.to<uint64_t>());
  const auto x = value.to<int64_t>();
  if (std::is_unsigned_v<T> && x < 0) return std::in_range<T>(uint64_t{0} - static_cast<uint64_t>(x));
  return std::in_range<T>(x);
}

std::string text_of(Scalar value) {
  if (value.is_floating()) return fmt::format("{}", value.to<double>());
  return value.held_as() == DType::u64 ? fmt::format("{}", value.to<uint64_t>())
                                       : fmt::format("{}", value.to<int64_t>());
}

[[noreturn]] void raise_range(Scalar value, DType dtype) {
  raise<ValueError>({.problem = fmt::format("{} is out of the range of {}", text_of(value), name(dtype)),
                     .remedy = "name a dtype that holds it"});
}

bool holds_all(DType dtype, DType other) {
  const int bits = static_cast<int>(8 * itemsize(dtype)), others = static_cast<int>(8 * itemsize(other));
  return is_signed(dtype) == is_signed(other) ? others <= bits : is_signed(dtype) && others < bits;
}

}  // namespace

bool fits(Scalar value, DType dtype) {
  if (!is_integer(dtype) || value.is_bool() || value.is_complex()) return true;
  return visit_dtype(dtype, [value]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return value.is_floating() ? in_range<T>(value.to<double>()) : in_range<T>(value);
    }
    return true;
  });
}

void check_fits(Scalar value, DType dtype) {
  if (WEFT_UNLIKELY(value.is_complex())) return check_conversion(DType::c128, dtype);
  if (WEFT_UNLIKELY(!fits(value, dtype))) raise_range(value, dtype);
}

void check_number_fits(const Operand& value, DType dtype) {
  if (WEFT_LIKELY(!is_integer(dtype))) return;
  if (value.impl()->wrapped_number) return check_fits(value.tensor().item_scalar(), dtype);
  check_operands_fit(dtype, std::array{&value}, true);
}

bool holds(DType dtype, Scalar integer) {
  if (dtype == DType::boolean) return integer.to<uint64_t>() <= 1;
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return integer.held_as() == DType::u64 ? std::in_range<T>(integer.to<uint64_t>())
                                             : std::in_range<T>(integer.to<int64_t>());
    }
    return true;
  });
}

void check_operands_fit(DType dtype, std::span<const Operand* const> operands, bool modular) {
  if (WEFT_LIKELY(!is_integer(dtype))) return;
  for (const Operand* operand : operands) {
    const Tensor& t = operand->tensor();
    const DType own = t.dtype();
    const bool wrapped = t.impl()->wrapped_number;
    if (t.dim() != 0 || !is_integer(own) || (own == dtype && !wrapped) || is_meta(t)) continue;
    const auto check = [t, dtype, modular] {
      const Scalar value = t.item_scalar();
      if (modular ? fits(value, dtype) : holds(dtype, value)) return;
      raise_range(value, dtype);
    };
    if (wrapped) check();
    else if (!holds_all(dtype, own)) check_elements(check);
  }
}

Scalar end_of(DType dtype, bool upper) {
  if (is_inexact(dtype)) return upper ? __builtin_inf() : -__builtin_inf();
  return visit_dtype(dtype, [upper]<class T>() -> Scalar {
    if constexpr (std::is_integral_v<T>) return upper ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    return upper;
  });
}

Tensor bound_in(DType dtype, const Tensor& bound, bool upper) {
  const DType own = bound.dtype();
  if (!is_integer(dtype) || !is_integer(own) || bound.dim() != 0) return bound;
  Scalar end = end_of(dtype, upper);
  if (bound.impl()->wrapped_number) {
    const Scalar value = bound.item_scalar();
    const bool positive = value.held_as() == DType::u64 || value.to<int64_t>() > 0;
    if (!holds(dtype, value) && positive == upper) return Operand(end).tensor();
    const Operand operand(bound);
    check_operands_fit(dtype, std::array{&operand}, false);
    return bound;
  }
  if (own == dtype) return bound;
  if (!holds(own, end)) end = end_of(own, upper);
  const Tensor limited = upper ? minimum(bound, end) : maximum(bound, end);
  const Operand operand(limited);
  check_operands_fit(dtype, std::array{&operand}, false);
  return limited.to(dtype);
}

void fill_elements(const Tensor& out, Scalar value) {
  const auto fill = WEFT_KERNEL(fill, out);
  if (WEFT_LIKELY(!value.is_complex())) return fill(out.raw_view(), value);
  const complex128 z = value.to_complex();
  if (!is_complex(out.dtype())) return fill(out.raw_view(), z != complex128(0));
  fill(part_view(out.raw_view(), 0), z.re);
  fill(part_view(out.raw_view(), 1), z.im);
}

}  // namespace weft
