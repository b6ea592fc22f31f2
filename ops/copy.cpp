// Copies: clone, contiguous, conversion of dtype and device, in-place copy and fill, elements to the host.

#include <cmath>
#include <limits>

#include <weft/autograd/from_ops.hpp>
#include <weft/backends/backend.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/ops/detail/fits.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/detail/write.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/promote.hpp>

namespace weft {

namespace {

Backend& backend_of(Device device, const char* op, Location where) {
  check_device(device, op, where);
  return *find_backend(device.type);
}

// Contiguous bytes between any two devices; dtypes and shapes are equal.
void transfer(const Tensor& out, const Tensor& in, Location where) {
  const size_t bytes = static_cast<size_t>(in.nbytes());
  const Device from = in.device(), to = out.device();
  if (bytes == 0 || to.type == DeviceType::meta) return;
  if (from.type == DeviceType::meta) {
    raise<DeviceError>({.op = "to", .problem = "a meta tensor has no elements to copy"}, where);
  }
  if (from.is_cpu()) backend_of(to, "to", where).upload(to.index, out.data_ptr(), in.data_ptr(), bytes);
  else if (to.is_cpu()) backend_of(from, "to", where).download(from.index, out.data_ptr(), in.data_ptr(), bytes);
  else if (from.type == to.type)
    backend_of(to, "to", where).copy(to.index, out.data_ptr(), from.index, in.data_ptr(), bytes);
  else transfer(out, in.to(Device(), where), where);
}

// Elements of `in` (broadcast to out's shape already) into `out`, converted; any devices. Nothing is recorded.
void copy_elements_unrecorded(const Tensor& out, const View& in_view, const Tensor& in, Location where) {
  if (out.device() == in.device()) {
    WEFT_KERNEL_FOR(copy, out, "copy_", where)(out.raw_view(), in_view);
    return;
  }
  NoGradGuard unrecorded;
  const Tensor dense = in.to(out.dtype(), where).contiguous(where);
  if (out.is_contiguous() && same_sizes(out.raw_view().layout, dense.raw_view().layout)) {
    transfer(out, dense, where);
    return;
  }
  Tensor landed = make(dense.sizes(), out.dtype(), out.device(), "copy_", where);
  transfer(landed, dense, where);
  WEFT_KERNEL_FOR(copy, out, "copy_", where)(out.raw_view(), broadcast_view(landed.raw_view(), out.sizes()));
}

Tensor dense_copy(const Tensor& x, const char* op, Location where) {
  Tensor out = make_like(x, op, where);
  WEFT_KERNEL_FOR(copy, out, op, where)(out.raw_view(), x.raw_view());
  return out;
}

}  // namespace

Tensor Tensor::clone(Location where) const {
  Tensor out = dense_copy(checked(*this, "clone", where), "clone", where);
  if (should_record(*this))
    record(
        out, "clone", where, [](Node&, Tensor&& g) { return std::move(g); }, *this);
  return out;
}

Tensor Tensor::contiguous(Location where) const { return is_contiguous(where) ? *this : clone(where); }

Tensor Tensor::to(DType dtype, Location where) const {
  checked(*this, "to", where);
  if (dtype == this->dtype()) return *this;
  Tensor out = make(sizes(), dtype, device(), "to", where);
  WEFT_KERNEL_FOR(copy, out, "to", where)(out.raw_view(), raw_view());
  out.impl()->wrapped_number = impl_->wrapped_number && dtype == DType::f64;
  if (is_floating(dtype) && should_record(*this)) {
    record(
        out, "to", where, [from = this->dtype()](Node& self, Tensor&& g) { return g.to(from, self.where); }, *this);
  }
  return out;
}

namespace {

double largest(DType t) {
  switch (t) {
    case DType::f8_e4m3fn:
      return 448;
    case DType::f8_e5m2:
      return 57344;
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

// Wide enough for every number of `from` that `to` holds, and for the largest of `to`.
DType wide_enough(DType from, DType to) {
  return promote(is_floating(from) ? compute_type(from) : default_dtype, compute_type(to));
}

}  // namespace

Tensor cast(const Operand& given, DType dtype, Overflow overflow) {
  const Location where = given.where;
  const Tensor& x = checked(given.tensor(), "cast", where);
  const Overflow usual = dtype == DType::f8_e4m3fn ? Overflow::saturate : Overflow::ieee;
  if (x.dtype() == dtype || !is_floating(dtype) || overflow == Overflow::by_format || overflow == usual) {
    return x.to(dtype, where);
  }
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor wide = x.to(wide_enough(x.dtype(), dtype), where);
    if (overflow == Overflow::saturate) {
      out = clip(Operand(wide, where), -largest(dtype), largest(dtype)).to(dtype, where);
    } else {  // 464 is a tie, and goes to 448
      const Tensor beyond = gt(Operand(abs(Operand(wide, where)), where), Operand(464, where));
      out = masked_fill(Operand(wide, where), Operand(beyond, where), Operand(NAN, where)).to(dtype, where);
    }
  }
  if (should_record(x)) {
    record(
        out, "cast", where, [from = x.dtype()](Node& self, Tensor&& g) { return g.to(from, self.where); }, x);
  }
  return out;
}

namespace {

std::vector<Values> cast_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), DType::f64}, {make.tensor({3}), DType::f64, "saturate"}};
}

Tensor call_cast(const Tensor& x, DType dtype, const std::optional<std::string>& overflow) {
  constexpr const char* names[] = {"by_format", "ieee", "saturate"};
  for (int i = 0; i < 3; ++i) {
    if (overflow.value_or(names[0]) == names[i]) {
      return cast(Operand(x, boxed_place()), dtype, static_cast<Overflow>(i));
    }
  }
  raise<ValueError>(
      {.op = "cast", .problem = fmt::format("overflow must be 'by_format', 'ieee' or 'saturate', not '{}'", *overflow)},
      boxed_place());
}

const OpRecord all_copy_records[] = {
    {"cast", "cast(x, dtype, overflow='by_format')",
     "x in another dtype, rounded once. Beyond the largest number: infinity, in float8_e4m3fn the largest "
     "('by_format'); infinity, in float8_e4m3fn NaN ('ieee'); the largest ('saturate').",
     true, OpRecord::Domain::any, cast_samples, detail::boxed<&call_cast>}};

}  // namespace

std::span<const OpRecord> copy_records() { return all_copy_records; }

Tensor Tensor::to(Device target, Location where) const {
  checked(*this, "to", where);
  if (target == device()) return *this;
  if (target.type != DeviceType::cpu && target.type != DeviceType::meta) backend_of(target, "to", where);
  Tensor source;
  {
    NoGradGuard unrecorded;
    source = contiguous(where);
  }
  Tensor out = make(sizes(), dtype(), target, "to", where);
  transfer(out, source, where);
  if (should_record(*this)) {
    record(
        out, "to", where, [from = device()](Node& self, Tensor&& g) { return g.to(from, self.where); }, *this);
  }
  return out;
}

Tensor Tensor::to(Device target, DType dtype, Location where) const {
  // The conversion is done where the smaller of the two is the one that travels.
  const bool convert_first = weft::itemsize(dtype) < itemsize(where);
  return convert_first ? to(dtype, where).to(target, where) : to(target, where).to(dtype, where);
}

const Tensor& Tensor::copy_(const Tensor& source, Location where) const {
  checked(*this, "copy_", where);
  checked(source, "copy_", where);
  if (source.impl() == impl_) return *this;
  check_target(*this, "copy_", where);
  const bool same = same_sizes(layout(), source.layout());
  const auto fits = [&] {
    const auto joined = broadcast(sizes(), source.sizes());
    return joined && *joined == shape();
  };
  if (WEFT_UNLIKELY(!same && !fits())) {
    raise<ShapeError>({.op = "copy_",
                       .problem = fmt::format("a source of shape {} does not broadcast to {}", source.shape().text(),
                                              shape().text())},
                      where);
  }
  const Tensor from = apart(source, *this, where);
  const auto write = [&] {
    if (WEFT_LIKELY(same)) copy_elements_unrecorded(*this, from.raw_view(), from, where);
    else copy_elements_unrecorded(*this, broadcast_view(from.raw_view(), sizes()), from, where);
  };
  const auto make_formula = [&] {
    return [own = source.shape(), type = source.dtype(), device = source.device()](Node& self, Tensor&& g) {
      return fit(std::move(g), own, type, device, self.where);
    };
  };
  write_recorded(*this, "copy_", where, write, make_formula, source);
  return *this;
}

const Tensor& Tensor::fill_(Scalar value, Location where) const {
  check_target(*this, "fill_", where);
  check_fits("fill_", value, dtype(), where);
  const auto write = [&] { WEFT_KERNEL_FOR(fill, *this, "fill_", where)(raw_view(), value); };
  write_recorded(*this, "fill_", where, write, [] { return Overwritten(); });
  return *this;
}

const Tensor& Tensor::zero_(Location where) const { return fill_(0, where); }

void Tensor::copy_elements(void* out, DType type, Location where) const {
  checked(*this, "to_vector", where);
  NoGradGuard unrecorded;
  const Tensor host = to(Device(), where);
  View target;
  target.data = out;
  target.layout = contiguous_layout(sizes(), type, "to_vector", where);
  cpu::copy(target, host.raw_view());
}

Scalar Tensor::item_scalar(Location where) const {
  checked(*this, "item", where);
  if (WEFT_UNLIKELY(numel() != 1)) {
    raise<ValueError>({.op = "item",
                       .problem = fmt::format("needs exactly one element, not {} of shape {}", numel(), shape().text()),
                       .remedy = "select one, or use to_vector()"},
                      where);
  }
  if (WEFT_UNLIKELY(device().type == DeviceType::meta)) {
    raise<NotImplementedError>({.op = "item", .problem = "what follows from values is unknown to meta tensors"}, where);
  }
  alignas(8) unsigned char buffer[8];
  const void* element = data_ptr();
  if (!device().is_cpu()) {
    backend_of(device(), "item", where).download(device().index, buffer, element, static_cast<size_t>(itemsize()));
    element = buffer;
  }
  return visit_dtype(dtype(), [&]<class T>() -> Scalar {
    const T value = element_at<T>(element);
    if constexpr (std::is_arithmetic_v<T>) return value;
    else return to_float(value);
  });
}

namespace detail {

Tensor recorded_add(const Tensor& a, const Tensor& b) { return a + b; }
Tensor fresh_copy(const Tensor& source) {
  return recording() ? source.clone() : dense_copy(source, "clone", Location::none());
}

}  // namespace detail

}  // namespace weft
