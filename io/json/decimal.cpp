// Decimals are rounded to odd on the way to 16 and 8 bits, so that they are rounded once.
#include "decimal-inl.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "../../tensor/number.hpp"

namespace weft::io {

namespace {

/// Digits without leading and trailing zeros, and the exponent: 0.d₁d₂… · 10^power.
struct Digits {
  std::string digits;
  int64_t power = 0;
};

Digits digits_of(std::string_view number) {
  Digits out;
  size_t i = number.starts_with('-') ? 1 : 0;
  bool behind_point = false;
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '.') {
      behind_point = true;
      continue;
    }
    if (number[i] == '0' && out.digits.empty()) {
      out.power -= behind_point;
      continue;
    }
    out.digits += number[i];
    out.power += !behind_point;
  }
  if (i < number.size()) {
    constexpr int64_t limit = 1'000'000;
    const char* from = number.data() + i + 1 + (number[i + 1] == '+');
    int64_t exponent = 0;
    const auto result = std::from_chars(from, number.data() + number.size(), exponent);
    if (result.ec == std::errc::result_out_of_range) exponent = *from == '-' ? -limit : limit;
    out.power += exponent;
  }
  while (!out.digits.empty() && out.digits.back() == '0') out.digits.pop_back();
  return out;
}

/// Compares the magnitude of a decimal with that of a double, which is finite and not 0.
std::strong_ordering compare_magnitudes(std::string_view number, double value) {
  const Digits a = digits_of(number), b = digits_of(fmt::format("{:.780e}", std::abs(value)));
  if (a.digits.empty()) return std::strong_ordering::less;
  return a.power != b.power ? a.power <=> b.power : a.digits <=> b.digits;
}

}  // namespace

double odd_double(std::string_view number) {
  const std::string text(number);
  const double nearest = std::strtod(text.c_str(), nullptr);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isinf(nearest)) return nearest;
  if (nearest == 0) {
    const double tiny = std::numeric_limits<double>::denorm_min();
    return digits_of(number).digits.empty() ? nearest : std::copysign(tiny, nearest);
  }
  const auto order = compare_magnitudes(number, nearest);
  const bool is_odd = (std::bit_cast<uint64_t>(nearest) & 1) != 0;
  if (order == 0 || is_odd) return nearest;
  return std::nextafter(nearest, order > 0 ? std::copysign(infinity, nearest) : 0.0);
}

namespace {

double in_dtype(double value, DType dtype) {
  const float narrow = odd_float(value);
  switch (dtype) {
    case DType::f16:
      return to_float(to_float16(narrow));
    case DType::bf16:
      return to_float(to_bfloat16(narrow));
    case DType::f8_e4m3fn:
      return to_float(to_float8_e4m3fn(narrow));
    case DType::f8_e5m2:
      return to_float(to_float8_e5m2(narrow));
    case DType::f8_e4m3fnuz:
      return to_float(to_float8_e4m3fnuz(narrow));
    case DType::f8_e5m2fnuz:
      return to_float(to_float8_e5m2fnuz(narrow));
    case DType::f8_e8m0fnu:
      return to_float(to_float8_e8m0fnu(narrow));
    default:
      return value;
  }
}

std::string as_float(std::string text) { return text.find_first_of(".e") == std::string::npos ? text + ".0" : text; }

}  // namespace

std::string shortest_decimal(double value, DType dtype) {
  if (dtype == DType::f64) return as_float(fmt::format("{}", value));
  if (dtype == DType::f32) return as_float(fmt::format("{}", static_cast<float>(value)));
  for (int digits = 1;; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    if (digits == 9 || in_dtype(odd_double(text), dtype) == value) {
      return as_float(fmt::format("{}", std::strtod(text.c_str(), nullptr)));
    }
  }
}

}  // namespace weft::io
