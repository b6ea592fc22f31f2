// Copies: clone, contiguous, conversion of dtype and device, in-place copy and fill, elements to the host.

#include <cmath>
#include <limits>
#include <memory>

#include "../../autograd/from_ops.hpp"
#include "../../autograd/program_watch.hpp"
#include "../../backends/backend.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../tensor/device_kinds.hpp"
#include "../detail/complex.hpp"
#include "../detail/fits.hpp"
#include "../detail/records.hpp"
#include "../detail/write.hpp"
#include "../complex.hpp"
#include "../create.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Backend& backend_of(Device device) {
  check_device(device);
  return *find_backend(device.type);
}

// Contiguous bytes between the CPU and a device, or two devices of one kind.
void move_bytes(const View& out, const View& in) {
  const auto bytes = static_cast<size_t>(in.layout.numel) * static_cast<size_t>(itemsize(in.layout.dtype));
  const Device from(in.layout.device_type, in.layout.device_index);
  const Device to(out.layout.device_type, out.layout.device_index);
  if (from.is_cpu()) backend_of(to).upload(to.index, out.data, in.data, bytes);
  else if (to.is_cpu()) backend_of(from).download(from.index, out.data, in.data, bytes);
  else backend_of(to).copy(to.index, out.data, from.index, in.data, bytes);
}

class RecordedTransfer final : public RecordedKernel {
 public:
  RecordedTransfer(const View& out, const View& in) : RecordedKernel("transfer"), out_(out), in_(in) {
    detail::CallBytes(attributes).add(in.layout);
    detail::CallBytes(attributes).add(out.layout);
    views = {&out_, &in_};
    outputs = 1;
  }
  void run() override {
    const CallScope scope(place);
    move_bytes(out_, in_);
  }

 private:
  View out_, in_;
};

// Contiguous bytes between any two devices; dtypes and shapes are equal.
void transfer(const Tensor& out, const Tensor& in) {
  const Device from = in.device(), to = out.device();
  if (in.nbytes() == 0 || to.type == DeviceType::meta) return;
  if (from.type == DeviceType::meta) {
    raise<DeviceError>({.problem = "a meta tensor has no elements to copy"});
  }
  if (!from.is_cpu() && !to.is_cpu() && from.type != to.type) return transfer(out, in.to(Device()));
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) {
    detail::kernel_recorder().record(std::make_unique<RecordedTransfer>(out.raw_view(), in.raw_view()));
  }
  const detail::UnrecordedScope unrecorded;
  move_bytes(out.raw_view(), in.raw_view());
}

bool is_pinned_for(const Tensor& x, Backend& backend) {
  return x.impl()->storage->allocator == &backend.pinned_allocator();
}

/// As `transfer`, queued only. False, with nothing done, where one side is not a device and the other is not pinned.
bool transfer_queued(const Tensor& out, const Tensor& in) {
  const Tensor& host = in.device().is_cpu() ? in : out;
  const Device device = in.device().is_cpu() ? out.device() : in.device();
  if (!host.device().is_cpu() || device.is_cpu() || device.type == DeviceType::meta) return false;
  Backend& backend = backend_of(device);
  if (!is_pinned_for(host, backend) || detail::capture_recorder != nullptr) return false;
  backend.copy_pinned(device.index, out.data_ptr(), in.data_ptr(), static_cast<size_t>(in.nbytes()));
  return true;
}

// Elements of `in` (broadcast to out's shape already) into `out`, converted; any devices. Nothing is recorded.
void copy_elements_unrecorded(const Tensor& out, const View& in_view, const Tensor& in) {
  if (out.device() == in.device()) {
    WEFT_KERNEL(copy, out)(out.raw_view(), in_view);
    return;
  }
  NoGradGuard unrecorded;
  const Tensor dense = in.to(out.dtype()).contiguous();
  if (out.is_contiguous() && same_sizes(out.raw_view().layout, dense.raw_view().layout)) {
    transfer(out, dense);
    return;
  }
  Tensor landed = make(dense.sizes(), out.dtype(), out.device());
  transfer(landed, dense);
  WEFT_KERNEL(copy, out)(out.raw_view(), broadcast_view(landed.raw_view(), out.sizes()));
}

void check_single(const Tensor& x) {
  if (WEFT_LIKELY(x.numel() == 1)) return;
  raise_value("", "one element", fmt::format("{} elements of shape {}", x.numel(), x.shape().text()),
              "select one, or use to_vector()");
}

Tensor dense_copy(const Tensor& x) {
  Tensor out = make_like(x);
  WEFT_KERNEL(copy, out)(out.raw_view(), x.raw_view());
  return out;
}

}  // namespace

Tensor Tensor::clone(Location where) const {
  const CallScope call("clone", where);
  Tensor out = dense_copy(checked(*this));
  if (should_record(*this))
    record(
        out, [](Tensor&& g) { return std::move(g); }, *this);
  return out;
}

Tensor Tensor::contiguous(Location where) const { return is_contiguous(where) ? *this : clone(where); }

Tensor Tensor::to(DType dtype, Location where) const {
  const char* const outer = detail::current_call.op;
  const CallScope call("to", where);
  checked(*this);
  if (dtype == this->dtype()) return *this;
  check_conversion(this->dtype(), dtype);
  Tensor out = make(sizes(), dtype, device());
  WEFT_KERNEL(copy, out)(out.raw_view(), raw_view());
  out.impl()->wrapped_number = impl_->wrapped_number && (dtype == DType::f64 || dtype == DType::c128);
  if (is_inexact(dtype) && should_record(*this)) {
    record(
        out, [from = this->dtype()](Tensor&& g) { return in_dtype(g, from); }, *this);
    if (WEFT_UNLIKELY(detail::program_watch != nullptr) && detail::is_called_by_program(outer)) {
      detail::program_watch->converted(*this, out);
    }
  }
  return out;
}

namespace {

// Wide enough for every number of `from` that `to` holds, and for the largest of `to`.
DType wide_enough(DType from, DType to) {
  return promote(is_floating(from) ? compute_type(from) : default_dtype(), compute_type(to));
}

}  // namespace

Tensor cast(const Operand& given, DType dtype, Overflow overflow) {
  const CallScope call("cast", given.where);
  const Tensor& x = checked(given.tensor());
  const Overflow usual = dtype == DType::f8_e4m3fn ? Overflow::saturate : Overflow::ieee;
  if (x.dtype() == dtype || !is_floating(dtype) || overflow == Overflow::by_format || overflow == usual) {
    return x.to(dtype);
  }
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor wide = x.to(wide_enough(x.dtype(), dtype));
    if (overflow == Overflow::saturate) {
      out = clip(wide, -largest(dtype), largest(dtype)).to(dtype);
    } else {  // 464 is a tie, and goes to 448
      const Tensor beyond = abs(wide) > 464;
      out = masked_fill(wide, beyond, NAN).to(dtype);
    }
  }
  if (should_record(x)) {
    record(
        out, [from = x.dtype()](Tensor&& g) { return g.to(from); }, x);
  }
  return out;
}

namespace {

std::vector<Values> cast_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), DType::f64}, {make.tensor({3}), DType::f64, "saturate"}};
}

Tensor call_cast(const Tensor& x, DType dtype, const std::string& overflow) {
  constexpr const char* names[] = {"by_format", "ieee", "saturate"};
  for (int i = 0; i < 3; ++i) {
    if (overflow == names[i]) {
      return cast(x, dtype, static_cast<Overflow>(i));
    }
  }
  raise_value("overflow", "'by_format', 'ieee' or 'saturate'", in_quotes(overflow));
}

const OpRecord all_copy_records[] = {
    {"cast", "cast(x, dtype, overflow='by_format')",
     "x in another dtype, rounded once. Beyond the largest number: infinity, or NaN in 8-bit floats other than "
     "float8_e5m2 ('ieee'); the same, but the largest in float8_e4m3fn ('by_format'); the largest ('saturate').",
     true, OpRecord::Domain::any, cast_samples, parts::copy, detail::boxed<&call_cast>}};

}  // namespace

std::span<const OpRecord> copy_records() { return all_copy_records; }

Tensor Tensor::to(Device target, Location where) const {
  const CallScope call("to", where);
  checked(*this);
  if (target == device()) return *this;
  if (target.type != DeviceType::cpu && target.type != DeviceType::meta) backend_of(target);
  Tensor source;
  {
    NoGradGuard unrecorded;
    source = contiguous();
  }
  Tensor out = make(sizes(), dtype(), target);
  transfer(out, source);
  if (should_record(*this)) {
    record(
        out, [from = this->device()](Tensor&& g) { return g.to(from); }, *this);
  }
  return out;
}

Tensor Tensor::to(Device target, CopyOptions options, Location where) const {
  const CallScope call("to", where);
  checked(*this);
  const Device from = device();
  const bool to_host = target.is_cpu() && !from.is_cpu() && from.type != DeviceType::meta;
  const bool to_device = from.is_cpu() && !target.is_cpu() && target.type != DeviceType::meta;
  if (!options.non_blocking || numel() == 0 || (!to_host && !to_device)) return to(target);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor source = contiguous();
    Backend& backend = backend_of(to_host ? from : target);
    out = to_host ? Tensor::adopt(detail::new_tensor(sizes(), dtype(), backend.pinned_allocator()))
                  : make(sizes(), dtype(), target);
    if (!transfer_queued(out, source)) transfer(out, source);
  }
  if (should_record(*this)) {
    record(
        out, [from](Tensor&& g) { return g.to(from); }, *this);
  }
  return out;
}

bool Tensor::is_pinned(std::optional<Device> device, Location where) const {
  const CallScope call("is_pinned", where);
  if (!checked(*this).device().is_cpu()) return false;
  const Allocator* const allocator = impl_->storage->allocator;
  if (allocator == nullptr || allocator == &cpu_allocator()) return false;
  for (const DeviceType type : detail::named_kinds()) {
    if (device && device->type != type) continue;
    Backend* backend = find_backend(type);
    if (backend != nullptr && is_pinned_for(*this, *backend)) return true;
  }
  return false;
}

namespace {

[[noreturn]] void raise_nothing_to_pin_for(std::span<const DeviceType> kinds) {
  std::string why;
  for (const DeviceType type : kinds) {
    const std::string name = Device(type).name();
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", name.substr(0, name.find(':')), why_no_device(type));
  }
  raise<DeviceError>({.problem = "there is no device to pin memory for", .details = why});
}

/// That of the kind, or of the first that there is.
Backend& backend_to_pin_for(std::optional<Device> device) {
  if (device && (device->is_cpu() || device->type == DeviceType::meta)) {
    raise_mismatch<DeviceError>("device", "CUDA, HPU or a plug-in's device", *device);
  }
  const std::vector<DeviceType> kinds = device ? std::vector{device->type} : accelerator_kinds();
  for (const DeviceType type : kinds) {
    if (Backend* const backend = find_backend(type)) return *backend;
  }
  raise_nothing_to_pin_for(kinds);
}

}  // namespace

Tensor Tensor::pin_memory(std::optional<Device> device, Location where) const {
  const CallScope call("pin_memory", where);
  checked(*this);
  if (is_pinned(device)) return *this;
  Backend* const backend = &backend_to_pin_for(device);
  Tensor out = Tensor::adopt(detail::new_tensor(sizes(), dtype(), backend->pinned_allocator()));
  {
    const NoGradGuard unrecorded;
    out.copy_(*this);
  }
  if (should_record(*this)) {
    record(
        out, [from = this->device()](Tensor&& g) { return g.to(from); }, *this);
  }
  return out;
}

Tensor Tensor::to(Device target, DType dtype, Location where) const {
  const CallScope call("to", where);
  // The conversion is done where the smaller of the two is the one that travels.
  const bool convert_first = weft::itemsize(dtype) < itemsize();
  return convert_first ? to(dtype).to(target) : to(target).to(dtype);
}

const Tensor& Tensor::copy_(const Tensor& source, Location where) const {
  const CallScope call("copy_", where);
  checked(*this);
  checked(source);
  if (source.impl() == impl_) return *this;
  check_target(*this);
  const bool same = same_sizes(layout(), source.layout());
  const auto fits = [&] {
    const auto joined = broadcast(sizes(), source.sizes());
    return joined && *joined == shape();
  };
  if (WEFT_UNLIKELY(!same && !fits())) {
    raise<ShapeError>({.problem = fmt::format("a source of shape {} does not broadcast to {}", source.shape().text(),
                                              shape().text())});
  }
  check_conversion(source.dtype(), dtype());
  const Tensor from = unaliased(source, *this);
  const auto write = [&] {
    if (WEFT_LIKELY(same)) copy_elements_unrecorded(*this, from.raw_view(), from);
    else copy_elements_unrecorded(*this, broadcast_view(from.raw_view(), sizes()), from);
  };
  const auto make_backward = [&] {
    return [own = source.shape(), type = source.dtype(), device = source.device()](Tensor&& g) {
      return unbroadcast(std::move(g), own, type, device);
    };
  };
  write_recorded(*this, write, make_backward, source);
  return *this;
}

const Tensor& Tensor::copy_(const Tensor& source, CopyOptions options, Location where) const {
  const CallScope call("copy_", where);
  checked(*this);
  checked(source);
  const bool alike = dtype() == source.dtype() && same_sizes(layout(), source.layout()) && is_contiguous() &&
                     source.is_contiguous() && numel() != 0;
  const bool recorded = should_record(source) || should_record(*this);
  if (!options.non_blocking || !alike || recorded) return copy_(source);
  check_target(*this);
  const auto write = [&] {
    if (!transfer_queued(*this, source)) copy_elements_unrecorded(*this, source.raw_view(), source);
  };
  write_recorded(*this, write, [] { return Overwritten(); });
  return *this;
}

const Tensor& Tensor::fill_(Scalar value, Location where) const {
  const CallScope call("fill_", where);
  check_target(*this);
  check_fits(value, dtype());
  write_recorded(
      *this, [&] { fill_elements(*this, value); }, [] { return Overwritten(); });
  return *this;
}

const Tensor& Tensor::zero_(Location where) const { return fill_(0, where); }

const Tensor& Tensor::fill_diagonal_(Scalar value, Location where) const {
  if (dim(where) == 2) return diagonal(0, 0, 1, where).fill_(value, where), *this;
  const Dims shape = this->shape(where), steps = strides(where);
  if (shape.size() < 2) raise<ShapeError>({.op = "fill_diagonal_", .problem = "x needs two or more dimensions"}, where);
  int64_t step = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] != shape[0]) {
      raise<ShapeError>({.op = "fill_diagonal_",
                         .problem = "x has more than two dimensions, which must be of one size",
                         .details = shape.text()},
                        where);
    }
    step += steps[d];
  }
  as_strided({shape[0]}, {step}, {}, where).fill_(value, where);
  return *this;
}

void Tensor::copy_elements(void* out, DType type, Location where) const {
  const char* const outer = detail::current_call.op;
  const CallScope call("to_vector", where);
  detail::refuse_recording("values are read on the host");
  check_conversion(checked(*this).dtype(), type);
  if (WEFT_UNLIKELY(detail::program_watch != nullptr) && detail::is_called_by_program(outer))
    detail::program_watch->on_detach(*this, {});
  NoGradGuard unrecorded;
  const Tensor host = to(Device());
  View target;
  target.data = out;
  target.layout = contiguous_layout(sizes(), type);
  host_kernels().copy(target, host.raw_view());
}

void Tensor::copy_single(void* out, DType type, Location where) const {
  const CallScope call("item", where);
  check_single(checked(*this));
  copy_elements(out, type, where);
}

Scalar Tensor::item_scalar(Location where) const {
  const char* const outer = detail::current_call.op;
  const CallScope call("item", where);
  check_single(checked(*this));
  if (WEFT_UNLIKELY(device().type == DeviceType::meta)) {
    raise<NotImplementedError>({.problem = "the result follows from values, which meta tensors lack"});
  }
  if (!impl_->wrapped_number) detail::refuse_recording("a value is read on the host");
  if (WEFT_UNLIKELY(detail::program_watch != nullptr) && detail::is_called_by_program(outer))
    detail::program_watch->on_detach(*this, {});
  alignas(max_item) unsigned char buffer[max_item];
  const void* element = data_ptr();
  if (!device().is_cpu()) {
    backend_of(device()).download(device().index, buffer, element, static_cast<size_t>(itemsize()));
    element = buffer;
  }
  return visit_dtype(dtype(), [&]<class T>() -> Scalar {
    const T value = element_at<T>(element);
    if constexpr (std::is_arithmetic_v<T>) return value;
    else if constexpr (ComplexNumber<T>) return value;
    else return to_float(value);
  });
}

namespace detail {

Tensor recorded_add(const Tensor& a, const Tensor& b) { return a + b; }
Tensor fresh_copy(const Tensor& source) { return recording() ? source.clone() : dense_copy(source); }

}  // namespace detail

}  // namespace weft
