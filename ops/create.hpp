// New tensors: filled, copied from C++ containers, or wrapped around memory that is already there.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include <weft/tensor/tensor.hpp>

namespace weft {

/// Elements are not set.
WEFT_API Tensor empty(const Dims& shape, TensorOptions options = {}, Location where = {});
WEFT_API Tensor zeros(const Dims& shape, TensorOptions options = {}, Location where = {});
WEFT_API Tensor ones(const Dims& shape, TensorOptions options = {}, Location where = {});
/// The dtype follows `value` (bool, i64 or f32) unless given.
WEFT_API Tensor full(const Dims& shape, Scalar value, Location where = {});
WEFT_API Tensor full(const Dims& shape, Scalar value, TensorOptions options, Location where = {});
WEFT_API Tensor empty_like(const Tensor& like, Location where = {});
WEFT_API Tensor zeros_like(const Tensor& like, Location where = {});
WEFT_API Tensor ones_like(const Tensor& like, Location where = {});
WEFT_API Tensor full_like(const Tensor& like, Scalar value, Location where = {});
/// start, start + step, … before stop. i64 where all three are integers, else f32. ValueError for step 0 or a step away
/// from stop.
WEFT_API Tensor arange(Scalar stop, Location where = {});
WEFT_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1, Location where = {});
WEFT_API Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options, Location where = {});
/// `count` values from first to last, both included.
WEFT_API Tensor linspace(double first, double last, int64_t count, TensorOptions options = {}, Location where = {});
/// Ones on the diagonal.
WEFT_API Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {}, Location where = {});

namespace detail {
WEFT_API Tensor from_elements(const void* elements, DType element_type, const Dims& shape, TensorOptions options,
                              Location where);
WEFT_API Tensor wrap_memory(void* data, const Dims& shape, const Dims& strides, TensorOptions options,
                            std::shared_ptr<void> owner, Location where);
// Literals of type double are f32 tensors unless asked otherwise, those of type int i64, as in PyTorch.
template <class T>
constexpr DType literal_type() {
  if (std::is_same_v<T, double>) return default_dtype;
  return std::is_same_v<T, int> ? DType::i64 : dtype_of<T>();
}
}  // namespace detail

/// A 0-d tensor. int gives i64 and double f32, as PyTorch's literals do, unless `options` say otherwise.
template <Arithmetic T>
Tensor tensor(T value, TensorOptions options = detail::literal_type<T>(), Location where = {}) {
  return detail::from_elements(&value, dtype_of<T>(), {}, options, where);
}
/// A copy of the elements, 1-d or in the given shape. ShapeError where the count does not fit.
template <Arithmetic T>
Tensor tensor(std::span<const T> values, const Dims& shape, TensorOptions options = detail::literal_type<T>(),
              Location where = {}) {
  if (static_cast<int64_t>(values.size()) != shape.product()) {
    raise<ShapeError>(
        {.op = "tensor", .problem = "the number of values does not fit the shape", .details = shape.text()}, where);
  }
  return detail::from_elements(values.data(), dtype_of<T>(), shape, options, where);
}
template <Arithmetic T>
Tensor tensor(std::span<const T> values, TensorOptions options = detail::literal_type<T>(), Location where = {}) {
  return tensor(values, Dims(static_cast<int64_t>(values.size())), options, where);
}
template <Arithmetic T>
  requires(!std::is_same_v<T, bool>)
Tensor tensor(const std::vector<T>& values, TensorOptions options = detail::literal_type<T>(), Location where = {}) {
  return tensor(std::span<const T>(values), options, where);
}
template <Arithmetic T>
Tensor tensor(std::initializer_list<T> values, TensorOptions options = detail::literal_type<T>(), Location where = {}) {
  return tensor(std::span<const T>(values.begin(), values.size()), options, where);
}
/// A matrix from its rows. ShapeError where they differ in length.
template <Arithmetic T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, TensorOptions options = detail::literal_type<T>(),
              Location where = {}) {
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  const auto values = std::make_unique<T[]>(rows.size() * columns);
  T* next = values.get();
  for (const auto& row : rows) {
    if (row.size() != columns) raise<ShapeError>({.op = "tensor", .problem = "rows differ in length"}, where);
    for (const auto value : row) *next++ = value;
  }
  return tensor(std::span<const T>(values.get(), rows.size() * columns),
                {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}, options, where);
}

/// A tensor over memory somebody else owns, without a copy. `owner`, if given, is kept as long as any view lives.
/// Strides count elements and may be negative; left out, the memory is row-major.
template <class T>
Tensor from_blob(T* data, const Dims& shape, std::shared_ptr<void> owner = {}, Location where = {}) {
  return detail::wrap_memory(data, shape, {}, dtype_of<T>(), std::move(owner), where);
}
template <class T>
Tensor from_blob(T* data, const Dims& shape, const Dims& strides, std::shared_ptr<void> owner = {},
                 Location where = {}) {
  return detail::wrap_memory(data, shape, strides, dtype_of<T>(), std::move(owner), where);
}

}  // namespace weft
