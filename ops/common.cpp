#include "detail/common.hpp"

#include <algorithm>
#include <array>

#include "create.hpp"
#include "detail/zero_slopes.hpp"
#include "pointwise.hpp"
#include "reduce.hpp"
#include "../tensor/overlap.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft {

std::string describe(const Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("{} {} on {}", name(t.dtype()), t.shape().text(), t.device().name());
}

void raise_missing_kernel(Device device) {
  raise<NotImplementedError>({.problem = fmt::format("there is no kernel for {}", device.name()),
                              .remedy = "move the tensors to cpu with to(\"cpu\")"});
}

void check_same_device(std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (first == nullptr) first = t;
    if (t->device() == first->device()) continue;
    raise<DeviceError>({.problem = "operands are on different devices",
                        .details = fmt::format("{} and {}", describe(*first), describe(*t)),
                        .remedy = "move one with to(device)"});
  }
}

void check_in_place_device(const Tensor& target, const Tensor& operand) {
  if (WEFT_LIKELY(target.device() == checked(operand).device())) return;
  if (operand.dim() == 0 && operand.device().is_cpu()) return;
  raise<DeviceError>({.problem = "an in-place result stays on its device, and an operand is on another",
                      .details = fmt::format("target {}, operand {}", describe(target), describe(operand)),
                      .remedy = fmt::format("use the out-of-place form, or move the operand with to(\"{}\")",
                                            target.device().name())});
}

Tensor index_numbers(const Tensor& index) {
  const DType t = index.dtype();
  if (t == DType::i32 || t == DType::i64) return index;
  if (t != DType::u64) return index.to(DType::i64);
  return minimum(index, INT64_MAX).to(DType::i64);
}

Tensor without_repeats(const Tensor& t) {
  const NoGradGuard unrecorded;
  Tensor once = t;
  for (int d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.sizes()[d] > 1) once = once.narrow(d, 0, 1);
  }
  return once;
}

void check_floating(const Tensor& t) {
  if (is_floating(t.dtype()) && !is_storage_only(t.dtype())) return;
  raise_dtype("", "a floating-point tensor", t.dtype(), "convert it with to(weft::f32)");
}

void raise_target_dtype(DType dtype, const Tensor& target) {
  raise<DTypeError>({.problem = fmt::format("a {} result cannot be written into {}", name(dtype), name(target.dtype())),
                     .remedy = "use the out-of-place form, or convert the target first"});
}

void check_target_dtype(DType dtype, const Tensor& target) {
  const auto rank = [](DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::boolean ? 0 : 1; };
  if (WEFT_UNLIKELY(rank(dtype) > rank(target.dtype()))) raise_target_dtype(dtype, target);
}

void check_writable(const Tensor& target) {
  const Layout& layout = target.raw_view().layout;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] <= 1 || layout.strides[i] != 0) continue;
    raise<ValueError>(
        {.problem = fmt::format("cannot write to an expanded tensor: dimension {} of {} repeats one element", i,
                                target.shape().text()),
         .remedy = "clone() it first"});
  }
  if (WEFT_UNLIKELY(overlaps(layout))) {
    raise<ValueError>(
        {.problem = fmt::format("cannot write to a tensor with overlapping elements: strides {} of shape {}",
                                target.strides().text(), target.shape().text()),
         .remedy = "clone() it first"});
  }
}

void check_out_unrecorded(std::initializer_list<const Tensor*> tensors) {
  if (!recording()) return;
  for (const Tensor* t : tensors) {
    if (!needs_gradient(t->impl())) continue;
    raise<AutogradError>(
        {.problem = "writing into an existing tensor is not recorded, but an operand requires a gradient",
         .remedy = "use the form that returns its result, or NoGradGuard"});
  }
}

void check_out(const Tensor& out, std::span<const int64_t> sizes, DType dtype, Device device,
               std::initializer_list<const Tensor*> inputs) {
  const auto refuse = [&]<class E>(std::type_identity<E>) {
    raise<E>({.problem = "the target does not fit the result",
              .details = fmt::format("target {}, result {} {} on {}", describe(out), name(dtype), Dims(sizes).text(),
                                     device.name())});
  };
  if (WEFT_UNLIKELY(out.device() != device)) refuse(std::type_identity<DeviceError>());
  if (WEFT_UNLIKELY(out.dtype() != dtype)) refuse(std::type_identity<DTypeError>());
  if (WEFT_UNLIKELY(!std::ranges::equal(out.sizes(), sizes))) refuse(std::type_identity<ShapeError>());
  check_writable(out);
  check_out_unrecorded({&out});
  check_out_unrecorded(inputs);
}

Tensor sum_to(Tensor&& g, std::span<const int64_t> sizes) {
  const int extra = g.dim() - static_cast<int>(sizes.size());
  Dims reduced;
  for (int i = 0; i < g.dim(); ++i) {
    const bool added = i < extra;
    if (added || (sizes[i - extra] == 1 && g.sizes()[i] != 1)) reduced.push_back(i);
  }
  Tensor out = std::move(g);
  if (!reduced.empty()) out = sum(out, reduced, true);
  if (extra > 0) out = out.view(Dims(sizes));
  return out;
}

namespace {

constexpr size_t most_operands = 3;

struct ZeroSlopes {
  std::array<Dims, most_operands> shapes;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    for (int i = 0; i < static_cast<int>(most_operands); ++i) {
      if (self.wants(i + 1)) outgoing[i + 1] = zeros(shapes[i], {incoming[0].dtype(), incoming[0].device()});
    }
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

}  // namespace

Tensor with_zero_slopes(Tensor gradient, const Node& node, std::span<const Dims> shapes) {
  if (!recording()) return gradient;
  ZeroSlopes slopes;
  std::ranges::copy(shapes, slopes.shapes.begin());
  NodeHandle made(make_node<most_operands + 1>(std::move(slopes)));
  set_edge(made.get(), 0, gradient.impl());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Edge& edge = node.edges[i];
    if (!edge) continue;
    made.get()->edges[i + 1].set(edge.node(), edge.output());
    made.get()->order = std::max(made.get()->order, edge.node()->order + 1);
  }
  const NoGradGuard unrecorded;
  const Tensor out = gradient.clone();
  set_history(out.impl(), made.take());
  return out;
}

Tensor without_elements(const Tensor& x, std::span<const int64_t> sizes) {
  const Tensor out = make(sizes, x.dtype(), x.device());
  const auto zero = [shape = x.shape()](Tensor&& g) { return zeros(shape, {g.dtype(), g.device()}); };
  if (should_record(x)) record(out, zero, x);
  return out;
}

}  // namespace weft
