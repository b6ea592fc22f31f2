// Functions that are no ops with a record of their own: creation, views, copies, writes in place, random numbers with a
// generator. They are called as the ops are, by a schema.
#include "methods.hpp"

#include <algorithm>

#include "../ops/create.hpp"
#include "../ops/index.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/random.hpp"
#include "../ops/scan.hpp"
#include "../ops/scatter.hpp"
#include "../tensor/checked.hpp"
#include "../tensor/layout.hpp"

#include "generator.hpp"

namespace weft::detail {
template <>
struct Unbox<Device> {
  static Device from(const Value& v) { return Device(std::string_view(std::get<std::string>(v))); }
};
}  // namespace weft::detail

namespace weft::python {

namespace {

using detail::boxed;
using MaybeBool = std::optional<bool>;
using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;
using MaybeInt = std::optional<int64_t>;

TensorOptions options(MaybeType dtype, MaybeDevice device, MaybeBool grad) {
  return {dtype, device.value_or(Device()), grad.value_or(false)};
}

// ---- creation ----

template <Tensor (*make)(const Dims&, TensorOptions, Location)>
Tensor filled(const Dims& size, MaybeType dtype, MaybeDevice device, MaybeBool grad, Location where) {
  return make(size, options(dtype, device, grad), where);
}

Tensor full_of(const Dims& size, const Operand& number, MaybeType dtype, MaybeDevice device, MaybeBool grad,
               Location where) {
  const Scalar value = number.tensor().item_scalar(where);
  return full(size, value, options(dtype, device, grad), where);
}

Tensor range(Scalar start, std::optional<Scalar> end, std::optional<Scalar> step, MaybeType dtype, MaybeDevice device,
             MaybeBool grad, Location where) {
  const Scalar first = end ? start : Scalar(0), last = end ? *end : start, by = step.value_or(1);
  return arange(first, last, by, options(dtype, device, grad), where);
}

Tensor spaced(double start, double end, int64_t steps, MaybeType dtype, MaybeDevice device, MaybeBool grad,
              Location where) {
  return linspace(start, end, steps, options(dtype, device, grad), where);
}

Tensor identity(int64_t n, MaybeInt m, MaybeType dtype, MaybeDevice device, MaybeBool grad, Location where) {
  return eye(n, m, options(dtype, device, grad), where);
}

// As `like` where nothing else is asked.
template <Tensor (*make)(const Dims&, TensorOptions, Location)>
Tensor like(const Tensor& x, MaybeType dtype, MaybeDevice device, MaybeBool grad, Location where) {
  return make(x.shape(), {dtype.value_or(x.dtype()), device.value_or(x.device()), grad.value_or(false)}, where);
}
Tensor full_as(const Tensor& x, const Operand& number, MaybeType dtype, MaybeDevice device, MaybeBool grad,
               Location where) {
  const Scalar value = number.tensor().item_scalar(where);
  return full(x.shape(), value, {dtype.value_or(x.dtype()), device.value_or(x.device()), grad.value_or(false)}, where);
}

// ---- random numbers ----

template <Tensor (*make)(const Dims&, TensorOptions, Generator*, Location)>
Tensor drawn(const Dims& size, MaybeInt generator, MaybeType dtype, MaybeDevice device, MaybeBool grad,
             Location where) {
  return make(size, options(dtype, device, grad), find_generator(generator), where);
}
template <Tensor (*make)(const Dims&, TensorOptions, Generator*, Location)>
Tensor drawn_like(const Tensor& x, MaybeInt generator, MaybeType dtype, MaybeDevice device, MaybeBool grad,
                  Location where) {
  return make(x.shape(), {dtype.value_or(x.dtype()), device.value_or(x.device()), grad.value_or(false)},
              find_generator(generator), where);
}
// randint(high, size) and randint(low, high, size).
Tensor integers(int64_t low, const Value& high, std::optional<Dims> size, MaybeInt generator, MaybeType dtype,
                MaybeDevice device, Location where) {
  const auto* to = std::get_if<int64_t>(&high);
  if (size && to == nullptr) throw BadArgument(1);
  const Dims shape = size ? *size : detail::Unbox<Dims>::from(high);
  return randint(size ? low : 0, size ? *to : low, shape, options(dtype, device, {}), find_generator(generator), where);
}
Tensor permutation(int64_t n, MaybeInt generator, MaybeType dtype, MaybeDevice device, Location where) {
  return randperm(n, options(dtype, device, {}), find_generator(generator), where);
}
Tensor coins(const Tensor& x, std::optional<double> p, MaybeInt generator, Location where) {
  if (!p) return bernoulli(x, find_generator(generator), where);
  return bernoulli_(empty_like(x, where), *p, find_generator(generator), where);
}
Tensor uniform_in(const Tensor& x, std::optional<double> from, std::optional<double> to, MaybeInt generator,
                  Location where) {
  return uniform_(x, from.value_or(0), to.value_or(1), find_generator(generator), where);
}
Tensor normal_in(const Tensor& x, std::optional<double> mean, std::optional<double> std, MaybeInt generator,
                 Location where) {
  return normal_(x, mean.value_or(0), std.value_or(1), find_generator(generator), where);
}
Tensor coins_in(const Tensor& x, std::optional<double> p, MaybeInt generator, Location where) {
  return bernoulli_(x, p.value_or(0.5), find_generator(generator), where);
}
Tensor dropped(const Tensor& x, std::optional<double> p, MaybeBool training, MaybeInt generator, Location where) {
  return dropout(x, p.value_or(0.5), training.value_or(true), find_generator(generator), where);
}

// ---- views ----

Tensor squeezed(const Tensor& x, std::optional<Dims> dims, Location where) {
  if (!dims) return x.squeeze(where);
  std::vector<int> order;
  for (const int64_t d : *dims) order.push_back(wrap_dim(d, x.dim()));
  std::ranges::sort(order, std::greater<>());
  Tensor result = x;
  for (const int d : order) result = result.squeeze(d, where);
  return result;
}

std::vector<Tensor> split_into(const Tensor& x, const Value& sizes, MaybeInt dim, Location where) {
  const int along = static_cast<int>(dim.value_or(0));
  if (std::holds_alternative<int64_t>(sizes) || std::holds_alternative<Tensor>(sizes)) {
    return x.split(detail::unboxed<int64_t>(sizes, 1), along, where);
  }
  const Dims lengths = detail::unboxed<Dims>(sizes, 1);
  Checked total = 0;
  for (const int64_t n : lengths) total += n;
  if (!total.fits() || total.value() != x.size(along, where)) {
    raise<ShapeError>({.op = "split",
                       .problem = "the sizes do not add up to the dimension's",
                       .details = lengths.text() + " of " + x.shape().text()},
                      where);
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (const int64_t n : lengths) {
    parts.push_back(x.narrow(along, start, n, where));
    start += n;
  }
  return parts;
}

// to(device, dtype, non_blocking, copy), to(dtype, non_blocking, copy) and to(other, non_blocking, copy).
Tensor to_other(const Tensor& x, const Value& target, const Value& second, MaybeBool third, MaybeBool copy,
                MaybeDevice device, Location where) {
  MaybeType dtype;
  if (std::holds_alternative<bool>(second)) copy = third ? third : copy;
  else dtype = detail::unboxed<MaybeType>(second, 2);
  if (auto* like = std::get_if<Tensor>(&target)) {
    device = like->device();
    dtype = like->dtype();
  } else if (auto* type = std::get_if<DType>(&target)) {
    dtype = *type;
  } else if (std::holds_alternative<std::string>(target)) {
    device = detail::Unbox<Device>::from(target);
  } else if (!std::holds_alternative<std::monostate>(target)) {
    throw BadArgument(1);
  }
  Tensor result = x;
  if (device) result = result.to(*device, where);
  if (dtype) result = result.to(*dtype, where);
  return copy.value_or(false) && result.shares_storage(x) ? result.clone(where) : result;
}

// The same bytes as elements of another type; the last dimension grows or shrinks with the element's size.
Tensor reshaped_view(const Tensor& x, DType dtype, Location where) {
  const auto refuse = [&](const char* problem) {
    raise<ShapeError>({.op = "view", .problem = problem, .details = x.shape().text() + " as " + name(dtype)}, where);
  };
  Layout layout = x.raw_view().layout;
  const int64_t from = x.itemsize(), to = itemsize(dtype);
  layout.dtype = dtype;
  if (from != to) {
    if (layout.rank == 0) refuse("a 0-d tensor cannot be seen with elements of another size");
    const int last = layout.rank - 1;
    if (layout.sizes[last] > 1 && layout.strides[last] != from) refuse("the last dimension must have no gaps");
    if (layout.sizes[last] * from % to != 0) refuse("the last dimension is no multiple of the new element size");
    layout.sizes[last] = layout.sizes[last] * from / to;
    layout.strides[last] = to;
    for (int i = 0; i < last; ++i) {
      if (layout.strides[i] % to != 0) refuse("the strides are no multiples of the new element size");
    }
    if (reinterpret_cast<uintptr_t>(x.data_ptr()) % static_cast<uintptr_t>(to) != 0)
      refuse("the address is not aligned");
  }
  finish_layout(layout);
  return Tensor::adopt(detail::new_alias(x.impl(), layout, x.data_ptr()));
}

// ---- in place ----

Tensor limited_in(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high, Location where) {
  const Tensor old = x.requires_grad() ? x.clone(where) : x;  // its gradient reads the old value
  return x.copy_(clip(Operand(old, where), low, high), where);
}

constexpr PointwiseFunctions unary(Tensor (*f)(const Operand&)) { return {.unary = f}; }

#define WEFT_OPTIONS "dtype=None, device=None, requires_grad=False)"
#define WEFT_VIEW " The result is a view: it shares the elements."
constexpr Callable callables[] = {
    {"empty", "empty(*size, " WEFT_OPTIONS, "A tensor whose elements are not set.", boxed<&filled<empty>>},
    {"zeros", "zeros(*size, " WEFT_OPTIONS, "Zeros.", boxed<&filled<zeros>>},
    {"ones", "ones(*size, " WEFT_OPTIONS, "Ones.", boxed<&filled<ones>>},
    {"full", "full(size, fill_value, *, " WEFT_OPTIONS,
     "One value everywhere; the dtype follows it (bool, int64 or float32) unless given.", boxed<&full_of>},
    {"arange", "arange(start, end=None, step=1, *, " WEFT_OPTIONS,
     "start, start + step, … before end; one argument counts from 0. int64 where all are integers, else float32.",
     boxed<&range>},
    {"linspace", "linspace(start, end, steps, *, " WEFT_OPTIONS, "`steps` values from start to end, both included.",
     boxed<&spaced>},
    {"eye", "eye(n, m=None, *, " WEFT_OPTIONS, "Ones on the diagonal.", boxed<&identity>},
    {"empty_like", "empty_like(x, *, " WEFT_OPTIONS, "empty with x's shape, dtype and device.", boxed<&like<empty>>},
    {"zeros_like", "zeros_like(x, *, " WEFT_OPTIONS, "zeros with x's shape, dtype and device.", boxed<&like<zeros>>},
    {"ones_like", "ones_like(x, *, " WEFT_OPTIONS, "ones with x's shape, dtype and device.", boxed<&like<ones>>},
    {"full_like", "full_like(x, fill_value, *, " WEFT_OPTIONS, "full with x's shape, dtype and device.",
     boxed<&full_as>},

    {"rand", "rand(*size, generator=None, " WEFT_OPTIONS, "Uniform in [0, 1).", boxed<&drawn<rand>>},
    {"randn", "randn(*size, generator=None, " WEFT_OPTIONS, "Normal with mean 0 and deviation 1.",
     boxed<&drawn<randn>>},
    {"rand_like", "rand_like(x, *, generator=None, " WEFT_OPTIONS, "rand with x's shape, dtype and device.",
     boxed<&drawn_like<rand>>},
    {"randn_like", "randn_like(x, *, generator=None, " WEFT_OPTIONS, "randn with x's shape, dtype and device.",
     boxed<&drawn_like<randn>>},
    {"randint", "randint(low, high, size=None, *, generator=None, dtype=None, device=None)",
     "Integers in [low, high), int64; randint(high, size) counts from 0.", boxed<&integers>},
    {"randperm", "randperm(n, *, generator=None, dtype=None, device=None)", "0 … n - 1 in random order.",
     boxed<&permutation>},
    {"bernoulli", "bernoulli(x, p=None, *, generator=None)",
     "1 with the probability that each element gives, or p, else 0.", boxed<&coins>},
    {"dropout", "dropout(x, p=0.5, training=True, *, generator=None)",
     "In training zeroes each element with probability p and scales the rest by 1 / (1 - p); else x itself.",
     boxed<&dropped>},
    {"uniform_", "uniform_(x, from_=0.0, to=1.0, *, generator=None)", "Overwrites x with uniform numbers.",
     boxed<&uniform_in>},
    {"normal_", "normal_(x, mean=0.0, std=1.0, *, generator=None)", "Overwrites x with normal numbers.",
     boxed<&normal_in>},
    {"bernoulli_", "bernoulli_(x, p=0.5, *, generator=None)", "Overwrites x with 1 with probability p, else 0.",
     boxed<&coins_in>},

    {"reshape", "reshape(x, *shape)", "x with other sizes, one of which may be -1: a view where the strides allow it.",
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.reshape(shape, w); }>},
    {"_view", "view(x, *shape)", "x with other sizes, one of which may be -1." WEFT_VIEW,
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.view(shape, w); }>},
    {"_view_as_dtype", "view(x, dtype)", "The same bytes as elements of another dtype." WEFT_VIEW,
     boxed<&reshaped_view>},
    {"transpose", "transpose(x, dim0, dim1)", "x with two dimensions exchanged." WEFT_VIEW,
     boxed<+[](const Tensor& x, int a, int b, Location w) { return x.transpose(a, b, w); }>},
    {"t", "t(x)", "The transpose of a tensor of rank 2 or less." WEFT_VIEW,
     boxed<+[](const Tensor& x, Location w) { return x.t(w); }>},
    {"permute", "permute(x, *dims)", "x with its dimensions in another order." WEFT_VIEW,
     boxed<+[](const Tensor& x, const Dims& dims, Location w) { return x.permute(dims, w); }>},
    {"select", "select(x, dim, index)", "x[index] along dim." WEFT_VIEW,
     boxed<+[](const Tensor& x, int dim, int64_t index, Location w) { return x.select(dim, index, w); }>},
    {"narrow", "narrow(x, dim, start, length)", "x[start:start + length] along dim." WEFT_VIEW,
     boxed<+[](const Tensor& x, int dim, int64_t start, int64_t length, Location w) {
       return x.narrow(dim, start, length, w);
     }>},
    {"unsqueeze", "unsqueeze(x, dim)", "x with a dimension of size 1 more." WEFT_VIEW,
     boxed<+[](const Tensor& x, int dim, Location w) { return x.unsqueeze(dim, w); }>},
    {"squeeze", "squeeze(x, dim=None)", "x without its dimensions of size 1." WEFT_VIEW, boxed<&squeezed>},
    {"expand", "expand(x, *sizes)", "x repeated along dimensions of size 1 without a copy." WEFT_VIEW,
     boxed<+[](const Tensor& x, const Dims& sizes, Location w) { return x.expand(sizes, w); }>},
    {"broadcast_to", "broadcast_to(x, *shape)", "x expanded to a shape." WEFT_VIEW,
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.expand(shape, w); }>},
    {"diagonal", "diagonal(x, offset=0, dim1=0, dim2=1)", "The diagonal, as the last dimension." WEFT_VIEW,
     boxed<+[](const Tensor& x, MaybeInt offset, std::optional<int> a, std::optional<int> b, Location w) {
       return x.diagonal(offset.value_or(0), a.value_or(0), b.value_or(1), w);
     }>},
    {"flatten", "flatten(x, start_dim=0, end_dim=-1)", "Dimensions start_dim … end_dim as one.",
     boxed<+[](const Tensor& x, std::optional<int> from, std::optional<int> to, Location w) {
       return x.flatten(from.value_or(0), to.value_or(-1), w);
     }>},
    {"as_strided", "as_strided(x, size, stride, storage_offset=None)",
     "The storage with these sizes, strides and offset, in elements." WEFT_VIEW,
     boxed<+[](const Tensor& x, const Dims& size, const Dims& stride, MaybeInt offset, Location w) {
       return x.as_strided(size, stride, offset, w);
     }>},
    {"split", "split(x, split_size, dim=0)", "Views of split_size along dim, or of a list of sizes.",
     boxed<&split_into>},
    {"chunk", "chunk(x, chunks, dim=0)", "At most `chunks` views of about one size along dim.",
     boxed<+[](const Tensor& x, int64_t n, std::optional<int> dim, Location w) {
       return x.chunk(n, dim.value_or(0), w);
     }>},
    {"unbind", "unbind(x, dim=0)", "Views x[0], x[1], … along dim.",
     boxed<+[](const Tensor& x, std::optional<int> dim, Location w) { return x.unbind(dim.value_or(0), w); }>},
    {"clone", "clone(x)", "A copy; recorded by autograd.",
     boxed<+[](const Tensor& x, Location w) { return x.clone(w); }>},
    {"contiguous", "contiguous(x)", "x itself where it is row-major without gaps, else a copy.",
     boxed<+[](const Tensor& x, Location w) { return x.contiguous(w); }>},
    {"detach", "detach(x)", "The same elements outside the graph." WEFT_VIEW,
     boxed<+[](const Tensor& x) { return x.detach(); }>},
    {"to", "to(x, other=None, dtype=None, non_blocking=False, copy=False, *, device=None)",
     "x as another dtype or on another device, or like another tensor; x itself where nothing changes.",
     boxed<&to_other>},

    {"copy_", "copy_(x, source)", "Writes source into x, converted and broadcast.",
     boxed<+[](const Tensor& x, const Tensor& source, Location w) -> Tensor { return x.copy_(source, w); }>},
    {"fill_", "fill_(x, value)", "Writes one value everywhere.",
     boxed<+[](const Tensor& x, const Operand& value, Location w) -> Tensor {
       return x.fill_(value.tensor().item_scalar(w), w);
     }>},
    {"zero_", "zero_(x)", "Writes zeros.", boxed<+[](const Tensor& x, Location w) -> Tensor { return x.zero_(w); }>},
    {"masked_fill_", "masked_fill_(x, mask, value)", "Writes value where mask holds.",
     boxed<+[](const Tensor& x, const Tensor& mask, const Operand& value) -> Tensor {
       return masked_fill_(x, mask, value);
     }>},
    {"index_add_", "index_add_(x, dim, index, source, *, alpha=1)", "index_add in place.",
     boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source, std::optional<Scalar> alpha,
               Location w) -> Tensor { return index_add_(x, dim, index, source, alpha.value_or(1), w); }>},
    {"scatter_add_", "scatter_add_(x, dim, index, source)", "scatter_add in place.",
     boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location w) -> Tensor {
       return scatter_add_(x, dim, index, source, w);
     }>},
    {"cumsum_", "cumsum_(x, dim)", "cumsum in place.",
     boxed<+[](const Tensor& x, int64_t dim, Location w) -> Tensor { return cumsum_(x, dim, false, false, w); }>},
    {"clip_", "clip_(x, low=None, high=None)", "clip in place.", boxed<&limited_in>},
    {"clamp_", "clamp_(x, low=None, high=None)", "clip in place.", boxed<&limited_in>},
    {"requires_grad_", "requires_grad_(x, requires_grad=True)", "Switches the recording of x on or off.",
     boxed<+[](const Tensor& x, MaybeBool on, Location w) -> Tensor {
       return x.requires_grad_(on.value_or(true), w);
     }>},
    {"retain_grad", "retain_grad(x)", "Keeps the gradient of a result in .grad.",
     boxed<+[](const Tensor& x, Location w) -> Tensor {
       x.retain_grad(w);
       return x;
     }>},

    {"logical_not", "logical_not(x)", "True where x is zero.", boxed<&logical_not>, unary(logical_not)},
    {"isnan", "isnan(x)", "True where x is NaN.", boxed<&isnan>, unary(isnan)},
    {"isinf", "isinf(x)", "True where x is infinite.", boxed<&isinf>, unary(isinf)},
    {"isfinite", "isfinite(x)", "True where x is a finite number.", boxed<&isfinite>, unary(isfinite)},
};
#undef WEFT_OPTIONS
#undef WEFT_VIEW

}  // namespace

std::span<const Callable> method_table() { return callables; }

}  // namespace weft::python
