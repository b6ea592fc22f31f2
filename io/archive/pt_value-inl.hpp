// What stands behind a PtValue. Not public.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "../pt.hpp"

namespace weft::io {

struct PtValue::Contents {
  Kind kind = Kind::none;
  DType dtype = DType::f32;
  /// How many containers lie inside one another here, itself included.
  uint16_t height = 0;
  int64_t integer = 0;
  double floating = 0;
  std::string text;
  Tensor tensor;
  std::vector<PtValue> items;
  std::vector<PtEntry> entries;

  /// Places in `entries`; a name is a part of the key there.
  struct Index {
    std::map<std::string_view, size_t> by_name;
    std::map<int64_t, size_t> by_number;
  };
  std::unique_ptr<Index> index;
};

}  // namespace weft::io
