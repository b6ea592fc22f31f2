#include <weft/autograd/engine.hpp>
#include <weft/ops/interpolate.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/random.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

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

TEST(Interpolate, LinesOfAnyLengthAgreeInBothPrecisions) {
  manual_seed(2);
  for (const Dims& from : {Dims{2, 3, 37, 53}, Dims{1, 2, 3, 2}, Dims{1, 1, 70, 9}}) {
    for (const Dims& to : {Dims{80, 17}, Dims{5, 131}, Dims{1, 1}}) {
      for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
        for (const bool antialias : {false, true}) {
          const Tensor x = randn(from, f64).requires_grad_(), narrow = x.detach().to(f32).requires_grad_();
          const InterpolateOptions options{.size = to, .mode = mode, .antialias = antialias};
          const Tensor y = interpolate(x, options), z = interpolate(narrow, options), g = randn(y.shape(), f64);
          EXPECT_TRUE(allclose(z.to(f64), y, 1e-5, 1e-5)) << from.text() << to.text();
          y.backward(g), z.backward(g.to(f32));
          EXPECT_TRUE(allclose(narrow.grad().to(f64), x.grad(), 1e-5, 1e-4)) << from.text() << to.text();
        }
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

TEST(GridSample, PlacesInsideAndOutsideAgreeInBothPrecisions) {
  manual_seed(3);
  for (const Dims& sizes : {Dims{7, 9}, Dims{1, 13}, Dims{4, 5, 6}}) {
    const int rank = sizes.size();
    Dims image{2, 3}, places{2};
    for (const int64_t n : sizes) image.push_back(n), places.push_back(n + 4);
    places.push_back(rank);
    const Tensor x = randn(image, f64), grid = (rand(places, f64) * 3 - 1.5).to(f32).to(f64);
    const Tensor wide = grid_sample(x, grid), narrow = grid_sample(x.to(f32), grid.to(f32));
    EXPECT_TRUE(allclose(narrow.to(f64), wide, 1e-3, 1e-4)) << sizes.text();
    EXPECT_GT(sum(wide == 0).item<int64_t>(), 0);
    EXPECT_GT(sum(wide != 0).item<int64_t>(), 0);
  }
}

// One element above the image the value is 0 and rises into it, so the derivative that points inside is the slope.
TEST(GridSample, TheGradientOneElementOutsidePointsInside) {
  for (const int64_t channels : {1, 20}) {  // few channels by planes, many as rows of pixels
    const Tensor x = full({1, channels, 4, 5}, 1, f64);
    const Tensor grid = doubles({0, -1.25, 0, 1.25, -1.2, 0}, {1, 1, 3, 2}).requires_grad_();
    grid_sample(x, grid).sum().backward();
    const auto n = static_cast<double>(channels);
    expect_values(grid.grad(), {0, 2 * n, 0, 0, 2.5 * n, 0});
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
