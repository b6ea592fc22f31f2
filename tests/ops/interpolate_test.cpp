#include <weft/ops/interpolate.hpp>
#include <weft/ops/random.hpp>

#include "message_of.hpp"
#include "values.hpp"

namespace weft::testing {
namespace {

TEST(Interpolate, KnownLines) {
  const Tensor x = doubles({0, 1, 4}, {1, 1, 3});
  expect_values(interpolate(x, {.size = 6}), {0, 0, 1, 1, 4, 4});
  expect_values(interpolate(x, {.size = 5, .mode = Interpolation::linear, .align_corners = true}), {0, 0.5, 1, 2.5, 4});
  expect_values(interpolate(x, {.size = 6, .mode = Interpolation::linear}), {0, 0.25, 0.75, 1.75, 3.25, 4});
  expect_values(interpolate(x, {.size = 1, .mode = Interpolation::area}), {5. / 3});
  const Tensor same = interpolate(x, {.size = 3, .mode = Interpolation::linear});
  EXPECT_FALSE(same.shares_storage(x));
  expect_values(same, {0, 1, 4});
}

TEST(Interpolate, AConstantStaysConstant) {
  const Tensor x = full({1, 1, 7, 9}, 2.5, f64);
  for (const bool smooth : {false, true}) {
    for (const auto mode : {Interpolation::bilinear, Interpolation::bicubic}) {
      for (const Dims& size : {Dims{3, 4}, Dims{20, 2}, Dims{1, 1}}) {
        const Tensor y = interpolate(x, {.size = size, .mode = mode, .antialias = smooth});
        expect_values(y, Doubles(static_cast<size_t>(y.numel()), 2.5));
      }
    }
  }
}

TEST(Interpolate, OptionsThatContradictAreErrors) {
  const Tensor x = spread({1, 1, 4, 4});
  EXPECT_THROW(interpolate(x, {}), ValueError);
  EXPECT_THROW(interpolate(x, {.size = 3, .scale_factor = {2}}), ValueError);
  EXPECT_THROW(interpolate(x, {.size = 3, .align_corners = true}), ValueError);
  EXPECT_THROW(interpolate(x, {.size = 3, .antialias = true}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {1, 2, 3}}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {1e300}}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {0.1}}), ShapeError);
  EXPECT_THROW(interpolate(x, {.size = 0}), ShapeError);
  EXPECT_THROW(interpolate(x, {.size = 3, .mode = Interpolation::linear}), ShapeError);
  EXPECT_THROW(interpolate(x.to(i64), {.size = 3, .mode = Interpolation::bilinear}), DTypeError);
  EXPECT_EQ(interpolate(x.to(i64), {.size = 3}).dtype(), i64);
  EXPECT_THROW(interpolate(x, {.size = int64_t{1} << 62}), Error);
}

TEST(GridSample, TheGridOfTheIdentityGivesTheImage) {
  const Tensor x = spread({2, 3, 4, 5}), theta = doubles({1, 0, 0, 0, 1, 0}, {1, 2, 3}).expand({2, 2, 3});
  for (const bool corners : {false, true}) {
    const Tensor grid = affine_grid(theta, x.shape(), corners);
    for (const auto mode : {GridMode::bilinear, GridMode::bicubic, GridMode::nearest}) {
      expect_values(grid_sample(x, grid, {.mode = mode, .align_corners = corners}), values(x), 1e-9);
    }
  }
}

TEST(GridSample, PlacesThatAreNoNumbersGiveZero) {
  const Tensor x = full({1, 1, 3, 3}, 1, f64), grid = doubles({nan, 0, 0, infinity, -infinity, nan}, {1, 1, 3, 2});
  for (const auto mode : {GridMode::bilinear, GridMode::bicubic, GridMode::nearest}) {
    expect_values(grid_sample(x, grid, {.mode = mode}), {0, 0, 0});
  }
  EXPECT_THROW(grid_sample(x, grid.to(f32)), DTypeError);
  EXPECT_THROW(grid_sample(x, grid.select(0, 0)), ShapeError);
  EXPECT_THROW(affine_grid(grid, {1, 1, 2, 2}), ShapeError);
}

}  // namespace
}  // namespace weft::testing
