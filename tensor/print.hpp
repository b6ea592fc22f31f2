// How tensors are printed.
#pragma once

#include <cstdint>
#include <optional>

#include "location.hpp"

namespace weft {

/// PyTorch's set_printoptions. The defaults are PyTorch's.
struct PrintOptions {
  /// Digits after the decimal point.
  int precision = 4;
  /// Tensors with more elements are summarised.
  int64_t threshold = 1000;
  /// Elements at each end of a dimension in a summary.
  int64_t edge_items = 3;
  /// Characters of a line.
  int64_t line_width = 80;
  /// Whether floats have an exponent; chosen by their values if omitted.
  std::optional<bool> scientific = {};
  /// `dtype=torch.float64` and `grad_fn=<MulBackward0>`, as PyTorch prints them.
  bool pytorch_names = false;
};

/// The options of this process.
WEFT_API PrintOptions print_options();
/// Applies to all threads. Raises ValueError for negative numbers.
WEFT_API void set_print_options(const PrintOptions& options, Location where = {});

}  // namespace weft
