// Checks of arguments and the text of their errors: "x: expected shape [2, 3], got [3, 2]".
//
// Every message about a value that differs from the required one has this grammar: the name of the argument as in the
// signature, then the requirement, then the value. The check is an inline comparison; a function outside of the hot
// path builds the text. Only source files include this header.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "error.hpp"
#include "tensor.hpp"

namespace weft {

/// A value as an error message shows it: a text, a number, a shape, or the name of a dtype or device.
struct Shown {
  Shown(std::string value) : text(std::move(value)) {}
  Shown(std::string_view value) : text(value) {}
  Shown(const char* value) : text(value) {}
  Shown(const Dims& shape) : text(shape.text()) {}
  Shown(DType dtype) : text(name(dtype)) {}
  Shown(Device device) : text(device.name()) {}
  template <class T>
    requires(std::integral<T> || std::floating_point<T>)
  Shown(T number) : text(fmt::format("{}", number)) {}

  std::string text;
};

/// Returns "name: expected ..., got ...". Without a name it starts with "expected".
WEFT_API std::string mismatch_text(std::string_view name, const Shown& expected, const Shown& actual);

/// Returns "'word'".
WEFT_API std::string in_quotes(std::string_view word);

/// Raises E with the text of mismatch_text() inside an op.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise_mismatch(std::string_view name, const Shown& expected,
                                                           const Shown& actual, std::string_view remedy = {}) {
  raise<E>({.problem = mismatch_text(name, expected, actual), .remedy = std::string(remedy)});
}

/// Raises ShapeError "name: expected a matrix, got shape [3]".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_rank(std::string_view name, const Shown& expected,
                                                                const Tensor& t, std::string_view remedy = {});
/// Raises ShapeError "name: expected shape [n, 2], got [3]".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_shape(std::string_view name, const Shown& expected,
                                                                 const Tensor& t, std::string_view remedy = {});
/// Raises DTypeError "name: expected bool, got int64".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_dtype(std::string_view name, const Shown& expected,
                                                                 const Shown& actual, std::string_view remedy = {});
/// Raises DTypeError "name: expected one dtype, got float32 and int64".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_dtypes(std::string_view name, DType a, DType b,
                                                                  std::string_view remedy = {});
/// Raises ValueError "name: expected ..., got ...".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_value(std::string_view name, const Shown& expected,
                                                                 const Shown& actual, std::string_view remedy = {});

namespace detail {
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_other_shape(std::string_view name, const Tensor& t,
                                                                       const Dims& expected);
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_other_shape(std::string_view name, const Tensor& t,
                                                                       fmt::string_view pattern,
                                                                       fmt::format_args arguments);
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_other_dtype(std::string_view name, const Tensor& t,
                                                                       std::string_view expected,
                                                                       std::string_view remedy = {});
/// `bound`: "" or "at least ".
[[noreturn, gnu::cold, gnu::noinline]] WEFT_API void raise_other_rank(std::string_view name, const Tensor& t,
                                                                      const char* bound, int rank);
template <class T>
[[noreturn, gnu::cold, gnu::noinline]] void raise_below(std::string_view name, T value, T least) {
  raise_value(name, fmt::format("at least {}", least), value);
}
template <class T>
[[noreturn, gnu::cold, gnu::noinline]] void raise_outside(std::string_view name, T value, T low, T high) {
  raise_value(name, fmt::format("a number in [{}, {}]", low, high), value);
}
}  // namespace detail

inline void expect_shape(std::string_view name, const Tensor& t, const Dims& expected) {
  if (t.shape() == expected) return;
  detail::raise_other_shape(name, t, expected);
}
/// For a pattern such as "[{}, n]", which is formatted only for the error.
template <class... Arguments>
void expect_shape(std::string_view name, const Tensor& t, bool fits, fmt::format_string<const Arguments&...> pattern,
                  const Arguments&... arguments) {
  if (fits) return;
  detail::raise_other_shape(name, t, pattern, fmt::make_format_args(arguments...));
}
inline void expect_dtype(std::string_view name, const Tensor& t, DType expected) {
  if (t.dtype() == expected) return;
  detail::raise_other_dtype(name, t, weft::name(expected));
}
inline void expect_dtype(std::string_view name, const Tensor& t, bool fits, std::string_view expected) {
  if (fits) return;
  detail::raise_other_dtype(name, t, expected);
}
inline void expect_integers(std::string_view name, const Tensor& t, std::string_view remedy = {}) {
  if (is_integer(t.dtype())) return;
  detail::raise_other_dtype(name, t, "integers", remedy);
}
/// "a and b: expected one dtype, got float32 and int64"
inline void expect_one_dtype(std::string_view name, const Tensor& a, const Tensor& b, std::string_view remedy = {}) {
  if (a.dtype() == b.dtype()) return;
  raise_dtypes(name, a.dtype(), b.dtype(), remedy);
}
inline void expect_matrix(std::string_view name, const Tensor& t) {
  if (t.dim() == 2) return;
  raise_rank(name, "a matrix", t);
}
/// "x: expected 2 dimensions, got shape [3]"
inline void expect_rank(std::string_view name, const Tensor& t, int rank) {
  if (t.dim() == rank) return;
  detail::raise_other_rank(name, t, "", rank);
}
inline void expect_rank_at_least(std::string_view name, const Tensor& t, int least) {
  if (t.dim() >= least) return;
  detail::raise_other_rank(name, t, "at least ", least);
}
/// "groups: expected at least 1, got 0"
template <class T>
void expect_at_least(std::string_view name, T value, std::type_identity_t<T> least) {
  if (value >= least) return;
  detail::raise_below(name, value, least);
}
/// "dropout: expected a number in [0, 1], got nan"
template <class T>
void expect_range(std::string_view name, T value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  if (value >= low && value <= high) return;
  detail::raise_outside(name, value, low, high);
}

}  // namespace weft
