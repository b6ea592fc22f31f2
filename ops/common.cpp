#include <weft/ops/detail/common.hpp>

#include <algorithm>

#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/overlap.hpp>

namespace weft {

std::string describe(const Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("{} {} on {}", name(t.dtype()), t.shape().text(), t.device().name());
}

void raise_missing_kernel(const char* op, Device device, Location where) {
  raise<NotImplementedError>({.op = op,
                              .problem = fmt::format("there is no kernel for {}", device.name()),
                              .remedy = "move the tensors to cpu with to(\"cpu\")"},
                             where);
}

void check_same_device(const char* op, Location where, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (first == nullptr) first = t;
    if (t->device() == first->device()) continue;
    raise<DeviceError>({.op = op,
                        .problem = "operands are on different devices",
                        .details = fmt::format("{} and {}", describe(*first), describe(*t)),
                        .remedy = "move one with to(device)"},
                       where);
  }
}

void check_in_place_device(const char* op, const Tensor& target, const Tensor& operand, Location where) {
  if (WEFT_LIKELY(target.device() == checked(operand, op, where).device())) return;
  if (operand.dim() == 0 && operand.device().is_cpu()) return;
  raise<DeviceError>(
      {.op = op,
       .problem = "an in-place result stays on its device, and an operand is on another",
       .details = fmt::format("target {}, operand {}", describe(target), describe(operand)),
       .remedy = fmt::format("use the out-of-place form, or move the operand with to(\"{}\")", target.device().name())},
      where);
}

Tensor index_numbers(const Tensor& index, Location where) {
  const DType t = index.dtype();
  if (t == DType::i32 || t == DType::i64) return index;
  if (t != DType::u64) return index.to(DType::i64, where);
  return minimum(Operand(index, where), Operand(INT64_MAX, where)).to(DType::i64, where);
}

Tensor without_repeats(const Tensor& t, Location where) {
  const NoGradGuard unrecorded;
  Tensor once = t;
  for (int d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.sizes()[d] > 1) once = once.narrow(d, 0, 1, where);
  }
  return once;
}

void check_floating(const char* op, const Tensor& t, Location where) {
  if (is_floating(t.dtype()) && !is_storage_only(t.dtype())) return;
  raise<DTypeError>({.op = op,
                     .problem = fmt::format("needs a floating-point tensor, not {}", name(t.dtype())),
                     .remedy = "convert it with to(weft::f32)"},
                    where);
}

void raise_unfit_target(const char* op, DType dtype, const Tensor& target, Location where) {
  raise<DTypeError>({.op = op,
                     .problem = fmt::format("a {} result cannot be written into {}", name(dtype), name(target.dtype())),
                     .remedy = "use the out-of-place form, or convert the target first"},
                    where);
}

void check_writable(const Tensor& target, const char* op, Location where) {
  detail::current_op = {op, where};
  const Layout& layout = target.raw_view().layout;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] <= 1 || layout.strides[i] != 0) continue;
    raise<ValueError>(
        {.op = op,
         .problem = fmt::format("cannot write to an expanded tensor: dimension {} of {} repeats one element", i,
                                target.shape().text()),
         .remedy = "clone() it first"},
        where);
  }
  if (WEFT_UNLIKELY(overlaps(layout))) {
    raise<ValueError>({.op = op,
                       .problem = fmt::format("cannot write to a tensor whose elements overlap: strides {} of shape {}",
                                              target.strides().text(), target.shape().text()),
                       .remedy = "clone() it first"},
                      where);
  }
}

void check_out_unrecorded(const char* op, std::initializer_list<const Tensor*> tensors, Location where) {
  if (!recording()) return;
  for (const Tensor* t : tensors) {
    if (!needs_gradient(t->impl())) continue;
    raise<AutogradError>(
        {.op = op,
         .problem = "writing into an existing tensor is not recorded, but an operand requires a gradient",
         .remedy = "use the form that returns its result, or NoGradGuard"},
        where);
  }
}

void check_out(const char* op, const Tensor& out, std::span<const int64_t> sizes, DType dtype, Device device,
               std::initializer_list<const Tensor*> inputs, Location where) {
  if (!std::ranges::equal(out.sizes(), sizes) || out.dtype() != dtype || out.device() != device) {
    raise<ShapeError>({.op = op,
                       .problem = "the target does not fit the result",
                       .details = fmt::format("target {}, result {} {} on {}", describe(out), name(dtype),
                                              Dims(sizes).text(), device.name())},
                      where);
  }
  check_writable(out, op, where);
  check_out_unrecorded(op, {&out}, where);
  check_out_unrecorded(op, inputs, where);
}

Tensor sum_to(Tensor&& g, std::span<const int64_t> sizes, Location where) {
  const int extra = g.dim() - static_cast<int>(sizes.size());
  Dims reduced;
  for (int i = 0; i < g.dim(); ++i) {
    const bool added = i < extra;
    if (added || (sizes[i - extra] == 1 && g.sizes()[i] != 1)) reduced.push_back(i);
  }
  Tensor out = std::move(g);
  if (!reduced.empty()) out = sum(out, reduced, true, {}, where);
  if (extra > 0) out = out.view(Dims(sizes), where);
  return out;
}

}  // namespace weft
