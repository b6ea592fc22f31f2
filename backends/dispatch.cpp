#include "dispatch.hpp"

#include <fmt/format.h>

#include "../tensor/error.hpp"

namespace weft {

namespace {
const char* current_op_or(const char* name) {
  return detail::current_call.op != nullptr ? detail::current_call.entry : name;
}
}  // namespace

void unsupported(const char* kernel, const View& view) {
  const Device device(view.layout.device_type, view.layout.device_index);
  raise<DTypeError>(
      {.op = current_op_or(kernel),
       .problem = fmt::format("{} has no kernel for {} on {}", kernel, name(view.layout.dtype), device.name()),
       .remedy = is_complex(view.layout.dtype) ? "take real(x), imag(x), abs(x) or view_as_real(x)"
                                               : "convert the operand with to(dtype)"});
}

void target_out_of_range(int64_t target, int64_t classes) {
  raise<IndexError>({.op = current_op_or("loss"),
                     .problem = classes > 0 ? fmt::format("target {}: classes are 0 to {}", target, classes - 1)
                                            : fmt::format("target {}: there are no classes", target)});
}

void index_out_of_range(int64_t index, int dim, int64_t size, bool wraps) {
  if (dim == class_axis) target_out_of_range(index, size);
  raise<IndexError>({.op = current_op_or("index"),
                     .problem = fmt::format("index {} is out of range for axis {} of size {}", index, dim, size),
                     .remedy = fmt::format("use indices from {} to {}", wraps ? -size : 0, size - 1)});
}

}  // namespace weft
