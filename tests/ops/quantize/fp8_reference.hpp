// Quantisation in blocks by loops over numbers, and 8-bit codes to compare.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>
#include <weft/tensor/number.hpp>

#include "ops/values.hpp"

namespace weft::testing {

using Codes = std::vector<int>;

inline Codes codes(const Tensor& q) {
  const Tensor dense = q.to(Device()).contiguous();
  const auto* from = static_cast<const uint8_t*>(dense.raw_view().data);
  return Codes(from, from + dense.numel());
}

/// s of a block with the largest number `most`.
inline float multiplier(float most, bool pow2, float eps = 0, float largest = 448) {
  const float a = std::max(most, eps);
  if (a == 0) return 1;
  double s = static_cast<double>(largest / a);
  if (pow2) s = std::exp2(std::floor(std::log2(std::min(s, 0x1p127))));
  return static_cast<float>(std::min(s, 0x1p126));
}

inline int code_of(float x, DType dtype) {
  if (dtype == DType::f8_e4m3fn) return to_float8_e4m3fn(x).bits;
  return to_float8_e5m2(std::isnan(x) ? x : std::clamp(x, -57344.0f, 57344.0f)).bits;
}

struct QuantReference {
  Codes q;
  std::vector<float> scale;
};

/// x [m, n] in blocks of rows x columns.
inline QuantReference quantized_by_loops(const Tensor& given, int64_t rows, int64_t columns, bool pow2,
                                         DType dtype = DType::f8_e4m3fn, float eps = 0) {
  const Tensor x = given.to(f32).contiguous();
  const int64_t m = x.size(0), n = x.size(1), across = (n + columns - 1) / columns, down = (m + rows - 1) / rows;
  const std::vector<float> values = x.to_vector<float>();
  std::vector<float> most(static_cast<size_t>(across * down), 0.0f), by;
  const auto block = [&](int64_t i, int64_t j) { return static_cast<size_t>(i / rows * across + j / columns); };
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float size = std::fabs(values[static_cast<size_t>(i * n + j)]);
      if (std::isfinite(size)) most[block(i, j)] = std::max(most[block(i, j)], size);
    }
  }
  QuantReference out;
  for (const float a : most) {
    by.push_back(multiplier(a, pow2, eps, dtype == DType::f8_e4m3fn ? 448.0f : 57344.0f));
    out.scale.push_back(1 / by.back());
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      out.q.push_back(code_of(values[static_cast<size_t>(i * n + j)] * by[block(i, j)], dtype));
    }
  }
  return out;
}

inline void expect_quantized(const Tensor& q, const Tensor& scale, const QuantReference& expected) {
  EXPECT_EQ(codes(q), expected.q);
  EXPECT_EQ(scale.contiguous().to_vector<float>(), expected.scale);
}

}  // namespace weft::testing
