#include <weft/backends/dispatch.hpp>

#include <fmt/format.h>

#include <weft/tensor/error.hpp>

namespace weft {

namespace {
constinit thread_local const CallScope* current_call = nullptr;
Location call_place() { return current_call != nullptr ? current_call->where : Location::none(); }
}  // namespace

constinit thread_local CallPlace detail::current_op = {};

CallScope::CallScope(const char* op_, Location where_) : op(op_), where(where_), outer(current_call) {
  current_call = this;
}
CallScope::~CallScope() { current_call = outer; }

CallPlace current_call_place() {
  if (current_call == nullptr) return {};
  return {current_call->op, current_call->where};
}

void unsupported(const char* kernel, const View& view) {
  const Device device(view.layout.device_type, view.layout.device_index);
  raise<DTypeError>(
      {.op = current_call != nullptr ? current_call->op : kernel,
       .problem = fmt::format("{} has no kernel for {} on {}", kernel, name(view.layout.dtype), device.name()),
       .remedy = "convert the operand with to(dtype)"},
      call_place());
}

void target_out_of_range(int64_t target, int64_t classes) {
  raise<IndexError>({.op = current_call != nullptr ? current_call->op : "loss",
                     .problem = classes > 0 ? fmt::format("target {}: classes are 0 to {}", target, classes - 1)
                                            : fmt::format("target {}: there are no classes", target)},
                    call_place());
}

void index_out_of_range(int64_t index, int dim, int64_t size) {
  if (dim == class_axis) target_out_of_range(index, size);
  raise<IndexError>({.op = current_call != nullptr ? current_call->op : "index",
                     .problem = fmt::format("index {} is out of range for axis {} of size {}", index, dim, size),
                     .remedy = fmt::format("use indices from {} to {}", -size, size - 1)},
                    call_place());
}

}  // namespace weft
