// Tensors that change their own shape or memory.
#include "../../autograd/head.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/expect-inl.hpp"
#include "../detail/common.hpp"

namespace weft {

namespace {

/// Gives x the shape of `view()`. The history of a result is kept under NoGradGuard too, since its node would get
/// gradients of the wrong shape.
template <class MakeView>
const Tensor& become(const Tensor& x, const char* op, Location where, MakeView view) {
  const CallScope call(op, where);
  check_inplace(checked(x));
  const GradModeGuard mode({.enabled = needs_gradient(x.impl()) && !x.impl()->accumulates});
  detail::adopt_view(x, view());
  return x;
}

void check_same_type(const Tensor& x, const Tensor& source) {
  if (x.dtype() != source.dtype()) {
    raise<DTypeError>({.problem = mismatch_text("source", x.dtype(), source.dtype())});
  }
  if (x.device() == source.device()) return;
  raise<DeviceError>(
      {.problem = fmt::format("source: expected {}, got {}", x.device().name(), source.device().name())});
}

void check_unrecorded(const Tensor& x, const Tensor& source) {
  check_inplace(x);
  if (!should_record(x, source)) return;
  raise<AutogradError>({.problem = "gradients do not flow through a change of memory",
                        .remedy = "call detach() first, or use NoGradGuard"});
}

/// All elements of x's storage, whole ones, as a 1-d tensor.
Tensor storage_of(const Tensor& x) {
  const auto count = static_cast<int64_t>(x.impl()->storage->bytes) / x.itemsize();
  return x.detach().as_strided({count}, {1}, 0);
}

Tensor contiguous_part(const Tensor& memory, const Dims& shape, int64_t offset) {
  return memory.narrow(0, offset, shape.product()).view(shape);
}

}  // namespace

const Tensor& Tensor::squeeze_(Location where) const {
  return become(*this, "squeeze_", where, [&] { return squeeze(); });
}
const Tensor& Tensor::squeeze_(int dim, Location where) const {
  return become(*this, "squeeze_", where, [&] { return squeeze(dim); });
}
const Tensor& Tensor::squeeze_(const Dims& dims, Location where) const {
  return become(*this, "squeeze_", where, [&] {
    Tensor view = *this;
    unsigned chosen = 0;
    for (const int64_t d : dims) chosen |= 1u << wrap_dim(d, dim());
    for (int d = max_rank; d >= 0; --d) {
      if ((chosen >> d & 1) != 0) view = view.squeeze(d);
    }
    return view;
  });
}
const Tensor& Tensor::unsqueeze_(int dim, Location where) const {
  return become(*this, "unsqueeze_", where, [&] { return unsqueeze(dim); });
}
const Tensor& Tensor::transpose_(int dim0, int dim1, Location where) const {
  return become(*this, "transpose_", where, [&] { return transpose(dim0, dim1); });
}
const Tensor& Tensor::t_(Location where) const {
  return become(*this, "t_", where, [&] { return t(); });
}
const Tensor& Tensor::swapaxes_(int dim0, int dim1, Location where) const {
  return become(*this, "swapaxes_", where, [&] { return transpose(dim0, dim1); });
}
const Tensor& Tensor::swapdims_(int dim0, int dim1, Location where) const {
  return become(*this, "swapdims_", where, [&] { return transpose(dim0, dim1); });
}
const Tensor& Tensor::as_strided_(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset,
                                  Location where) const {
  return become(*this, "as_strided_", where, [&] { return as_strided(shape, strides, storage_offset); });
}

const Tensor& Tensor::resize_(const Dims& shape, Location where) const {
  const CallScope call("resize_", where);
  if (needs_gradient(checked(*this).impl())) {
    raise<AutogradError>({.problem = "a tensor that requires a gradient cannot be resized",
                          .details = this->shape().text() + " to " + shape.text(),
                          .remedy = "resize detach()ed memory, or make a new tensor"});
  }
  if (this->shape() == shape) return *this;
  const NoGradGuard unrecorded;
  check_sizes(shape, dtype());
  const Tensor memory = storage_of(*this);
  const int64_t offset = memory.numel() == 0 ? 0 : storage_offset();
  const int64_t needed = shape.product() == 0 ? 0 : offset + shape.product();
  if (needed <= memory.numel()) {
    detail::adopt_view(*this, contiguous_part(memory, shape, offset));
    return *this;
  }
  if (detail::owning_storage(*impl_->storage).external) {
    raise<ValueError>(
        {.problem = fmt::format("memory from outside has {} elements, {} are needed", memory.numel(), needed),
         .remedy = "clone() it first"});
  }
  const Tensor larger = make(Dims{needed}, dtype(), device());
  if (memory.numel() != 0 && device().type != DeviceType::meta) larger.narrow(0, 0, memory.numel()).copy_(memory);
  detail::adopt_memory(*this, contiguous_part(larger, shape, offset));
  return *this;
}

const Tensor& Tensor::resize_as_(const Tensor& other, Location where) const {
  const CallScope call("resize_as_", where);
  return resize_(checked(other).shape());
}

const Tensor& Tensor::set_(Location where) const {
  const CallScope call("set_", where);
  return set_(make(Dims(0), checked(*this).dtype(), device()));
}
const Tensor& Tensor::set_(const Tensor& source, Location where) const {
  const CallScope call("set_", where);
  check_same_type(checked(*this), checked(source));
  check_unrecorded(*this, source);
  detail::adopt_memory(*this, source);
  return *this;
}
const Tensor& Tensor::set_(const Tensor& source, int64_t storage_offset, const Dims& shape, const Dims& strides,
                           Location where) const {
  const CallScope call("set_", where);
  checked(*this), checked(source);
  check_unrecorded(*this, source);
  return set_(source.detach().as_strided(shape, strides, storage_offset));
}

}  // namespace weft
