// The 16-bit copies of parameters that autocast keeps until its scope ends.
#pragma once

#include <memory>
#include <unordered_map>

#include "../tensor/tensor.hpp"

namespace weft::detail {

/// A parameter in 16 bits, as it was at a version.
struct Cast {
  Tensor parameter, value;
  uint32_t version;
};
using Casts = std::unordered_map<const TensorImpl*, Cast>;

/// While it lives, this thread neither reads nor keeps copies from outside: a recorded step makes its own.
class OwnCasts {
 public:
  OwnCasts();
  ~OwnCasts();
  OwnCasts(const OwnCasts&) = delete;

 private:
  Casts* outer_;
};

}  // namespace weft::detail
