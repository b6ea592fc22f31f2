// The arguments that var, std and their kin take in PyTorch. Not public.
#pragma once

#include "../record.hpp"

namespace weft {

struct Corrected {
  Dims dims;
  double correction;
};

/// (dim, unbiased), (unbiased) alone, or (dim, correction). ValueError where the correction is given twice.
inline Corrected corrected(const char* op, const Value& dim, std::optional<bool> unbiased,
                           std::optional<double> correction) {
  const auto* whole = std::get_if<bool>(&dim);
  if ((unbiased && correction) || (unbiased && whole != nullptr)) {
    raise<ValueError>({.op = op, .problem = "the correction is given twice", .remedy = "leave out `unbiased`"});
  }
  if (whole != nullptr) unbiased = *whole;
  return {whole != nullptr ? Dims() : detail::unboxed<Dims>(dim, 1),
          correction.value_or(unbiased.value_or(true) ? 1 : 0)};
}

}  // namespace weft
