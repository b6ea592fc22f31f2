// Lists of fractions in boxed calls. Not public.
#pragma once

#include "../../tensor/tensor.hpp"
#include "../record.hpp"

namespace weft {

/// One number, a 1-d tensor of them, or none.
inline std::vector<double> numbers_in(const Value& given, size_t argument) {
  if (std::holds_alternative<std::monostate>(given)) return {};
  const auto* several = std::get_if<Tensor>(&given);
  if (several == nullptr) return {detail::unboxed<double>(given, argument)};
  return several->to(DType::f64).reshape({-1}).to_vector<double>();
}

}  // namespace weft
