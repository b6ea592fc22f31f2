// New tensors: filled, copied from C++ containers, or wrapped around existing memory. They are contiguous (from_blob
// aside), and f32 on the CPU unless the options or the function say otherwise.
//
// Raises ShapeError for a negative size and for more than 8 dimensions or 2^63 - 1 bytes. Raises DeviceError if the
// device does not exist, OutOfMemoryError, and ValueError for requires_grad with a dtype that has no gradient.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft {

/// Elements are uninitialised, 0 or 1. Shape, dtype and device errors are those above.
[[nodiscard]] WEFT_API Tensor empty(const Dims& shape, TensorOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor zeros(const Dims& shape, TensorOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor ones(const Dims& shape, TensorOptions options = {}, Location where = {});
/// The dtype follows `value` (bool, i64, f32 or c64) unless given. ValueError where an integer dtype does not hold it,
/// DTypeError for a complex value in a dtype that is not complex.
[[nodiscard]] WEFT_API Tensor full(const Dims& shape, Scalar value, TensorOptions options = {}, Location where = {});
/// The same with the shape, dtype and device of `like`; strides and requires_grad are not copied. LikeOptions override
/// dtype and device. full_like raises the errors of full.
[[nodiscard]] WEFT_API Tensor empty_like(const Tensor& like, Location where = {});
[[nodiscard]] WEFT_API Tensor zeros_like(const Tensor& like, Location where = {});
[[nodiscard]] WEFT_API Tensor ones_like(const Tensor& like, Location where = {});
[[nodiscard]] WEFT_API Tensor full_like(const Tensor& like, Scalar value, Location where = {});
[[nodiscard]] WEFT_API Tensor empty_like(const Tensor& like, const LikeOptions& options, Location where = {});
[[nodiscard]] WEFT_API Tensor zeros_like(const Tensor& like, const LikeOptions& options, Location where = {});
[[nodiscard]] WEFT_API Tensor ones_like(const Tensor& like, const LikeOptions& options, Location where = {});
[[nodiscard]] WEFT_API Tensor full_like(const Tensor& like, Scalar value, const LikeOptions& options,
                                        Location where = {});
/// The same in another shape, with the dtype and device of `like`. new_full raises the errors of full.
[[nodiscard]] WEFT_API Tensor new_empty(const Tensor& like, const Dims& shape, const LikeOptions& options = {},
                                        Location where = {});
[[nodiscard]] WEFT_API Tensor new_zeros(const Tensor& like, const Dims& shape, const LikeOptions& options = {},
                                        Location where = {});
[[nodiscard]] WEFT_API Tensor new_ones(const Tensor& like, const Dims& shape, const LikeOptions& options = {},
                                       Location where = {});
[[nodiscard]] WEFT_API Tensor new_full(const Tensor& like, const Dims& shape, Scalar value,
                                       const LikeOptions& options = {}, Location where = {});
/// start, start + step, … before stop: 1-d. i64 where all three are integers, else f32, unless a dtype is given.
/// ValueError for a step of 0, and for one that leads away from stop.
[[nodiscard]] WEFT_API Tensor arange(Scalar stop, TensorOptions options = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1, TensorOptions options = {},
                                     Location where = {});
/// `count` equidistant values from first to last, both included: 1-d, c64 where one of them is complex. ValueError for
/// a negative count.
[[nodiscard]] WEFT_API Tensor linspace(Scalar first, Scalar last, int64_t count, TensorOptions options = {},
                                       Location where = {});
/// [rows, columns], square unless columns are given: ones on the diagonal, zeros elsewhere. Raises ShapeError for a
/// negative size.
[[nodiscard]] WEFT_API Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {},
                                  Location where = {});

// The same with a dtype or a device instead of options: `zeros({2, 3}, f64)`.
template <TensorOption O>
Tensor empty(const Dims& shape, O option, Location where = {}) {
  return empty(shape, detail::options_from(option), where);
}
template <TensorOption O>
Tensor zeros(const Dims& shape, O option, Location where = {}) {
  return zeros(shape, detail::options_from(option), where);
}
template <TensorOption O>
Tensor ones(const Dims& shape, O option, Location where = {}) {
  return ones(shape, detail::options_from(option), where);
}
template <TensorOption O>
Tensor full(const Dims& shape, Scalar value, O option, Location where = {}) {
  return full(shape, value, detail::options_from(option), where);
}
template <TensorOption O>
Tensor arange(Scalar stop, O option, Location where = {}) {
  return arange(stop, detail::options_from(option), where);
}
template <TensorOption O>
Tensor arange(Scalar start, Scalar stop, Scalar step, O option, Location where = {}) {
  return arange(start, stop, step, detail::options_from(option), where);
}
template <TensorOption O>
Tensor linspace(Scalar first, Scalar last, int64_t count, O option, Location where = {}) {
  return linspace(first, last, count, detail::options_from(option), where);
}
template <TensorOption O>
Tensor eye(int64_t rows, std::optional<int64_t> columns, O option, Location where = {}) {
  return eye(rows, columns, detail::options_from(option), where);
}

namespace detail {
[[nodiscard]] WEFT_API Tensor from_elements(const void* elements, DType element_type, const Dims& shape,
                                            TensorOptions options, Location where);
[[nodiscard]] WEFT_API Tensor wrap_memory(void* data, const Dims& shape, const Dims& strides, TensorOptions options,
                                          Owner owner, Location where);
WEFT_API TensorOptions options_like(const Tensor& like, const LikeOptions& options, Location where);
[[noreturn]] WEFT_API void raise_ragged(Location where);
[[noreturn]] WEFT_API void raise_count(size_t values, const Dims& shape, Location where);

// As in PyTorch, literals of type double give the default dtype, those of std::complex<double> the complex one, and
// those of type int i64, unless a dtype is given.
template <class T>
concept ElementType = Arithmetic<T> || ComplexNumber<T>;
template <class T>
DType literal_type() {
  if (std::is_same_v<T, double>) return default_dtype();
  if (ComplexNumber<T> && sizeof(T) == 16) return complex_type(default_dtype());
  return std::is_same_v<T, int> ? DType::i64 : dtype_of<T>();
}
template <class T, class O>
TensorOptions literal_options(O option) {
  TensorOptions options = options_from(option);
  if (!options.dtype) options.dtype = literal_type<T>();
  return options;
}

/// std::vector, std::array, std::span and the like, of numbers or of such containers.
template <class R>
concept Container = requires(const R& r) {
  r.size();
  r.begin();
  r.end();
  typename R::value_type;
};
template <class R>
struct ElementOf {
  using type = R;
};
template <Container R>
struct ElementOf<R> {
  using type = typename ElementOf<typename R::value_type>::type;
};
// The shape of nested containers, by the first of each level; flatten checks that the others agree.
template <class R>
void measure(const R& values, Dims& shape) {
  if constexpr (Container<R>) {
    shape.push_back(static_cast<int64_t>(values.size()));
    using Inner = typename R::value_type;
    if constexpr (Container<Inner>) {
      if (values.size() != 0) measure(*values.begin(), shape);
      else measure(Inner{}, shape);
    }
  }
}
template <class T, class R>
void flatten(const R& values, const Dims& shape, int dim, T*& next, Location where) {
  if constexpr (Container<R>) {
    if (static_cast<int64_t>(values.size()) != shape[dim]) raise_ragged(where);
    for (const auto& inner : values)
      flatten(static_cast<const typename R::value_type&>(inner), shape, dim + 1, next, where);
  } else {
    *next++ = values;
  }
}
template <class T, class R>
Tensor from_nested(const R& values, const TensorOptions& options, Location where) {
  Dims shape;
  measure(values, shape);
  using Element = std::conditional_t<std::same_as<T, bool>, unsigned char, T>;  // a vector of bool would be of bits
  std::vector<Element> elements(static_cast<size_t>(shape.product()));
  Element* next = elements.data();
  flatten(values, shape, 0, next, where);
  return from_elements(elements.data(), dtype_of<T>(), shape, options, where);
}
template <class R>
concept NumberContainer = Container<R> && ElementType<typename ElementOf<R>::type>;
template <class T, class R>
Tensor from_container(const R& values, const TensorOptions& options, Location where) {
  if constexpr (requires(const T*& p) { p = values.data(); }) {
    return from_elements(values.data(), dtype_of<T>(), Dims(values.size()), options, where);
  } else {
    return from_nested<T>(values, options, where);
  }
}
}  // namespace detail

/// A 0-d tensor. As in PyTorch, int gives i64, double f32 and std::complex<double> c64, unless `options` have a dtype.
/// ValueError where an integer dtype does not hold the value; so for all below.
template <detail::ElementType T, class O = TensorOptions>
Tensor tensor(T value, O options = {}, Location where = {}) {
  return detail::from_elements(&value, dtype_of<T>(), {}, detail::literal_options<T>(options), where);
}
/// Nested literals, `tensor({{1, 2}, {3, 4}})`, of one to three dimensions. ShapeError where rows differ in length.
template <detail::ElementType T, class O = TensorOptions>
Tensor tensor(std::initializer_list<T> values, O options = {}, Location where = {}) {
  return detail::from_elements(values.begin(), dtype_of<T>(), Dims(values.size()), detail::literal_options<T>(options),
                               where);
}
template <detail::ElementType T, class O = TensorOptions>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, O options = {}, Location where = {}) {
  return detail::from_nested<T>(rows, detail::literal_options<T>(options), where);
}
template <detail::ElementType T, class O = TensorOptions>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices, O options = {},
              Location where = {}) {
  return detail::from_nested<T>(matrices, detail::literal_options<T>(options), where);
}
/// A copy of a std::vector, std::array or std::span of numbers or, nested, of such containers. ShapeError where those
/// of one level differ in size.
template <detail::NumberContainer R, class O = TensorOptions>
Tensor tensor(const R& values, O options = {}, Location where = {}) {
  using T = std::remove_const_t<typename detail::ElementOf<R>::type>;
  return detail::from_container<T>(values, detail::literal_options<T>(options), where);
}
/// A copy of the elements, in row-major order, in the given shape. ShapeError where the count does not fit.
template <detail::ElementType T, class O = TensorOptions>
Tensor tensor(std::span<const T> values, const Dims& shape, O options = {}, Location where = {}) {
  if (static_cast<int64_t>(values.size()) != shape.product()) detail::raise_count(values.size(), shape, where);
  return detail::from_elements(values.data(), dtype_of<T>(), shape, detail::literal_options<T>(options), where);
}

// Common mistakes, for an error of the compiler that ends in the remedy.
template <std::integral A, std::integral B, class... More>
Tensor empty(A, B, const More&...) = delete;  // sizes in braces: empty({2, 3})
template <std::integral A, std::integral B, class... More>
Tensor zeros(A, B, const More&...) = delete;  // sizes in braces: zeros({2, 3})
template <std::integral A, std::integral B, class... More>
Tensor ones(A, B, const More&...) = delete;  // sizes in braces: ones({2, 3})
template <detail::ElementType A, detail::ElementType B, class... More>
Tensor tensor(A, B, const More&...) = delete;                // elements in braces: tensor({1, 2, 3})
Tensor tensor(std::initializer_list<Scalar>, ...) = delete;  // elements of one type: tensor({1.0, 2.0})

/// `tensor` with the dtype and the device of `like`, unless the options say otherwise.
template <Arithmetic T>
Tensor new_tensor(const Tensor& like, T value, const LikeOptions& options = {}, Location where = {}) {
  return tensor(value, detail::options_like(like, options, where), where);
}
template <Arithmetic T>
Tensor new_tensor(const Tensor& like, std::initializer_list<T> values, const LikeOptions& options = {},
                  Location where = {}) {
  return tensor(values, detail::options_like(like, options, where), where);
}
template <Arithmetic T>
Tensor new_tensor(const Tensor& like, std::initializer_list<std::initializer_list<T>> rows,
                  const LikeOptions& options = {}, Location where = {}) {
  return tensor(rows, detail::options_like(like, options, where), where);
}
template <Arithmetic T>
Tensor new_tensor(const Tensor& like, std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices,
                  const LikeOptions& options = {}, Location where = {}) {
  return tensor(matrices, detail::options_like(like, options, where), where);
}
template <detail::NumberContainer R>
Tensor new_tensor(const Tensor& like, const R& values, const LikeOptions& options = {}, Location where = {}) {
  return tensor(values, detail::options_like(like, options, where), where);
}

/// A CPU tensor over memory that it does not own, without a copy. `data` is the address of element [0, 0, …]. `owner`,
/// if given, is kept as long as any view lives. Strides count elements and may be negative; without them the memory is
/// row-major. ShapeError unless there is one stride for each size, ValueError for a null pointer and a non-empty shape.
template <class T>
Tensor from_blob(T* data, const Dims& shape, Owner owner = {}, Location where = {}) {
  return detail::wrap_memory(data, shape, {}, {.dtype = dtype_of<T>()}, std::move(owner), where);
}
template <class T>
Tensor from_blob(T* data, const Dims& shape, const Dims& strides, Owner owner = {}, Location where = {}) {
  return detail::wrap_memory(data, shape, strides, {.dtype = dtype_of<T>()}, std::move(owner), where);
}

}  // namespace weft
