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

}  // namespace weft
