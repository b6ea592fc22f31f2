// Helpers for layers: initial values, checks, and options as PyTorch prints them. Not public.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config.hpp"
#include "../ops/create.hpp"
#include "../ops/random.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

// Uniform in ±1/√in: Kaiming's uniform bound with slope √5, as in PyTorch.
inline Tensor uniform_by_width(const Dims& shape, int64_t in, Location where) {
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  return uniform_(empty(shape, {}, where), -bound, bound, nullptr, where);
}

inline const char* python_bool(bool value) { return value ? "True" : "False"; }

// A Python tuple: "(4, 64)", or "(64,)" for one size.
inline std::string python_tuple(const Dims& sizes) {
  return sizes.size() == 1 ? fmt::format("({},)", sizes[0]) : fmt::format("({})", fmt::join(sizes, ", "));
}

// "2" for one size, else as python_tuple.
inline std::string python_sizes(const Dims& sizes) {
  return sizes.size() == 1 ? std::to_string(sizes[0]) : python_tuple(sizes);
}

// A double in Python's syntax: "1e-05", "0.5", "1.0".
inline std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

// Names of option values, in the order of their enums.
inline constexpr std::string_view padding_modes[] = {"zeros", "reflect", "replicate", "circular"};
inline constexpr std::string_view gelu_approximations[] = {"none", "tanh"};
inline constexpr std::string_view bag_modes[] = {"sum", "mean", "max"};
inline constexpr std::string_view interpolation_modes[] = {"nearest", "nearest-exact", "linear", "bilinear",
                                                           "bicubic", "trilinear",     "area"};

/// The enumerator named by an option, or `otherwise` if the option does not exist. Errors as Config::choice.
template <class Enum>
Enum enumerator(const Config& config, const char* name, std::span<const std::string_view> names, Enum otherwise) {
  return config.contains(name) ? static_cast<Enum>(config.choice(name, names)) : otherwise;
}

// "MaxPool2d"
inline std::string name_for(const char* family, int dims) { return fmt::format("{}{}d", family, dims); }

/// On meta, for calls that raise what follows from options alone: [0, channels, 2^15, 2^15, ...].
inline Tensor empty_batch(int dims, int64_t channels = 1) {
  Dims shape{0, channels};
  for (int i = 0; i < dims; ++i) shape.push_back(int64_t{1} << 15);
  return empty(shape, {DType::f32, Device(DeviceType::meta)});
}

inline void check_size(const std::string& layer, const char* what, int64_t size, Location where) {
  if (size >= 0) return;
  raise<ValueError>({.op = layer.c_str(), .problem = mismatch_text(what, "at least 0", size)}, where);
}

// Explicit instantiations of a layer for one, two and three spatial dimensions.
#define WEFT_FOR_DIMS(layer, ...)                      \
  template struct layer<1 __VA_OPT__(, ) __VA_ARGS__>; \
  template struct layer<2 __VA_OPT__(, ) __VA_ARGS__>; \
  template struct layer<3 __VA_OPT__(, ) __VA_ARGS__>;

}  // namespace weft::nn
