// Methods of Tensor that are no ops: writes that have no form with a result of their own, views of memory, and what
// autograd keeps. They are called as the ops are, by a schema.
#include "methods.hpp"

#include "../ops/distribution.hpp"
#include "../ops/random.hpp"
#include "../tensor/layout.hpp"

namespace weft::python {

namespace {

using detail::boxed;

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

#define WEFT_VIEW " The result is a view: it shares the elements."
constexpr OpRecord functions[] = {
    {"uniform_", "uniform_(x, from_=0.0, to=1.0, *, generator=None)", "Overwrites x with uniform numbers.", false,
     OpRecord::Domain::any, nullptr, boxed<&weft::uniform_>},
    {"normal_", "normal_(x, mean=0.0, std=1.0, *, generator=None)", "Overwrites x with normal numbers.", false,
     OpRecord::Domain::any, nullptr, boxed<&weft::normal_>},
    {"bernoulli_", "bernoulli_(x, p=0.5, *, generator=None)", "Overwrites x with 1 with probability p, else 0.", false,
     OpRecord::Domain::any, nullptr,
     boxed<static_cast<const Tensor& (*)(const Tensor&, double, Generator*, Location)>(&weft::bernoulli_)>},
    {"exponential_", "exponential_(x, lambd=1.0, *, generator=None)", "Overwrites x with density lambd exp(-lambd x).",
     false, OpRecord::Domain::any, nullptr, boxed<&weft::exponential_>},
    {"geometric_", "geometric_(x, p, *, generator=None)",
     "Overwrites x with the number of trials until one of probability p succeeds.", false, OpRecord::Domain::any,
     nullptr, boxed<&weft::geometric_>},
    {"cauchy_", "cauchy_(x, median=0.0, sigma=1.0, *, generator=None)",
     "Overwrites x with median + sigma tan(pi (u - 1/2)), u uniform.", false, OpRecord::Domain::any, nullptr,
     boxed<&weft::cauchy_>},
    {"log_normal_", "log_normal_(x, mean=1.0, std=2.0, *, generator=None)", "Overwrites x with exp of normal numbers.",
     false, OpRecord::Domain::any, nullptr, boxed<&weft::log_normal_>},

    {"_view", "view(x, *shape|size)", "x with other sizes, one of which may be -1." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.view(shape, w); }>},
    {"_view_as_dtype", "view(x, dtype)", "The same bytes as elements of another dtype." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, boxed<&reshaped_view>},
    {"as_strided", "as_strided(x, size, stride, storage_offset=None)",
     "The storage with these sizes, strides and offset, in elements." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Dims& size, const Dims& stride, std::optional<int64_t> offset, Location w) {
       return x.as_strided(size, stride, offset, w);
     }>},
    {"copy_", "copy_(x, source|src)", "Writes source into x, converted and broadcast.", false, OpRecord::Domain::any,
     nullptr, boxed<+[](const Tensor& x, const Tensor& source, Location w) -> Tensor { return x.copy_(source, w); }>},
    {"fill_", "fill_(x, value)", "Writes one value everywhere.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, const Operand& value, Location w) -> Tensor {
       return x.fill_(value.tensor().item_scalar(w), w);
     }>},
    {"zero_", "zero_(x)", "Writes zeros.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor { return x.zero_(w); }>},
    {"requires_grad_", "requires_grad_(x, requires_grad=True)", "Switches the recording of x on or off.", false,
     OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, bool on, Location w) -> Tensor { return x.requires_grad_(on, w); }>},
    {"retain_grad", "retain_grad(x)", "Keeps the gradient of a result in .grad.", false, OpRecord::Domain::any, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor {
       x.retain_grad(w);
       return x;
     }>},
};
#undef WEFT_VIEW

}  // namespace

std::span<const OpRecord> method_table() { return functions; }

}  // namespace weft::python
