#include <weft/ops/create.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include <weft/autograd/from_ops.hpp>
#include <weft/backends/backend.hpp>
#include <weft/ops/detail/fits.hpp>
#include <weft/tensor/checked.hpp>

namespace weft {

namespace {

Tensor made(const Dims& shape, const TensorOptions& options, const char* op, Location where) {
  if (WEFT_UNLIKELY(!options.device.is_cpu())) check_device(options.device, op, where);
  return make(shape, options.dtype.value_or(default_dtype), options.device, op, where);
}

const Tensor& with_grad(const Tensor& t, const TensorOptions& options, Location where) {
  return WEFT_UNLIKELY(options.requires_grad) ? t.requires_grad_(true, where) : t;
}

Tensor filled(const Dims& shape, Scalar value, const TensorOptions& options, const char* op, Location where) {
  check_fits(op, value, options.dtype.value_or(default_dtype), where);
  Tensor t = made(shape, options, op, where);
  WEFT_KERNEL_FOR(fill, t, op, where)(t.raw_view(), value);
  return with_grad(t, options, where);
}

DType natural_type(Scalar value) {
  return value.is_floating() ? default_dtype : (value.is_bool() ? DType::boolean : DType::i64);
}

TensorOptions options_of(const Tensor& like) { return {like.dtype(), like.device()}; }

struct BlobOwner {
  std::shared_ptr<void> owner;
};

[[noreturn]] void raise_range(const std::string& start, const std::string& stop, const std::string& step,
                              Location where) {
  raise<ValueError>({.op = "arange", .problem = fmt::format("no steps of {} lead from {} to {}", step, start, stop)},
                    where);
}

// How many steps lead from start to before stop; more than int64 counts are told as that many.
int64_t count_steps(double start, double stop, double step, Location where) {
  const double steps = std::ceil((stop - start) / step);
  if (!(step != 0 && steps >= 0 && std::isfinite(steps))) {
    raise_range(fmt::format("{}", start), fmt::format("{}", stop), fmt::format("{}", step), where);
  }
  constexpr auto most = std::numeric_limits<int64_t>::max();
  return steps < static_cast<double>(most) ? static_cast<int64_t>(steps) : most;
}

// The same for integers, signed or not: their distance may need a 65th bit.
__extension__ using WideInteger = __int128;
WideInteger wide(Scalar value) {
  return value.held_as() == DType::u64 ? WideInteger{value.to<uint64_t>()} : WideInteger{value.to<int64_t>()};
}
int64_t count_whole_steps(Scalar start, Scalar stop, Scalar step, Location where) {
  const WideInteger by = wide(step), distance = wide(stop) - wide(start);
  if (by == 0 || (distance < 0) != (by < 0 && distance != 0)) {
    const auto text = [](Scalar s) {
      return s.held_as() == DType::u64 ? std::to_string(s.to<uint64_t>()) : std::to_string(s.to<int64_t>());
    };
    raise_range(text(start), text(stop), text(step), where);
  }
  const WideInteger steps = (distance + by - (by > 0 ? 1 : -1)) / by;
  constexpr auto most = std::numeric_limits<int64_t>::max();
  return steps < most ? static_cast<int64_t>(steps) : most;
}

}  // namespace

Tensor empty(const Dims& shape, TensorOptions options, Location where) {
  return with_grad(made(shape, options, "empty", where), options, where);
}
Tensor zeros(const Dims& shape, TensorOptions options, Location where) {
  return filled(shape, 0, options, "zeros", where);
}
Tensor ones(const Dims& shape, TensorOptions options, Location where) {
  return filled(shape, 1, options, "ones", where);
}
Tensor full(const Dims& shape, Scalar value, TensorOptions options, Location where) {
  if (!options.dtype) options.dtype = natural_type(value);
  return filled(shape, value, options, "full", where);
}
Tensor empty_like(const Tensor& like, Location where) {
  checked(like, "empty_like", where);
  return made(like.shape(), options_of(like), "empty_like", where);
}
Tensor zeros_like(const Tensor& like, Location where) {
  checked(like, "zeros_like", where);
  return filled(like.shape(), 0, options_of(like), "zeros_like", where);
}
Tensor ones_like(const Tensor& like, Location where) {
  checked(like, "ones_like", where);
  return filled(like.shape(), 1, options_of(like), "ones_like", where);
}
Tensor full_like(const Tensor& like, Scalar value, Location where) {
  checked(like, "full_like", where);
  return filled(like.shape(), value, options_of(like), "full_like", where);
}

Tensor arange(Scalar stop, TensorOptions options, Location where) { return arange(0, stop, 1, options, where); }

Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options, Location where) {
  const bool floating = start.is_floating() || stop.is_floating() || step.is_floating();
  if (!options.dtype) options.dtype = floating ? default_dtype : DType::i64;
  const int64_t count = floating ? count_steps(start.to<double>(), stop.to<double>(), step.to<double>(), where)
                                 : count_whole_steps(start, stop, step, where);
  Tensor t = made(count, options, "arange", where);
  WEFT_KERNEL_FOR(arange, t, "arange", where)(t.raw_view(), start, step);
  return with_grad(t, options, where);
}

Tensor linspace(double first, double last, int64_t count, TensorOptions options, Location where) {
  if (count < 0) raise<ValueError>({.op = "linspace", .problem = fmt::format("count {} is negative", count)}, where);
  Tensor t = made(count, options, "linspace", where);
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0.0;
  WEFT_KERNEL_FOR(arange, t, "linspace", where)(t.raw_view(), first, step);
  if (count > 1) t.select(0, count - 1).fill_(last, where);
  return with_grad(t, options, where);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, TensorOptions options, Location where) {
  Tensor t = filled({rows, columns.value_or(rows)}, 0, {options.dtype, options.device}, "eye", where);
  t.diagonal().fill_(1, where);
  return with_grad(t, options, where);
}

namespace {
// Narrower integers hold not all that a program writes into a tensor.
void check_elements_fit(const void* elements, int64_t count, DType from, DType to, Location where) {
  if (from == to || !is_integer(to)) return;
  visit_dtype(from, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      for (int64_t i = 0; i < count; ++i) check_fits("tensor", static_cast<const T*>(elements)[i], to, where);
    }
  });
}
}  // namespace

namespace detail {

void raise_ragged(Location where) { raise<ShapeError>({.op = "tensor", .problem = "rows differ in length"}, where); }
void raise_count(size_t values, const Dims& shape, Location where) {
  raise<ShapeError>({.op = "tensor",
                     .problem = "the number of values does not fit the shape",
                     .details = fmt::format("{} values, shape {}", values, shape.text())},
                    where);
}

Tensor from_elements(const void* elements, DType element_type, const Dims& shape, TensorOptions options,
                     Location where) {
  Tensor host = made(shape, {.dtype = element_type}, "tensor", where);
  check_elements_fit(elements, host.numel(), element_type, options.dtype.value_or(element_type), where);
  if (host.numel() != 0) std::memcpy(host.data_ptr(), elements, static_cast<size_t>(host.nbytes()));
  host = host.to(options.dtype.value_or(element_type), where);
  if (!options.device.is_cpu()) host = host.to(options.device, where);
  return with_grad(host, options, where);
}

Tensor wrap_memory(void* data, const Dims& shape, const Dims& strides, TensorOptions options,
                   std::shared_ptr<void> owner, Location where) {
  const DType dtype = options.dtype.value_or(default_dtype);
  Layout layout = strides.empty() ? contiguous_layout(shape, dtype, "from_blob", where)
                                  : strided_layout(shape, strides, dtype, "from_blob", where);
  if (data == nullptr && layout.numel != 0) {
    raise<ValueError>({.op = "from_blob", .problem = "a null pointer for a non-empty tensor"}, where);
  }
  Tensor t = Tensor::adopt(new_tensor(Dims(0), dtype, options.device, "from_blob", where));
  const ByteSpan span = byte_span(layout);
  Storage& storage = *t.impl()->storage;
  storage.data = static_cast<char*>(data) + span.low;
  storage.bytes = static_cast<size_t>(span.high - span.low);
  storage.external = true;
  if (owner != nullptr) {
    storage.deleter_context = new BlobOwner{std::move(owner)};
    storage.deleter = [](void*, void* context) { delete static_cast<BlobOwner*>(context); };
  }
  layout.device_type = options.device.type;
  layout.device_index = options.device.index;
  t.impl()->view = View{data, layout};
  return with_grad(t, options, where);
}

Tensor zeros_unrecorded(const Dims& shape, DType dtype, Device device) {
  return zeros(shape, {dtype, device}, Location::none());
}
Tensor ones_like_unrecorded(const Tensor& like) {
  if (like.dtype() == DType::f32 && like.numel() == 1 && like.device().is_cpu() && like.is_contiguous()) {
    Tensor one = Tensor::adopt(new_tensor(like.raw_view().layout, Location::none()));
    *static_cast<float*>(one.data_ptr()) = 1.0f;
    return one;
  }
  return ones_like(like, Location::none());
}

}  // namespace detail

Tensor Operand::wrap(Scalar value) {
  Layout layout;
  layout.dtype = value.held_as();
  Tensor t = Tensor::adopt(detail::new_tensor(layout, Location::none()));
  switch (layout.dtype) {
    case DType::f64:
      *static_cast<double*>(t.data_ptr()) = value.to<double>();
      break;
    case DType::boolean:
      *static_cast<bool*>(t.data_ptr()) = value.to<bool>();
      break;
    default:
      *static_cast<int64_t*>(t.data_ptr()) = value.to<int64_t>();
      break;
  }
  t.impl()->wrapped_number = true;
  return t;
}

}  // namespace weft
