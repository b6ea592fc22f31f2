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
  static constexpr ArgumentType type{ArgumentType::Kind::device};
  static Device from(const Value& v) { return Device(std::string_view(std::get<std::string>(v))); }
};
}  // namespace weft::detail

namespace weft::python {

namespace {

using detail::boxed;
using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;
using MaybeInt = std::optional<int64_t>;

TensorOptions options(MaybeType dtype, MaybeDevice device, bool grad) {
  return {dtype, device.value_or(Device()), grad};
}

// ---- creation ----

template <Tensor (*make)(const Dims&, TensorOptions, Location)>
Tensor filled(const Dims& size, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return make(size, options(dtype, device, grad), where);
}

Tensor full_of(const Dims& size, const Operand& number, MaybeType dtype, MaybeDevice device, bool grad,
               Location where) {
  const Scalar value = number.tensor().item_scalar(where);
  return full(size, value, options(dtype, device, grad), where);
}

Tensor range(Scalar start, std::optional<Scalar> end, Scalar step, MaybeType dtype, MaybeDevice device, bool grad,
             Location where) {
  const Scalar first = end ? start : Scalar(0), last = end ? *end : start;
  return arange(first, last, step, options(dtype, device, grad), where);
}

Tensor spaced(double start, double end, int64_t steps, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return linspace(start, end, steps, options(dtype, device, grad), where);
}

Tensor identity(int64_t n, MaybeInt m, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return eye(n, m, options(dtype, device, grad), where);
}

// As `like` where nothing else is asked.
template <Tensor (*make)(const Dims&, TensorOptions, Location)>
Tensor like(const Tensor& x, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return make(x.shape(), {dtype.value_or(x.dtype()), device.value_or(x.device()), grad}, where);
}
Tensor full_as(const Tensor& x, const Operand& number, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  const Scalar value = number.tensor().item_scalar(where);
  return full(x.shape(), value, {dtype.value_or(x.dtype()), device.value_or(x.device()), grad}, where);
}

// ---- random numbers ----

template <Tensor (*make)(const Dims&, TensorOptions, Generator*, Location)>
Tensor drawn(const Dims& size, MaybeInt generator, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return make(size, options(dtype, device, grad), find_generator(generator), where);
}
template <Tensor (*make)(const Dims&, TensorOptions, Generator*, Location)>
Tensor drawn_like(const Tensor& x, MaybeInt generator, MaybeType dtype, MaybeDevice device, bool grad, Location where) {
  return make(x.shape(), {dtype.value_or(x.dtype()), device.value_or(x.device()), grad}, find_generator(generator),
              where);
}
// randint(high, size) and randint(low, high, size).
Tensor integers(int64_t low, const Value& high, std::optional<Dims> size, MaybeInt generator, MaybeType dtype,
                MaybeDevice device, Location where) {
  const auto* to = std::get_if<int64_t>(&high);
  if (size && to == nullptr) throw BadArgument(1);
  const Dims shape = size ? *size : detail::Unbox<Dims>::from(high);
  return randint(size ? low : 0, size ? *to : low, shape, options(dtype, device, false), find_generator(generator),
                 where);
}
Tensor permutation(int64_t n, MaybeInt generator, MaybeType dtype, MaybeDevice device, Location where) {
  return randperm(n, options(dtype, device, false), find_generator(generator), where);
}
Tensor coins(const Tensor& x, std::optional<double> p, MaybeInt generator, Location where) {
  if (!p) return bernoulli(x, find_generator(generator), where);
  return bernoulli_(empty_like(x, where), *p, find_generator(generator), where);
}
Tensor uniform_in(const Tensor& x, double from, double to, MaybeInt generator, Location where) {
  return uniform_(x, from, to, find_generator(generator), where);
}
Tensor normal_in(const Tensor& x, double mean, double std, MaybeInt generator, Location where) {
  return normal_(x, mean, std, find_generator(generator), where);
}
Tensor coins_in(const Tensor& x, double p, MaybeInt generator, Location where) {
  return bernoulli_(x, p, find_generator(generator), where);
}
Tensor dropped(const Tensor& x, double p, bool training, MaybeInt generator, Location where) {
  return dropout(x, p, training, find_generator(generator), where);
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

std::vector<Tensor> split_into(const Tensor& x, const Value& sizes, int along, Location where) {
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
Tensor to_other(const Tensor& x, const Value& target, const Value& second, bool third, bool copy, MaybeDevice device,
                Location where) {
  MaybeType dtype;
  if (std::holds_alternative<bool>(second)) copy = third || copy;
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
  return copy && result.shares_storage(x) ? result.clone(where) : result;
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
constexpr OpRecord functions[] = {
    {"empty", "empty(*size|shape, " WEFT_OPTIONS, "A tensor whose elements are not set.", false, OpRecord::Domain::any,
     nullptr, boxed<&filled<empty>>},
    {"zeros", "zeros(*size|shape, " WEFT_OPTIONS, "Zeros.", false, OpRecord::Domain::any, nullptr,
     boxed<&filled<zeros>>},
    {"ones", "ones(*size|shape, " WEFT_OPTIONS, "Ones.", false, OpRecord::Domain::any, nullptr, boxed<&filled<ones>>},
    {"full", "full(size|shape, fill_value, *, " WEFT_OPTIONS,
     "One value everywhere; the dtype follows it (bool, int64 or float32) unless given.", false, OpRecord::Domain::any,
     nullptr, boxed<&full_of>},
    {"arange", "arange(start, end=None, step=1, *, " WEFT_OPTIONS,
     "start, start + step, … before end; one argument counts from 0. int64 where all are integers, else float32.",
     false, OpRecord::Domain::any, nullptr, boxed<&range>},
    {"linspace", "linspace(start, end, steps, *, " WEFT_OPTIONS, "`steps` values from start to end, both included.",
     false, OpRecord::Domain::any, nullptr, boxed<&spaced>},
    {"eye", "eye(n, m=None, *, " WEFT_OPTIONS, "Ones on the diagonal.", false, OpRecord::Domain::any, nullptr,
     boxed<&identity>},
    {"empty_like", "empty_like(x, *, " WEFT_OPTIONS, "empty with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&like<empty>>},
    {"zeros_like", "zeros_like(x, *, " WEFT_OPTIONS, "zeros with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&like<zeros>>},
    {"ones_like", "ones_like(x, *, " WEFT_OPTIONS, "ones with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&like<ones>>},
    {"full_like", "full_like(x, fill_value, *, " WEFT_OPTIONS, "full with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&full_as>},

    {"rand", "rand(*size|shape, generator=None, " WEFT_OPTIONS, "Uniform in [0, 1).", false, OpRecord::Domain::any,
     nullptr, boxed<&drawn<rand>>},
    {"randn", "randn(*size|shape, generator=None, " WEFT_OPTIONS, "Normal with mean 0 and deviation 1.", false,
     OpRecord::Domain::any, nullptr, boxed<&drawn<randn>>},
    {"rand_like", "rand_like(x, *, generator=None, " WEFT_OPTIONS, "rand with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&drawn_like<rand>>},
    {"randn_like", "randn_like(x, *, generator=None, " WEFT_OPTIONS, "randn with x's shape, dtype and device.", false,
     OpRecord::Domain::any, nullptr, boxed<&drawn_like<randn>>},
    {"randint", "randint(low, high, size=None, *, generator=None, dtype=None, device=None)",
     "Integers in [low, high), int64; randint(high, size) counts from 0.", false, OpRecord::Domain::any, nullptr,
     boxed<&integers>},
    {"randperm", "randperm(n, *, generator=None, dtype=None, device=None)", "0 … n - 1 in random order.", false,
     OpRecord::Domain::any, nullptr, boxed<&permutation>},
    {"bernoulli", "bernoulli(x, p=None, *, generator=None)",
     "1 with the probability that each element gives, or p, else 0.", false, OpRecord::Domain::any, nullptr,
     boxed<&coins>},
    {"dropout", "dropout(x, p=0.5, training|train=True, *, generator=None)",
     "In training zeroes each element with probability p and scales the rest by 1 / (1 - p); else x itself.", false,
     OpRecord::Domain::any, nullptr, boxed<&dropped>},
    {"uniform_", "uniform_(x, from_=0.0, to=1.0, *, generator=None)", "Overwrites x with uniform numbers.", false,
     OpRecord::Domain::any, nullptr, boxed<&uniform_in>},
    {"normal_", "normal_(x, mean=0.0, std=1.0, *, generator=None)", "Overwrites x with normal numbers.", false,
     OpRecord::Domain::any, nullptr, boxed<&normal_in>},
    {"bernoulli_", "bernoulli_(x, p=0.5, *, generator=None)", "Overwrites x with 1 with probability p, else 0.", false,
     OpRecord::Domain::any, nullptr, boxed<&coins_in>},

    {"reshape", "reshape(x, *shape|size)",
     "x with other sizes, one of which may be -1: a view where the strides allow it.", false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.reshape(shape, w); }>},
    {"_view", "view(x, *shape|size)", "x with other sizes, one of which may be -1." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.view(shape, w); }>},
    {"_view_as_dtype", "view(x, dtype)", "The same bytes as elements of another dtype." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, boxed<&reshaped_view>},
    {"transpose", "transpose(x, dim0, dim1)", "x with two dimensions exchanged." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int a, int b, Location w) { return x.transpose(a, b, w); }>},
    {"t", "t(x)", "The transpose of a tensor of rank 2 or less." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) { return x.t(w); }>},
    {"permute", "permute(x, *dims)", "x with its dimensions in another order." WEFT_VIEW, false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Dims& dims, Location w) { return x.permute(dims, w); }>},
    {"select", "select(x, dim, index)", "x[index] along dim." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int dim, int64_t index, Location w) { return x.select(dim, index, w); }>},
    {"narrow", "narrow(x, dim, start, length)", "x[start:start + length] along dim." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, boxed<+[](const Tensor& x, int dim, int64_t start, int64_t length, Location w) {
       return x.narrow(dim, start, length, w);
     }>},
    {"unsqueeze", "unsqueeze(x, dim)", "x with a dimension of size 1 more." WEFT_VIEW, false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, int dim, Location w) { return x.unsqueeze(dim, w); }>},
    {"squeeze", "squeeze(x, dim=None)", "x without its dimensions of size 1." WEFT_VIEW, false, OpRecord::Domain::any,
     nullptr, boxed<&squeezed>},
    {"expand", "expand(x, *sizes|size)", "x repeated along dimensions of size 1 without a copy." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Dims& sizes, Location w) { return x.expand(sizes, w); }>},
    {"broadcast_to", "broadcast_to(x, *shape|size)", "x expanded to a shape." WEFT_VIEW, false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.expand(shape, w); }>},
    {"diagonal", "diagonal(x, offset=0, dim1=0, dim2=1)", "The diagonal, as the last dimension." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int64_t offset, int a, int b, Location w) { return x.diagonal(offset, a, b, w); }>},
    {"flatten", "flatten(x, start_dim=0, end_dim=-1)", "Dimensions start_dim … end_dim as one.", false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int from, int to, Location w) { return x.flatten(from, to, w); }>},
    {"as_strided", "as_strided(x, size, stride, storage_offset=None)",
     "The storage with these sizes, strides and offset, in elements." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Dims& size, const Dims& stride, MaybeInt offset, Location w) {
       return x.as_strided(size, stride, offset, w);
     }>},
    {"split", "split(x|tensor, split_size|split_size_or_sections, dim=0)",
     "Views of split_size along dim, or of a list of sizes.", false, OpRecord::Domain::any, nullptr,
     boxed<&split_into>},
    {"chunk", "chunk(x, chunks, dim=0)", "At most `chunks` views of about one size along dim.", false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int64_t n, int dim, Location w) { return x.chunk(n, dim, w); }>},
    {"unbind", "unbind(x, dim=0)", "Views x[0], x[1], … along dim.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int dim, Location w) { return x.unbind(dim, w); }>},
    {"clone", "clone(x)", "A copy; recorded by autograd.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) { return x.clone(w); }>},
    {"contiguous", "contiguous(x)", "x itself where it is row-major without gaps, else a copy.", false,
     OpRecord::Domain::any, nullptr, boxed<+[](const Tensor& x, Location w) { return x.contiguous(w); }>},
    {"detach", "detach(x)", "The same elements outside the graph." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x) { return x.detach(); }>},
    {"to", "to(x, other=None, dtype=None, non_blocking=False, copy=False, *, device=None)",
     "x as another dtype or on another device, or like another tensor; x itself where nothing changes.", false,
     OpRecord::Domain::any, nullptr, boxed<&to_other>},

    {"copy_", "copy_(x, source|src)", "Writes source into x, converted and broadcast.", false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Tensor& source, Location w) -> Tensor { return x.copy_(source, w); }>},
    {"fill_", "fill_(x, value)", "Writes one value everywhere.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Operand& value, Location w) -> Tensor {
       return x.fill_(value.tensor().item_scalar(w), w);
     }>},
    {"zero_", "zero_(x)", "Writes zeros.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor { return x.zero_(w); }>},
    {"masked_fill_", "masked_fill_(x, mask, value)", "Writes value where mask holds.", false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Tensor& mask, const Operand& value) -> Tensor {
       return masked_fill_(x, mask, value);
     }>},
    {"index_add_", "index_add_(x, dim, index, source, *, alpha=1)", "index_add in place.", false, OpRecord::Domain::any,
     nullptr,
     boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source, Scalar alpha,
               Location w) -> Tensor { return index_add_(x, dim, index, source, alpha, w); }>},
    {"scatter_add_", "scatter_add_(x, dim, index, source|src)", "scatter_add in place.", false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location w) -> Tensor {
       return scatter_add_(x, dim, index, source, w);
     }>},
    {"cumsum_", "cumsum_(x, dim)", "cumsum in place.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, int64_t dim, Location w) -> Tensor { return cumsum_(x, dim, false, false, w); }>},
    {"clip_", "clip_(x, low|min=None, high|max=None)", "clip in place.", false, OpRecord::Domain::any, nullptr,
     boxed<&limited_in>},
    {"clamp_", "clamp_(x, low|min=None, high|max=None)", "clip in place.", false, OpRecord::Domain::any, nullptr,
     boxed<&limited_in>},
    {"requires_grad_", "requires_grad_(x, requires_grad=True)", "Switches the recording of x on or off.", false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, bool on, Location w) -> Tensor { return x.requires_grad_(on, w); }>},
    {"retain_grad", "retain_grad(x)", "Keeps the gradient of a result in .grad.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor {
       x.retain_grad(w);
       return x;
     }>},

    {"logical_not", "logical_not(x)", "True where x is zero.", false, OpRecord::Domain::any, nullptr,
     boxed<&logical_not>, unary(logical_not)},
    {"isnan", "isnan(x)", "True where x is NaN.", false, OpRecord::Domain::any, nullptr, boxed<&isnan>, unary(isnan)},
    {"isinf", "isinf(x)", "True where x is infinite.", false, OpRecord::Domain::any, nullptr, boxed<&isinf>,
     unary(isinf)},
    {"isfinite", "isfinite(x)", "True where x is a finite number.", false, OpRecord::Domain::any, nullptr,
     boxed<&isfinite>, unary(isfinite)},
};
#undef WEFT_OPTIONS
#undef WEFT_VIEW

}  // namespace

std::span<const OpRecord> method_table() { return functions; }

}  // namespace weft::python
