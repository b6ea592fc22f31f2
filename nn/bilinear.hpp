// A bilinear layer.
#pragma once

#include "module.hpp"

namespace weft::nn {

/// x1 [..., in1], x2 [..., in2] -> [..., out]: x1ᵀ · weight[k] · x2 + bias[k] for each k. weight is [out, in1, in2],
/// bias [out]; both are initialised uniformly in ±1/√in1. Raises ValueError for negative sizes.
class WEFT_API Bilinear : public Layer<Bilinear> {
 public:
  Bilinear(int64_t in1, int64_t in2, int64_t out, bool bias = true, Location where = {});
  Tensor forward(const Tensor& x1, const Tensor& x2, Location where) const;

  Parameter weight, bias;
};

}  // namespace weft::nn
