#include "accessor.hpp"

#include <fmt/format.h>

#include "capture_recorder.hpp"
#include "expect-inl.hpp"

namespace weft::detail {

void check_accessor(const Tensor& tensor, DType type, int rank, Location where) {
  constexpr const char* op = "accessor";
  refuse_recording("values are read on the host");
  if (!tensor.defined()) raise<ValueError>({.op = op, .problem = "the tensor is undefined"}, where);
  if (tensor.dtype() != type) {
    raise<DTypeError>({.op = op,
                       .problem = mismatch_text("elements", type, tensor.dtype()),
                       .remedy = "convert with to(dtype) or use the element type"},
                      where);
  }
  if (tensor.dim() != rank) {
    raise<ShapeError>(
        {.op = op,
         .problem = fmt::format("a tensor of shape {} has no accessor of rank {}", tensor.shape().text(), rank)},
        where);
  }
  if (!tensor.device().is_cpu()) {
    raise<DeviceError>({.op = op,
                        .problem = fmt::format("the elements are on {}", tensor.device().name()),
                        .remedy = "move them with to(\"cpu\")"},
                       where);
  }
}

void accessor_out_of_range(int64_t index, int axis, int64_t size) {
  raise<IndexError>(
      {.op = "accessor", .problem = fmt::format("index {} is out of range for axis {} of size {}", index, axis, size)},
      Location::none());
}

}  // namespace weft::detail
