#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using namespace test;

DType row_type(DType t) { return compute_type(t); }

HostArray targets_of(int64_t rows, int64_t classes) {
  HostArray targets(i64, {.sizes = {rows}});
  for (int64_t i = 0; i < rows; ++i) targets.set(i, i % 5 == 4 ? -100 : static_cast<double>(i * 7 % classes));
  return targets;
}

TEST(CrossEntropy, LossesAndGradients) {
  for (const DType dtype : float_types) {
    for (const int64_t classes : {1, 3, 16, 37, 5000}) {
      const std::vector<int64_t> sizes = {9, classes};
      for (const ArrayShape& shape : layouts_of(sizes)) {
        for (const double smoothing : {0.0, 0.1}) {
          HostArray x(dtype, shape, 3);
          for (int64_t i = 0; i < x.numel(); ++i) x.set(i, x.get(i) * 8);
          const HostArray targets = targets_of(9, classes);
          HostArray losses(row_type(dtype), {.sizes = {9}}), lse(row_type(dtype), {.sizes = {9}}), dx(dtype, shape);
          HostArray g(row_type(dtype), {.sizes = {9}, .repeated = {0}});
          g.set(0, 0.25);
          cpu::cross_entropy(losses.view, lse.view, x.view, targets.view, -100, smoothing);
          cpu::cross_entropy_gradient(dx.view, g.view, x.view, lse.view, targets.view, -100, smoothing);
          const double relative = dtype == f64 ? 1e-13 : 2e-6;
          for (int64_t row = 0; row < 9; ++row) {
            double largest = -infinity, sum = 0, all = 0;
            for (int64_t i = 0; i < classes; ++i) largest = std::max(largest, x.get(row * classes + i));
            for (int64_t i = 0; i < classes; ++i) sum += std::exp(x.get(row * classes + i) - largest);
            const double total = largest + std::log(sum);
            for (int64_t i = 0; i < classes; ++i) all += total - x.get(row * classes + i);
            const int64_t target = static_cast<int64_t>(targets.get(row));
            double loss = 0;
            if (target >= 0) {
              loss = (1 - smoothing) * (total - x.get(row * classes + target)) +
                     smoothing / static_cast<double>(classes) * all;
            }
            ASSERT_NEAR(lse.get(row), total, relative * 20);
            ASSERT_NEAR(losses.get(row), loss, relative * 20);
            for (int64_t i = 0; i < classes; ++i) {
              double expected = std::exp(x.get(row * classes + i) - total) - smoothing / static_cast<double>(classes);
              if (i == target) expected -= 1 - smoothing;
              if (target < 0) expected = 0;
              ASSERT_NEAR(dx.get(row * classes + i), expected * 0.25, 2 * epsilon(dtype) + relative) << name(dtype);
            }
          }
        }
      }
    }
  }
}

TEST(CrossEntropy, MaskedClassesAndIgnoredNaN) {
  const HostArray x = filled(f32, {.sizes = {3, 3}}, {0, -infinity, 0, nan, nan, nan, 1000, -1000, 0});
  HostArray targets(i64, {.sizes = {3}});
  targets.set(1, -100);
  targets.set(2, 1);
  HostArray losses(f32, {.sizes = {3}}), lse(f32, {.sizes = {3}}), dx(f32, {.sizes = {3, 3}}), g(f32, {.sizes = {3}});
  for (int i = 0; i < 3; ++i) g.set(i, 1);
  cpu::cross_entropy(losses.view, lse.view, x.view, targets.view, -100, 0);
  EXPECT_NEAR(losses.get(0), std::log(2), 1e-6);
  EXPECT_EQ(losses.get(1), 0);
  EXPECT_EQ(losses.get(2), 2000);
  cpu::cross_entropy_gradient(dx.view, g.view, x.view, lse.view, targets.view, -100, 0);
  const std::vector<double> expected = {-0.5, 0, 0.5, 0, 0, 0, 1, -1, 0};
  for (int i = 0; i < 9; ++i) EXPECT_NEAR(dx.get(i), expected[static_cast<size_t>(i)], 1e-6);
}

TEST(CrossEntropy, TargetsOutOfRangeRaiseBeforeAnyWrite) {
  const HostArray x(f32, {.sizes = {4, 3}}, 1);
  for (const double target : {3.0, -1.0}) {
    HostArray targets(i64, {.sizes = {4}}), losses(f32, {.sizes = {4}}), lse(f32, {.sizes = {4}});
    targets.set(3, target);
    EXPECT_THROW(cpu::cross_entropy(losses.view, lse.view, x.view, targets.view, -100, 0), IndexError);
    for (double v : losses.values()) EXPECT_EQ(v, 0);
  }
}

TEST(CrossEntropy, InPlaceAndEmpty) {
  HostArray x(f32, {.sizes = {6, 33}}, 1), dx(f32, {.sizes = {6, 33}}), losses(f32, {.sizes = {6}}),
      lse(f32, {.sizes = {6}});
  const HostArray targets = targets_of(6, 33);
  cpu::cross_entropy(losses.view, lse.view, x.view, targets.view, -100, 0);
  cpu::cross_entropy_gradient(dx.view, losses.view, x.view, lse.view, targets.view, -100, 0);
  cpu::cross_entropy_gradient(x.view, losses.view, x.view, lse.view, targets.view, -100, 0);
  EXPECT_EQ(x.values(), dx.values());
  HostArray none(f32, {.sizes = {0, 3}}), no_rows(f32, {.sizes = {0}}), no_targets(i64, {.sizes = {0}});
  cpu::cross_entropy(no_rows.view, no_rows.view, none.view, no_targets.view, -100, 0);
}

TEST(CrossEntropy, SameBits) {
  const HostArray x(f32, {.sizes = {90, 1003}}, 1), targets = targets_of(90, 1003);
  expect_same_bits([&] {
    HostArray losses(f32, {.sizes = {90}}), lse(f32, {.sizes = {90}}), dx(f32, {.sizes = {90, 1003}});
    cpu::cross_entropy(losses.view, lse.view, x.view, targets.view, -100, 0.1);
    cpu::cross_entropy_gradient(dx.view, losses.view, x.view, lse.view, targets.view, -100, 0.1);
    return bits_of(losses) + bits_of(lse) + bits_of(dx);
  });
}

}  // namespace
}  // namespace weft
