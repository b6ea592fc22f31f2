// The implementation of PtValue. Not public.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "../pt.hpp"

namespace weft::io {

struct PtValue::Contents {
  Kind kind = Kind::none;
  DType dtype = DType::f32;
  /// Nesting depth of containers, including this one.
  uint16_t height = 0;
  int64_t integer = 0;
  double floating = 0;
  std::string text;
  Tensor tensor;
  std::vector<PtValue> items;
  std::vector<PtEntry> entries;

  /// Indices into `entries`; the string views point into its keys.
  struct Index {
    std::map<std::string_view, size_t> by_name;
    std::map<int64_t, size_t> by_number;
  };
  std::unique_ptr<Index> index;
};

}  // namespace weft::io
