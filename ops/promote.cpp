#include "detail/promote.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "../backends/dispatch.hpp"
#include "detail/complex.hpp"
#include "pointwise.hpp"

namespace weft {

namespace {

int category(DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : (t == DType::boolean ? 0 : 1); }

// C++ numbers are held as c128, f64, i64, u64 or bool; in promotion they count as the default types.
DType weak_type(DType t) {
  if (t == DType::c128) return complex_type(default_dtype());
  return t == DType::f64 ? default_dtype() : (t == DType::u64 ? DType::i64 : t);
}

int priority(const TensorImpl* t) { return t->wrapped_number ? 0 : (t->view.layout.rank == 0 ? 1 : 2); }

[[noreturn]] void raise_shapes(std::span<const TensorImpl* const> operands) {
  std::string shapes;
  for (const TensorImpl* t : operands) {
    if (!shapes.empty()) shapes += " and ";
    shapes += Dims(sizes_of(t->view.layout)).text();
  }
  raise<ShapeError>({.problem = fmt::format("shapes {} do not broadcast", shapes),
                     .remedy = "sizes must be equal or 1, counted from the last dimension"});
}

}  // namespace

DType result_type(std::span<const TensorImpl* const> operands) {
  DType best[3] = {};
  bool present[3] = {};
  for (const TensorImpl* t : operands) {
    const int p = priority(t);
    const DType own = p == 0 ? weak_type(t->view.layout.dtype) : t->view.layout.dtype;
    best[p] = present[p] ? promote(best[p], own) : own;
    present[p] = true;
  }
  DType result = DType::boolean;
  bool any = false;
  for (int p = 2; p >= 0; --p) {
    if (!present[p]) continue;
    if (!any) result = best[p];
    else if (is_floating(result) && is_complex(best[p])) result = complex_type(result);
    else if (category(best[p]) > category(result)) result = promote(result, best[p]);
    any = true;
  }
  return result;
}

DType result_type(const Operand& a, const Operand& b) {
  const CallScope call("result_type", a.where);
  const TensorImpl* operands[] = {checked(a.tensor()).impl(), checked(b.tensor()).impl()};
  return result_type(operands);
}

View scalar_view(const TensorImpl* scalar, DType dtype, unsigned char* buffer) {
  View out;
  out.layout.dtype = compute_type(dtype);
  out.layout.host_scalar = 1;
  out.data = buffer;
  const DType held = scalar->view.layout.dtype;
  if (held == DType::f64 && out.layout.dtype == DType::f32) {
    const float value = static_cast<float>(*static_cast<const double*>(scalar->view.data));
    std::memcpy(buffer, &value, sizeof value);
  } else if (held == out.layout.dtype) {
    std::memcpy(buffer, scalar->view.data, static_cast<size_t>(itemsize(held)));
  } else {
    host_kernels().copy(out, scalar->view);
  }
  // Among integers a number has their width, however wide they are computed: -1 is u16's largest there.
  if (is_integer(dtype)) std::memset(buffer + itemsize(dtype), 0, static_cast<size_t>(8 - itemsize(dtype)));
  return out;
}

template <int n>
void prepare(Prepared<n>& p, const Operand* const (&operands)[n], PointwiseKind kind, std::optional<DType> dtype) {
  const TensorImpl* impls[n];
  const TensorImpl* leader = nullptr;  // decides the device
  int place = 0;                       // of the leader
  for (int i = 0; i < n; ++i) {
    impls[i] = checked(operands[i]->tensor()).impl();
    p.wrapped &= impls[i]->wrapped_number;
    if (leader == nullptr || (leader->view.layout.device_type == DeviceType::cpu && leader->view.layout.rank == 0)) {
      leader = impls[i];
      place = i;
    }
  }
  const Layout& lead = leader->view.layout;
  p.device = Device(lead.device_type, lead.device_index);
  p.dtype = dtype.value_or(DType::f32);
  if (!dtype) {
    p.dtype = result_type(impls);
    if (kind == PointwiseKind::floating && !is_inexact(p.dtype)) p.dtype = default_dtype();
    if (p.wrapped && is_inexact(p.dtype)) p.dtype = is_complex(p.dtype) ? DType::c128 : DType::f64;
  }
  p.shape = Dims(sizes_of(lead));
  for (int i = 0; i < n; ++i) {
    if (!broadcast_in_place(p.shape, sizes_of(impls[i]->view.layout))) raise_shapes(impls);
  }
  for (int i = 0; i < n; ++i) {
    const Layout& layout = impls[i]->view.layout;
    const bool away = layout.device_type != lead.device_type || layout.device_index != lead.device_index;
    const bool host_scalar = layout.rank == 0 && layout.device_type == DeviceType::cpu && layout.numel == 1;
    if (away && !host_scalar) {
      check_same_device({&operands[std::min(i, place)]->tensor(), &operands[std::max(i, place)]->tensor()});
    }
    p.operands[i] = operands[i]->tensor();
    if (impls[i]->wrapped_number || away) {
      broadcast_view(p.views[i], scalar_view(impls[i], p.dtype, p.scalars[i]), p.shape);
      continue;
    }
    if (layout.dtype != p.dtype) p.operands[i] = p.operands[i].to(p.dtype);
    broadcast_view(p.views[i], p.operands[i].raw_view(), p.shape);
  }
}

#define WEFT_PREPARE(n) \
  template void prepare<n>(Prepared<n>&, const Operand* const(&)[n], PointwiseKind, std::optional<DType>);
WEFT_PREPARE(1)
WEFT_PREPARE(2)
WEFT_PREPARE(3)
WEFT_PREPARE(4)
WEFT_PREPARE(5)
WEFT_PREPARE(6)
#undef WEFT_PREPARE

void check_factor(Scalar factor, DType dtype) {
  if (factor.is_complex() ? is_complex(dtype) : is_inexact(dtype) || !factor.is_floating()) return;
  const std::string text = factor.is_complex() ? "a complex number" : fmt::format("{}", factor.to<double>());
  raise<DTypeError>({.problem = fmt::format("{} among {} tensors", text, name(dtype))});
}

Tensor times(const Tensor& x, Scalar factor) {
  if (factor.is_one()) return x;
  check_factor(factor, x.dtype());
  return (x * factor).to(x.dtype());
}

Tensor unbroadcast(Tensor&& gradient, std::span<const int64_t> sizes, DType dtype, Device device) {
  const int rank = static_cast<int>(sizes.size());
  Tensor out = std::move(gradient);
  if (out.dim() < rank || (out.numel() == 1 && contiguous_layout(sizes, dtype).numel != 1)) {
    out = out.expand(Dims(sizes));
  } else if (!std::ranges::equal(out.sizes(), sizes)) {
    out = sum_to(std::move(out), sizes);
  }
  if (out.dtype() != dtype) out = in_dtype(out, dtype);
  if (out.device() != device) out = out.to(device);
  return out;
}

double machine_epsilon(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    case DType::f16:
      return 0x1p-10;
    default:
      return 0x1p-7;
  }
}

double largest(DType t) {
  switch (t) {
    case DType::f8_e4m3fn:
      return 448;
    case DType::f8_e5m2:
    case DType::f8_e5m2fnuz:
      return 57344;
    case DType::f8_e4m3fnuz:
      return 240;
    case DType::f8_e8m0fnu:
      return 0x1p127;
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Tensor computable(const Operand& x) {
  const Tensor& t = x.tensor();
  return t.defined() && is_storage_only(t.dtype()) ? t.to(DType::f32) : t;
}

}  // namespace weft
