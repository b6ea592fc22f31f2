#include "compare.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <weft/ops/complex.hpp>

namespace weft::conform {

namespace {

std::string kind_text(const Tensor& t) { return t.defined() ? t.shape().text() + " " + name(t.dtype()) : "no tensor"; }

}  // namespace

Tolerance tolerance_of(DType dtype) {
  switch (real_type(dtype)) {
    case DType::f16:
      return {1e-3, 1e-4};
    case DType::bf16:
      return {1e-2, 1e-3};
    case DType::f32:
      return {1e-5, 1e-6};
    case DType::f64:
      return {1e-9, 1e-12};
    default:
      return {};
  }
}

Difference difference_of_kind(const Tensor& came, const Tensor& expected, Device device) {
  const std::string a = kind_text(came), e = kind_text(expected);
  if (a != e) return {e, a};
  if (came.defined() && !(came.device() == device)) return {device.name(), came.device().name()};
  return {};
}

Difference difference(const Tensor& came, const Tensor& expected, Device device, Tolerance tolerance) {
  if (const Difference kind = difference_of_kind(came, expected, device)) return kind;
  if (!came.defined() || came.numel() == 0) return {};
  const auto numbers = [](const Tensor& t) {
    const Tensor host = t.detach().to(Device());
    return (is_complex(t.dtype()) ? view_as_real(host) : host).to_vector<double>();
  };
  const std::vector<double> a = numbers(came), e = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    if (std::fabs(a[i] - e[i]) <= tolerance.absolute + tolerance.relative * std::fabs(e[i])) continue;
    return {fmt::format("{:.9g} at element {} of {}", e[i], i, kind_text(expected)), fmt::format("{:.9g}", a[i])};
  }
  return {};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = a.to(Device()).contiguous(), y = b.to(Device()).contiguous();
  return a.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<size_t>(x.nbytes())) == 0;
}

}  // namespace weft::conform
