#include "../create.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "../../autograd/from_ops.hpp"
#include "../../backends/backend.hpp"
#include "../complex.hpp"
#include "../detail/fits.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/determinism.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Tensor checked_new(const Dims& shape, const TensorOptions& options) {
  if (WEFT_UNLIKELY(!options.device.is_cpu())) check_device(options.device);
  return make(shape, options.dtype.value_or(default_dtype()), options.device);
}

/// No integer is above it. Floats have NaN for the same purpose.
Scalar largest_integer(DType dtype) {
  if (dtype == DType::boolean) return true;
  const int bits = static_cast<int>(8 * itemsize(dtype)) - (is_signed(dtype) ? 1 : 0);
  return ~uint64_t{0} >> (64 - bits);
}

/// Uninitialised memory. In deterministic mode it is filled with a value that reveals early reads.
Tensor unwritten(const Dims& shape, const TensorOptions& options) {
  Tensor t = checked_new(shape, options);
  if (WEFT_LIKELY(deterministic() == Determinism::off)) return t;
  const Scalar value = is_floating(t.dtype()) ? Scalar(std::nan("")) : largest_integer(t.dtype());
  WEFT_KERNEL(fill, t)(t.raw_view(), value);
  return t;
}

const Tensor& with_grad(const Tensor& t, const TensorOptions& options) {
  return WEFT_UNLIKELY(options.requires_grad) ? t.requires_grad_(true) : t;
}

Tensor filled(const Dims& shape, Scalar value, const TensorOptions& options) {
  check_fits(value, options.dtype.value_or(default_dtype()));
  Tensor t = checked_new(shape, options);
  fill_elements(t, value);
  return with_grad(t, options);
}

DType natural_type(Scalar value) {
  if (value.is_complex()) return complex_type(default_dtype());
  return value.is_floating() ? default_dtype() : (value.is_bool() ? DType::boolean : DType::i64);
}

TensorOptions options_of(const Tensor& like, const LikeOptions& options = {}) {
  checked(like);
  return {options.dtype.value_or(like.dtype()), options.device.value_or(like.device()), options.requires_grad};
}

[[noreturn]] void raise_range(const std::string& start, const std::string& stop, const std::string& step) {
  raise<ValueError>({.problem = fmt::format("no steps of {} lead from {} to {}", step, start, stop)});
}

// The number of steps from start to before stop, saturated at the maximum of int64.
int64_t count_steps(double start, double stop, double step) {
  const double steps = std::ceil((stop - start) / step);
  if (!(step != 0 && steps >= 0 && std::isfinite(steps))) {
    raise_range(fmt::format("{}", start), fmt::format("{}", stop), fmt::format("{}", step));
  }
  constexpr auto limit = std::numeric_limits<int64_t>::max();
  return steps < static_cast<double>(limit) ? static_cast<int64_t>(steps) : limit;
}

// The same for integers, signed or not: their distance may need a 65th bit.
__extension__ using WideInteger = __int128;
WideInteger wide(Scalar value) {
  return value.held_as() == DType::u64 ? WideInteger{value.to<uint64_t>()} : WideInteger{value.to<int64_t>()};
}
int64_t count_whole_steps(Scalar start, Scalar stop, Scalar step) {
  const WideInteger by = wide(step), distance = wide(stop) - wide(start);
  if (by == 0 || (distance < 0) != (by < 0 && distance != 0)) {
    const auto text = [](Scalar s) {
      return s.held_as() == DType::u64 ? std::to_string(s.to<uint64_t>()) : std::to_string(s.to<int64_t>());
    };
    raise_range(text(start), text(stop), text(step));
  }
  const WideInteger steps = (distance + by - (by > 0 ? 1 : -1)) / by;
  constexpr auto limit = std::numeric_limits<int64_t>::max();
  return steps < limit ? static_cast<int64_t>(steps) : limit;
}

}  // namespace

Tensor empty(const Dims& shape, TensorOptions options, Location where) {
  const CallScope call("empty", where);
  return with_grad(unwritten(shape, options), options);
}
Tensor zeros(const Dims& shape, TensorOptions options, Location where) {
  const CallScope call("zeros", where);
  return filled(shape, 0, options);
}
Tensor ones(const Dims& shape, TensorOptions options, Location where) {
  const CallScope call("ones", where);
  return filled(shape, 1, options);
}
Tensor full(const Dims& shape, Scalar value, TensorOptions options, Location where) {
  const CallScope call("full", where);
  if (!options.dtype) options.dtype = natural_type(value);
  return filled(shape, value, options);
}
Tensor empty_like(const Tensor& like, Location where) {
  const CallScope call("empty_like", where);
  checked(like);
  return unwritten(like.shape(), options_of(like));
}
Tensor zeros_like(const Tensor& like, Location where) {
  const CallScope call("zeros_like", where);
  checked(like);
  return filled(like.shape(), 0, options_of(like));
}
Tensor ones_like(const Tensor& like, Location where) {
  const CallScope call("ones_like", where);
  checked(like);
  return filled(like.shape(), 1, options_of(like));
}
Tensor full_like(const Tensor& like, Scalar value, Location where) {
  const CallScope call("full_like", where);
  checked(like);
  return filled(like.shape(), value, options_of(like));
}

Tensor empty_like(const Tensor& like, const LikeOptions& options, Location where) {
  const CallScope call("empty_like", where);
  const TensorOptions all = options_of(like, options);
  return with_grad(unwritten(like.shape(), all), all);
}
Tensor zeros_like(const Tensor& like, const LikeOptions& options, Location where) {
  const CallScope call("zeros_like", where);
  const TensorOptions all = options_of(like, options);
  return filled(like.shape(), 0, all);
}
Tensor ones_like(const Tensor& like, const LikeOptions& options, Location where) {
  const CallScope call("ones_like", where);
  const TensorOptions all = options_of(like, options);
  return filled(like.shape(), 1, all);
}
Tensor full_like(const Tensor& like, Scalar value, const LikeOptions& options, Location where) {
  const CallScope call("full_like", where);
  const TensorOptions all = options_of(like, options);
  return filled(like.shape(), value, all);
}
Tensor new_empty(const Tensor& like, const Dims& shape, const LikeOptions& options, Location where) {
  const CallScope call("new_empty", where);
  const TensorOptions all = options_of(like, options);
  return with_grad(unwritten(shape, all), all);
}
Tensor new_zeros(const Tensor& like, const Dims& shape, const LikeOptions& options, Location where) {
  const CallScope call("new_zeros", where);
  return filled(shape, 0, options_of(like, options));
}
Tensor new_ones(const Tensor& like, const Dims& shape, const LikeOptions& options, Location where) {
  const CallScope call("new_ones", where);
  return filled(shape, 1, options_of(like, options));
}
Tensor new_full(const Tensor& like, const Dims& shape, Scalar value, const LikeOptions& options, Location where) {
  const CallScope call("new_full", where);
  return filled(shape, value, options_of(like, options));
}

Tensor arange(Scalar stop, TensorOptions options, Location where) { return arange(0, stop, 1, options, where); }

Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options, Location where) {
  const CallScope call("arange", where);
  const bool floating = start.is_floating() || stop.is_floating() || step.is_floating();
  if (!options.dtype) options.dtype = floating ? default_dtype() : DType::i64;
  const int64_t count = floating ? count_steps(start.to<double>(), stop.to<double>(), step.to<double>())
                                 : count_whole_steps(start, stop, step);
  Tensor t = checked_new(count, options);
  WEFT_KERNEL(arange, t)(t.raw_view(), start, step);
  return with_grad(t, options);
}

namespace {
void fill_equidistant(const Tensor& t, double first, double last) {
  const int64_t count = t.numel();
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0.0;
  WEFT_KERNEL(arange, t)(t.raw_view(), first, step);
  if (count > 1) t.select(0, count - 1).fill_(last);
}
}  // namespace

Tensor linspace(Scalar first, Scalar last, int64_t count, TensorOptions options, Location where) {
  const CallScope call("linspace", where);
  expect_at_least("count", count, 0);
  const bool complex_ends = first.is_complex() || last.is_complex();
  if (complex_ends) options.dtype = options.dtype.value_or(complex_type(default_dtype()));
  Tensor t = checked_new(count, options);
  if (!is_complex(t.dtype())) {
    fill_equidistant(t, first.to<double>(), last.to<double>());
  } else {
    const complex128 a = first.to_complex(), b = last.to_complex();
    fill_equidistant(real(t), a.re, b.re);
    fill_equidistant(imag(t), a.im, b.im);
  }
  return with_grad(t, options);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, TensorOptions options, Location where) {
  const CallScope call("eye", where);
  Tensor t = filled({rows, columns.value_or(rows)}, 0, {options.dtype, options.device});
  t.diagonal().fill_(1);
  return with_grad(t, options);
}

namespace {
// Narrower integers hold not all that a program writes into a tensor.
void check_elements_fit(const void* elements, int64_t count, DType from, DType to) {
  if (from == to || !is_integer(to)) return;
  visit_dtype(from, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      for (int64_t i = 0; i < count; ++i) check_fits(static_cast<const T*>(elements)[i], to);
    }
  });
}
}  // namespace

namespace detail {

TensorOptions options_like(const Tensor& like, const LikeOptions& options, Location where) {
  const CallScope call("new_tensor", where);
  return options_of(like, options);
}

void raise_ragged(Location where) {
  const CallScope call("tensor", where);
  raise<ShapeError>({.problem = "rows differ in length"});
}
void raise_count(size_t values, const Dims& shape, Location where) {
  const CallScope call("tensor", where);
  raise<ShapeError>({.problem = "the number of values does not fit the shape",
                     .details = fmt::format("{} values, shape {}", values, shape.text())});
}

Tensor from_elements(const void* elements, DType element_type, const Dims& shape, TensorOptions options,
                     Location where) {
  const CallScope call("tensor", where);
  Tensor host = checked_new(shape, {.dtype = element_type});
  check_elements_fit(elements, host.numel(), element_type, options.dtype.value_or(element_type));
  if (host.numel() != 0) std::memcpy(host.data_ptr(), elements, static_cast<size_t>(host.nbytes()));
  host = host.to(options.dtype.value_or(element_type));
  if (!options.device.is_cpu()) host = host.to(options.device);
  return with_grad(host, options);
}

Tensor wrap_memory(void* data, const Dims& shape, const Dims& strides, TensorOptions options, Owner owner,
                   Location where) {
  const CallScope call("from_blob", where);
  const DType dtype = options.dtype.value_or(default_dtype());
  Layout layout = strides.empty() ? contiguous_layout(shape, dtype) : strided_layout(shape, strides, dtype);
  if (data == nullptr && layout.numel != 0) raise<ValueError>({.problem = "a null pointer for a non-empty tensor"});
  Tensor t = Tensor::adopt(new_tensor(Dims(0), dtype, options.device));
  const ByteSpan span = byte_span(layout);
  Storage& storage = *t.impl()->storage;
  storage.data = static_cast<char*>(data) + span.low;
  storage.bytes = static_cast<size_t>(span.high - span.low);
  storage.external = true;
  if (owner) {
    storage.deleter_context = new Owner(std::move(owner));
    storage.deleter = [](void*, void* context) {
      const OutsideCalls users_code;
      delete static_cast<Owner*>(context);
    };
  }
  layout.device_type = options.device.type;
  layout.device_index = options.device.index;
  t.impl()->view = View{data, layout};
  return with_grad(t, options);
}

Tensor zeros_unrecorded(const Dims& shape, DType dtype, Device device) {
  return zeros(shape, {dtype, device}, Location::none());
}
Tensor ones_like_unrecorded(const Tensor& like) {
  if (like.dtype() == DType::f32 && like.numel() == 1 && like.device().is_cpu() && like.is_contiguous()) {
    Tensor one = Tensor::adopt(new_tensor(like.raw_view().layout));
    *static_cast<float*>(one.data_ptr()) = 1.0f;
    return one;
  }
  return ones_like(like, Location::none());
}

}  // namespace detail

Tensor Operand::wrap(Scalar value) {
  if (WEFT_UNLIKELY(value.is_complex())) return wrap_complex(value.to_complex());
  Layout layout;
  layout.dtype = value.held_as();
  Tensor t = Tensor::adopt(detail::new_tensor(layout));
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
Tensor Operand::wrap_complex(complex128 value) {
  Layout layout;
  layout.dtype = DType::c128;
  Tensor t = Tensor::adopt(detail::new_tensor(layout));
  *static_cast<complex128*>(t.data_ptr()) = value;
  t.impl()->wrapped_number = true;
  return t;
}

}  // namespace weft
