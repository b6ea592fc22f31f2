#include "expect-inl.hpp"

namespace weft {

std::string mismatch_text(std::string_view name, const Shown& expected, const Shown& actual) {
  return fmt::format("{}{}expected {}, got {}", name, name.empty() ? "" : ": ", expected.text, actual.text);
}

std::string in_quotes(std::string_view word) { return fmt::format("'{}'", word); }

void raise_rank(std::string_view name, const Shown& expected, const Tensor& t, std::string_view remedy) {
  raise_mismatch<ShapeError>(name, expected, "shape " + t.shape().text(), remedy);
}
void raise_shape(std::string_view name, const Shown& expected, const Tensor& t, std::string_view remedy) {
  raise_mismatch<ShapeError>(name, "shape " + expected.text, t.shape(), remedy);
}
void raise_dtype(std::string_view name, const Shown& expected, const Shown& actual, std::string_view remedy) {
  raise_mismatch<DTypeError>(name, expected, actual, remedy);
}
void raise_dtypes(std::string_view name, DType a, DType b, std::string_view remedy) {
  raise_dtype(name, "one dtype", fmt::format("{} and {}", weft::name(a), weft::name(b)), remedy);
}
void raise_value(std::string_view name, const Shown& expected, const Shown& actual, std::string_view remedy) {
  raise_mismatch<ValueError>(name, expected, actual, remedy);
}

namespace detail {

void raise_other_shape(std::string_view name, const Tensor& t, const Dims& expected) { raise_shape(name, expected, t); }
void raise_other_shape(std::string_view name, const Tensor& t, fmt::string_view pattern, fmt::format_args arguments) {
  raise_shape(name, fmt::vformat(pattern, arguments), t);
}
void raise_other_dtype(std::string_view name, const Tensor& t, std::string_view expected, std::string_view remedy) {
  raise_dtype(name, expected, t.dtype(), remedy);
}
void raise_other_rank(std::string_view name, const Tensor& t, const char* bound, int rank) {
  raise_rank(name, fmt::format("{}{} dimension{}", bound, rank, rank == 1 ? "" : "s"), t);
}

}  // namespace detail

}  // namespace weft
