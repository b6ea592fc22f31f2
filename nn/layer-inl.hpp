// Helpers for layers: initial values, checks, and options as PyTorch prints them. Not public.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config.hpp"
#include "../ops/create.hpp"
#include "../ops/random.hpp"
#include "../tensor/checked.hpp"
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
Enum enumerator(const Config& config, const char* name, std::span<const std::string_view> names, Enum otherwise,
                Location where = {}) {
  return config.contains(name) ? static_cast<Enum>(config.choice(name, names, where)) : otherwise;
}

// "MaxPool2d"
inline std::string name_for(const char* family, int dims) { return fmt::format("{}{}d", family, dims); }

/// On meta, for calls that raise the errors of the options alone.
inline Tensor on_meta(const Dims& shape) { return empty(shape, {DType::f32, Device(DeviceType::meta)}); }

/// [0, channels, size, size, ...] on meta, where `size` is at least `reach` and 2^15.
inline Tensor empty_batch(int dims, int64_t channels = 1, int64_t reach = 0) {
  Dims shape{0, channels};
  for (int i = 0; i < dims; ++i) shape.push_back(std::max(reach, int64_t{1} << 15));
  return on_meta(shape);
}

/// The largest distance from the first to the last element of a window, in any dimension; 0 if it overflows.
inline int64_t reach_of(const Dims& kernel, const Dims& dilation = 1) {
  Checked reach = 1;
  for (const int64_t size : kernel) {
    for (const int64_t step : dilation) {
      const Checked own = Checked(size) * step;
      if (own.fits()) reach = std::max(reach.value(), own.value());
    }
  }
  return reach.value();
}

/// On meta: a tensor of the lowest rank with dimension `first`, and with `last` at it or behind. Dimensions that no
/// tensor has give one of max_rank. The size of each dimension is `size`.
inline Tensor with_dims(int first, int last, int64_t size = 2) {
  const auto bounded = [](int dim) { return std::clamp(dim, -max_rank - 1, max_rank); };
  const auto needed = [](int dim) { return dim < 0 ? -dim : dim + 1; };
  const int begin = bounded(first), end = bounded(last);
  const int rank = begin >= 0 && end < 0 ? begin - end : std::max(needed(begin), needed(end));
  return on_meta(Dims::filled(std::min(rank, max_rank), size));
}
inline Tensor with_dim(int dim, int64_t size = 2) { return with_dims(dim, dim, size); }

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
