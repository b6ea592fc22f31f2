// Methods of Tensor that are not ops: writes without an out-of-place form, views of memory, and autograd state. Like
// ops they are called by a schema.
#include "methods.hpp"

#include "../ops/complex.hpp"
#include "../ops/distribution.hpp"
#include "../ops/random.hpp"
#include "../tensor/layout.hpp"

namespace weft::python {

namespace {

using detail::boxed;

Tensor view_as(const Tensor& x, DType dtype, Location where) { return x.view_bytes(dtype, where); }

#define WEFT_SELF " x itself changes, and gradients flow back through the change."
#define WEFT_VIEW " The result is a view: it shares the elements."
constexpr OpRecord functions[] = {
    {"uniform_", "uniform_(x, from_=0.0, to=1.0, *, generator=None)", "Overwrites x with uniform numbers.", false,
     OpRecord::Domain::any, nullptr, nullptr, boxed<&weft::uniform_>},
    {"normal_", "normal_(x, mean=0.0, std=1.0, *, generator=None)", "Overwrites x with normal numbers.", false,
     OpRecord::Domain::any, nullptr, nullptr, boxed<&weft::normal_>},
    {"bernoulli_", "bernoulli_(x, p=0.5, *, generator=None)", "Overwrites x with 1 with probability p, else 0.", false,
     OpRecord::Domain::any, nullptr, nullptr,
     boxed<static_cast<const Tensor& (*)(const Tensor&, double, Generator*, Location)>(&weft::bernoulli_)>},
    {"exponential_", "exponential_(x, lambd=1.0, *, generator=None)", "Overwrites x with density lambd exp(-lambd x).",
     false, OpRecord::Domain::any, nullptr, nullptr, boxed<&weft::exponential_>},
    {"geometric_", "geometric_(x, p, *, generator=None)",
     "Overwrites x with the number of trials until one of probability p succeeds.", false, OpRecord::Domain::any,
     nullptr, nullptr, boxed<&weft::geometric_>},
    {"cauchy_", "cauchy_(x, median=0.0, sigma=1.0, *, generator=None)",
     "Overwrites x with median + sigma tan(pi (u - 1/2)), u uniform.", false, OpRecord::Domain::any, nullptr, nullptr,
     boxed<&weft::cauchy_>},
    {"log_normal_", "log_normal_(x, mean=1.0, std=2.0, *, generator=None)", "Overwrites x with exp of normal numbers.",
     false, OpRecord::Domain::any, nullptr, nullptr, boxed<&weft::log_normal_>},

    {"_view", "view(x, *shape|size)", "x with other sizes, one of which may be -1." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, const Dims& shape, Location w) { return x.view(shape, w); }>},
    {"_view_as_dtype", "view(x, dtype)", "The same bytes as elements of another dtype." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, nullptr, boxed<&view_as>},
    {"as_strided", "as_strided(x, size, stride, storage_offset=None)",
     "The storage with these sizes, strides and offset, in elements." WEFT_VIEW, false, OpRecord::Domain::any, nullptr,
     nullptr,
     boxed<+[](const Tensor& x, const Dims& size, const Dims& stride, std::optional<int64_t> offset, Location w) {
       return x.as_strided(size, stride, offset, w);
     }>},
    {"view_as_complex", "view_as_complex(x|input)", "x of pairs [..., 2] as complex numbers [...]." WEFT_VIEW, false,
     OpRecord::Domain::any, nullptr, nullptr, boxed<&weft::view_as_complex>},
    {"copy_", "copy_(x, source|src, non_blocking=False)",
     "Writes source into x, converted and broadcast; with non_blocking it queues copies of pinned memory.", false,
     OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, const Tensor& source, bool non_blocking, Location w) -> Tensor {
       return x.copy_(source, {.non_blocking = non_blocking}, w);
     }>},
    {"squeeze_", "squeeze_(x, dim=None)", "Removes dimensions of size 1, or those of dim." WEFT_SELF, false,
     OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, const std::optional<Dims>& dims, Location w) -> Tensor {
       return dims ? x.squeeze_(*dims, w) : x.squeeze_(w);
     }>},
    {"unsqueeze_", "unsqueeze_(x, dim)", "Inserts a dimension of size 1." WEFT_SELF, false, OpRecord::Domain::any,
     nullptr, nullptr, boxed<+[](const Tensor& x, int dim, Location w) -> Tensor { return x.unsqueeze_(dim, w); }>},
    {"transpose_", "transpose_(x, dim0, dim1)", "Exchanges two dimensions." WEFT_SELF, false, OpRecord::Domain::any,
     nullptr, nullptr,
     boxed<+[](const Tensor& x, int a, int b, Location w) -> Tensor { return x.transpose_(a, b, w); }>},
    {"swapaxes_", "swapaxes_(x, axis0, axis1)", "Exchanges two dimensions." WEFT_SELF, false, OpRecord::Domain::any,
     nullptr, nullptr,
     boxed<+[](const Tensor& x, int a, int b, Location w) -> Tensor { return x.swapaxes_(a, b, w); }>},
    {"swapdims_", "swapdims_(x, dim0, dim1)", "Exchanges two dimensions." WEFT_SELF, false, OpRecord::Domain::any,
     nullptr, nullptr,
     boxed<+[](const Tensor& x, int a, int b, Location w) -> Tensor { return x.swapdims_(a, b, w); }>},
    {"t_", "t_(x)", "Exchanges the dimensions of a matrix." WEFT_SELF, false, OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor { return x.t_(w); }>},
    {"as_strided_", "as_strided_(x, size, stride, storage_offset=None)",
     "Sets sizes, strides and offset in the storage, in elements." WEFT_SELF, false, OpRecord::Domain::any, nullptr,
     nullptr,
     boxed<+[](const Tensor& x, const Dims& size, const Dims& stride, std::optional<int64_t> offset,
               Location w) -> Tensor { return x.as_strided_(size, stride, offset, w); }>},
    {"detach_", "detach_(x)", "Drops the history. AutogradError for a view.", false, OpRecord::Domain::any, nullptr,
     nullptr, boxed<+[](const Tensor& x, Location w) -> Tensor { return x.detach_(w); }>},
    {"pin_memory", "pin_memory(x, device=None)",
     "x, or a copy of it, in memory of the CPU that devices of that kind, or of the first one, reach without a detour.",
     false, OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, std::optional<Device> device, Location w) { return x.pin_memory(device, w); }>},
    {"is_pinned", "is_pinned(x, device=None)",
     "Whether x is in memory that is pinned for devices of that kind, or any.", false, OpRecord::Domain::any, nullptr,
     nullptr, boxed<+[](const Tensor& x, std::optional<Device> device, Location w) { return x.is_pinned(device, w); }>},
    {"fill_", "fill_(x, value)", "Writes one value everywhere.", false, OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, const Operand& value, Location w) -> Tensor {
       if (is_complex(value.tensor().dtype())) return x.copy_(value.tensor(), w);
       return x.fill_(value.tensor().item_scalar(w), w);
     }>},
    {"zero_", "zero_(x)", "Writes zeros.", false, OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, Location w) -> Tensor { return x.zero_(w); }>},
    {"requires_grad_", "requires_grad_(x, requires_grad=True)", "Switches the recording of x on or off.", false,
     OpRecord::Domain::any, nullptr, nullptr,
     boxed<+[](const Tensor& x, bool on, Location w) -> Tensor { return x.requires_grad_(on, w); }>},
    {"retain_grad", "retain_grad(x)", "Keeps the gradient of a result in .grad.", false, OpRecord::Domain::any, nullptr,
     nullptr, boxed<+[](const Tensor& x, Location w) -> Tensor {
       x.retain_grad(w);
       return x;
     }>},
};
#undef WEFT_VIEW
#undef WEFT_SELF

}  // namespace

std::span<const OpRecord> method_table() { return functions; }

}  // namespace weft::python
