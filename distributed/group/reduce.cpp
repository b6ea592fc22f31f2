#include "../detail/reduce.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "../../backends/dispatch.hpp"
#include "../../backends/functors/lists.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/layout.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::distributed {

namespace detail {

namespace {

// Elements per block: the accumulator stays in a core's L2 cache.
constexpr int64_t block = 1 << 14;

View flat_view(const void* data, DType dtype, int64_t count, Device device) {
  View view;
  view.layout.device_type = device.type;
  view.layout.device_index = static_cast<uint8_t>(device.index);
  view.data = const_cast<void*>(data);
  view.layout.dtype = dtype;
  view.layout.rank = 1;
  view.layout.numel = view.layout.sizes[0] = count;
  view.layout.strides[0] = itemsize(dtype);
  return view;
}

BinaryOp step_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return BinaryOp::add;
    case ReduceOp::prod:
      return BinaryOp::mul;
    case ReduceOp::min:
    case ReduceOp::all:
      return BinaryOp::minimum;
    default:
      return BinaryOp::maximum;
  }
}

/// Accumulator dtype: f32 for sums and products of 16 and 8 bits; extremes need no wider type, except for the 8-bit
/// floats, which have no arithmetic.
DType carried_in(ReduceOp op, DType dtype) {
  const bool exact = op != ReduceOp::sum && op != ReduceOp::avg && op != ReduceOp::prod;
  return is_floating(dtype) && !(exact && !is_storage_only(dtype)) ? compute_type(dtype) : dtype;
}

const KernelTable& kernels_of(Device device) { return device.is_cpu() ? host_kernels() : kernels(device.type); }

void divide(const View& values, int by, const KernelTable& of_device) {
  if (is_complex(values.layout.dtype)) {
    for (int part = 0; part < 2; ++part) divide(part_view(values, part), by, of_device);
    return;
  }
  double wide = by;
  float narrow = static_cast<float>(by);
  View divisor = values;
  divisor.data = values.layout.dtype == DType::f64 ? static_cast<void*>(&wide) : &narrow;
  divisor.layout.strides[0] = 0;
  divisor.layout.contiguous = 0;
  divisor.layout.host_scalar = 1;
  of_device.binary(BinaryOp::div, values, values, divisor);
}

const void* element(const void* data, DType dtype, int64_t i) {
  return static_cast<const char*>(data) + i * itemsize(dtype);
}

}  // namespace

void reduce_in_order(ReduceOp op, DType dtype, void* out, std::span<const void* const> inputs, int64_t count,
                     Device device) {
  if (count == 0) return;
  const KernelTable& table = kernels_of(device);
  const DType carried = carried_in(op, dtype);
  const BinaryOp step = step_of(op);
  const bool direct = carried == dtype && inputs.size() <= 2;
  const int64_t at_once = device.is_cpu() ? std::min(count, block) : count;
  const Tensor room = Tensor::adopt(weft::detail::new_tensor(Dims{direct ? 0 : 2 * at_once}, carried, device));
  for (int64_t i = 0; i < count; i += at_once) {
    const int64_t n = std::min(at_once, count - i);
    const View result = flat_view(element(out, dtype, i), dtype, n, device);
    const auto part = [&](size_t r) { return flat_view(element(inputs[r], dtype, i), dtype, n, device); };
    // If `out` is a later input, it must not be written before that input is read.
    const View sum = direct ? result : flat_view(room.data_ptr(), carried, n, device),
               wide = direct ? result : flat_view(element(room.data_ptr(), carried, at_once), carried, n, device);
    if (inputs.size() == 1) table.copy(sum, part(0));
    else if (carried == dtype) table.binary(step, sum, part(0), part(1));
    else table.copy(sum, part(0));
    for (size_t r = carried == dtype ? 2 : 1; r < inputs.size(); ++r) {
      if (carried == dtype) {
        table.binary(step, sum, sum, part(r));
      } else {
        table.copy(wide, part(r));
        table.binary(step, sum, sum, wide);
      }
    }
    if (op == ReduceOp::avg) divide(sum, static_cast<int>(inputs.size()), table);
    if (!direct) table.copy(result, sum);
  }
}

void check_reduction(ReduceOp op, DType dtype) {
  const auto refuse = [&](const char* remedy) {
    raise<DTypeError>({.problem = fmt::format("{} does not take {}", name(op), weft::name(dtype)), .remedy = remedy});
  };
  if (op == ReduceOp::avg && !is_floating(dtype)) refuse("convert it with x.to(f32), or use sum");
  if ((op == ReduceOp::sum || op == ReduceOp::prod) && dtype == DType::boolean) refuse("use any or all");
}

}  // namespace detail
}  // namespace weft::distributed
