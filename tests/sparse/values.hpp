// Values compared by the tests of sparse tensors.
#pragma once

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/sparse/sparse.hpp>

namespace weft::test {

inline void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_EQ(a.dtype(), b.dtype());
  const auto left = a.detach().to(f64).to_vector<double>(), right = b.detach().to(f64).to_vector<double>();
  for (size_t i = 0; i < left.size(); ++i) {
    ASSERT_NEAR(left[i], right[i], tolerance * (1 + std::abs(right[i]))) << "element " << i;
  }
}

inline Tensor random_indices(std::mt19937& random, const Dims& shape, int64_t low, int64_t high) {
  std::vector<int64_t> values(static_cast<size_t>(shape.product()));
  for (int64_t& v : values) v = std::uniform_int_distribution<int64_t>(low, high - 1)(random);
  return tensor(std::span<const int64_t>(values), shape, i64);
}
inline Tensor random_values(std::mt19937& random, const Dims& shape, DType dtype = f64) {
  std::vector<double> values(static_cast<size_t>(shape.product()));
  for (double& v : values) v = std::uniform_real_distribution<double>(-2, 2)(random);
  return tensor(std::span<const double>(values), shape, f64).to(dtype);
}

}  // namespace weft::test
