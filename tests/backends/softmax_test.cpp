#include <algorithm>
#include <cmath>

#include "kernel_checks.hpp"

namespace weft {
namespace {

using namespace test;

/// Calls body(positions of one line) for every line along `dim`.
template <class F>
void for_each_line(const std::vector<int64_t>& sizes, int dim, F&& body) {
  int64_t inner = 1, numel = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (static_cast<int>(d) > dim) inner *= sizes[d];
    numel *= sizes[d];
  }
  const int64_t n = sizes[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < numel; ++i) {
    if (i / inner % n != 0) continue;
    std::vector<int64_t> line;
    for (int64_t k = 0; k < n; ++k) line.push_back(i + k * inner);
    body(line);
  }
}

std::vector<double> softmax_reference(const std::vector<double>& x, bool logarithm) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double v : x) sum += std::exp(v - largest);
  std::vector<double> y;
  for (double v : x) y.push_back(logarithm ? v - largest - std::log(sum) : std::exp(v - largest) / sum);
  return y;
}

const std::vector<std::vector<int64_t>> shapes = {{3, 5, 37}, {4, 5000}, {300, 70}, {1}};

TEST(Softmax, EveryTypeDimensionAndLayout) {
  for (const auto& sizes : shapes) {
    for (const DType dtype : float_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        HostArray x(dtype, shape, 5);
        for (int64_t i = 0; i < x.numel(); ++i) x.set(i, x.get(i) * 10);
        for (int dim = 0; dim < static_cast<int>(sizes.size()); ++dim) {
          for (const bool logarithm : {false, true}) {
            HostArray y(dtype, logarithm ? shape : ArrayShape{.sizes = sizes});
            cpu::softmax(y.view, x.view, dim, logarithm);
            for_each_line(sizes, dim, [&](const std::vector<int64_t>& line) {
              std::vector<double> values;
              for (int64_t p : line) values.push_back(x.get(p));
              const auto expected = softmax_reference(values, logarithm);
              for (size_t k = 0; k < line.size(); ++k) {
                const double allowed = (2 * epsilon(dtype) + (dtype == f64 ? 4e-15 : 3e-6)) * std::abs(expected[k]) +
                                       (logarithm      ? (dtype == f64 ? 1e-14 : 2e-6)
                                        : dtype == f16 ? 0x1p-25
                                                       : 1e-37);
                ASSERT_NEAR(y.get(line[k]), expected[k], allowed) << name(dtype) << " dim " << dim;
              }
            });
          }
        }
      }
    }
  }
}

TEST(Softmax, GradientsOfEveryTypeDimensionAndLayout) {
  for (const auto& sizes : shapes) {
    for (const DType dtype : float_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        HostArray y(dtype, shape, 5), g(dtype, {.sizes = sizes}, 6);
        for (int dim = 0; dim < static_cast<int>(sizes.size()); ++dim) {
          for (const bool logarithm : {false, true}) {
            HostArray dx(dtype, shape);
            cpu::softmax_gradient(dx.view, g.view, y.view, dim, logarithm);
            for_each_line(sizes, dim, [&](const std::vector<int64_t>& line) {
              double sum = 0, magnitude = 0;
              for (int64_t p : line) {
                const double term = logarithm ? g.get(p) : g.get(p) * y.get(p);
                sum += term;
                magnitude += std::abs(term);
              }
              for (int64_t p : line) {
                const double expected = logarithm ? g.get(p) - std::exp(y.get(p)) * sum : y.get(p) * (g.get(p) - sum);
                const double allowed =
                    2 * epsilon(dtype) * std::abs(expected) + (1 + magnitude) * (dtype == f64 ? 1e-14 : 1e-6);
                ASSERT_NEAR(dx.get(p), expected, allowed) << name(dtype) << " dim " << dim;
              }
            });
          }
        }
      }
    }
  }
}

TEST(Softmax, InfinitiesAndNaN) {
  for (const int dim : {0, 1}) {
    const std::vector<int64_t> sizes = dim == 0 ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4, 3};
    const auto at = [&](int64_t line, int64_t k) { return dim == 0 ? k * 4 + line : line * 3 + k; };
    HostArray x(f32, {.sizes = sizes}), y(f32, {.sizes = sizes});
    for (int k = 0; k < 3; ++k) {
      x.set(at(0, k), -infinity);
      x.set(at(1, k), k == 1 ? -infinity : 1000);
      x.set(at(2, k), k == 1 ? nan : 1);
      x.set(at(3, k), k == 1 ? infinity : 1);
    }
    for (const bool logarithm : {false, true}) {
      cpu::softmax(y.view, x.view, dim, logarithm);
      for (int k = 0; k < 3; ++k) {
        EXPECT_TRUE(std::isnan(y.get(at(0, k))));
        EXPECT_TRUE(std::isnan(y.get(at(2, k))));
      }
      EXPECT_EQ(y.get(at(1, 1)), logarithm ? -infinity : 0);
      EXPECT_NEAR(y.get(at(1, 0)), logarithm ? -std::log(2) : 0.5, 1e-6);
      EXPECT_TRUE(std::isnan(y.get(at(3, 1))));
    }
  }
}

TEST(Softmax, EmptyZeroDimensionalAndInPlace) {
  HostArray empty(f32, {.sizes = {0, 3}}), none(f32, {.sizes = {3, 0}}), one(f32, {.sizes = {}});
  cpu::softmax(empty.view, empty.view, 0, false);
  cpu::softmax(none.view, none.view, 1, false);
  cpu::softmax(one.view, one.view, 0, false);
  EXPECT_EQ(one.get(0), 1);
  for (const int dim : {0, 1}) {
    HostArray x(f32, {.sizes = {100, 90}}, 1), y(f32, {.sizes = {100, 90}}), g(f32, {.sizes = {100, 90}}, 2);
    cpu::softmax(y.view, x.view, dim, false);
    cpu::softmax(x.view, x.view, dim, false);
    EXPECT_EQ(x.values(), y.values());
    HostArray dx(f32, {.sizes = {100, 90}});
    cpu::softmax_gradient(dx.view, g.view, y.view, dim, false);
    cpu::softmax_gradient(g.view, g.view, y.view, dim, false);
    EXPECT_EQ(g.values(), dx.values());
  }
}

TEST(Softmax, SameBits) {
  const HostArray x(f32, {.sizes = {130, 517}}, 1), h(bf16, {.sizes = {130, 517}}, 2), d(f64, {.sizes = {130, 517}}, 3);
  expect_same_bits([&] {
    std::string bits;
    for (const HostArray* in : {&x, &h, &d}) {
      for (int mode = 0; mode < 4; ++mode) {
        HostArray y(in->view.layout.dtype, {.sizes = {130, 517}});
        cpu::softmax(y.view, in->view, mode & 1, mode & 2);
        bits += bits_of(y);
        cpu::softmax_gradient(y.view, in->view, y.view, mode & 1, mode & 2);
        bits += bits_of(y);
      }
    }
    return bits;
  });
}

}  // namespace
}  // namespace weft
