// Converts Python's arguments for caches and attention windows.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../ops/attention.hpp"

namespace weft::python {

using Counts = std::vector<int64_t>;
using Window = std::optional<std::pair<int64_t, int64_t>>;

inline AttentionWindow window_of(const Window& w) {
  return w ? AttentionWindow{w->first, w->second} : AttentionWindow{};
}

inline TensorOptions options_of(std::optional<DType> dtype, std::optional<Device> device) {
  TensorOptions options;
  if (dtype) options.dtype = *dtype;
  if (device) options.device = *device;
  return options;
}

}  // namespace weft::python
