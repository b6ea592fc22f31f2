// Inputs and comparisons for tests that hold values against loops in double.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <weft/autograd/engine.hpp>
#include <weft/ops/gradcheck.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/record.hpp>

namespace weft::testing {

using Doubles = std::vector<double>;
using Inputs = std::span<const Tensor>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// f64 values without ties over [low, high].
inline Tensor spread(const Dims& shape, uint64_t seed = 0, double low = -2, double high = 2) {
  return SampleMaker(f64, {}, seed).tensor(shape, low, high);
}
inline Tensor leaf(const Dims& shape, uint64_t seed = 0, double low = -2, double high = 2) {
  return spread(shape, seed, low, high).requires_grad_();
}
inline Tensor doubles(const Doubles& values) {
  return tensor(std::span<const double>(values), Dims(static_cast<int64_t>(values.size())), f64);
}
inline Tensor doubles(const Doubles& values, const Dims& shape) {
  return tensor(std::span<const double>(values), shape, f64);
}

inline Doubles values(const Tensor& t) {
  return (is_complex(t.dtype()) ? view_as_real(t.contiguous()) : t).to_vector<double>();
}

inline void expect_near(const Doubles& actual, const Doubles& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(actual[i])) << "element " << i;
    else if (std::isinf(expected[i])) EXPECT_EQ(actual[i], expected[i]) << "element " << i;
    else EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}
inline void expect_values(const Tensor& actual, const Doubles& expected, double tolerance = 1e-12) {
  expect_near(values(actual), expected, tolerance);
}

/// First and second derivatives against differences.
template <class F>
void expect_gradients(F function, const std::vector<Tensor>& inputs) {
  EXPECT_NO_THROW(gradcheck(function, inputs));
  EXPECT_NO_THROW(gradgradcheck(function, inputs));
}

/// The elements behind each result of a reduction of a contiguous tensor over `dims`, in row-major order.
inline std::vector<Doubles> groups(const Tensor& x, const std::vector<int>& dims) {
  std::vector<bool> gone(static_cast<size_t>(x.dim()), dims.empty());
  for (const int d : dims) gone[static_cast<size_t>(d)] = true;
  size_t results = 1;
  for (int d = 0; d < x.dim(); ++d) results *= gone[static_cast<size_t>(d)] ? 1 : static_cast<size_t>(x.size(d));
  std::vector<Doubles> out(results);
  const Doubles all = values(x);
  for (size_t i = 0; i < all.size(); ++i) {
    size_t rest = i, at = 0, stride = 1;
    for (int d = x.dim() - 1; d >= 0; --d) {
      const auto size = static_cast<size_t>(x.size(d));
      if (!gone[static_cast<size_t>(d)]) {
        at += rest % size * stride;
        stride *= size;
      }
      rest /= size;
    }
    out[at].push_back(all[i]);
  }
  return out;
}
inline Doubles each(const std::vector<Doubles>& groups, const std::function<double(const Doubles&)>& f) {
  Doubles out;
  for (const Doubles& group : groups) out.push_back(f(group));
  return out;
}

}  // namespace weft::testing
