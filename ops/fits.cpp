#include "detail/fits.hpp"

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

}  // namespace

bool fits(Scalar value, DType dtype) {
  if (!is_integer(dtype) || value.is_bool()) return true;
  return visit_dtype(dtype, [value]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return value.is_floating() ? in_range<T>(value.to<double>()) : in_range<T>(value);
    }
    return true;
  });
}

void check_fits(Scalar value, DType dtype) {
  if (WEFT_LIKELY(fits(value, dtype))) return;
  raise<ValueError>({.problem = fmt::format("{} is out of the range of {}", text_of(value), name(dtype)),
                     .remedy = "name a dtype that holds it"});
}

void check_number_fits(const Operand& value, DType dtype) {
  if (WEFT_LIKELY(!is_integer(dtype)) || !value.impl()->wrapped_number) return;
  check_fits(value.tensor().item_scalar(), dtype);
}

}  // namespace weft
