// What layers share: first values, checks, and options as PyTorch prints them. Not public.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../ops/create.hpp"
#include "../ops/random.hpp"

namespace weft::nn {

// ±1/√in: Kaiming's uniform bound with slope √5, as PyTorch has it.
inline Tensor uniform_by_width(const Dims& shape, int64_t in, Location where) {
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  return uniform_(empty(shape, {}, where), -bound, bound, nullptr, where);
}

inline const char* python_bool(bool value) { return value ? "True" : "False"; }

// "(4, 64)", and "(64,)" for one size, as Python writes a tuple.
inline std::string python_tuple(const Dims& sizes) {
  return sizes.size() == 1 ? fmt::format("({},)", sizes[0]) : fmt::format("({})", fmt::join(sizes, ", "));
}

// A double as Python writes it: "1e-05", "0.5", "1.0".
inline std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

inline void check_size(const char* layer, const char* what, int64_t size, Location where) {
  if (size >= 0) return;
  raise<ValueError>({.op = layer, .problem = fmt::format("{} is {}: sizes are not negative", what, size)}, where);
}

}  // namespace weft::nn
