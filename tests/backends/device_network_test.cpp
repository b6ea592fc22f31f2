// Convolutions, pooling and norms of channels on every kind of device, against the CPU's kernels.
#include "device_checks.hpp"

#include <limits>
#include <random>

#include <weft/autograd/engine.hpp>
#include <weft/ops/convolution.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using namespace test;

/// Draws that are the same on every machine.
class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  Tensor numbers(const Dims& shape, DType t) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape.product(); ++i) values.push_back(static_cast<double>(random_()) / 0x1p31 - 1);
    return tensor(values).reshape(shape).to(t);
  }

 private:
  std::mt19937 random_;
};

// ---- convolution ----------------------------------------------------------------------------------------------------

struct Shapes {
  Dims x, weight, y;
  ConvolutionSteps steps;

  std::string text() const {
    return "x " + x.text() + ", weight " + weight.text() + ", y " + y.text() + ", stride " +
           std::to_string(steps.stride[0]) + std::to_string(steps.stride[1]) + std::to_string(steps.stride[2]) +
           ", groups " + std::to_string(steps.groups);
  }
};

Shapes random_shapes(Draws& draw) {
  const int64_t groups = draw.between(0, 2) == 0 ? draw.between(2, 5) : 1;
  const bool many = draw.between(0, 2) == 0;
  const int64_t channels = many ? draw.between(7, 70) : draw.between(1, 4),
                outputs = many ? draw.between(8, 70) : draw.between(1, 5);
  Shapes s{
      {draw.between(0, 12) == 0 ? 0 : draw.between(1, 3), groups * channels}, {groups * outputs, channels}, {}, {}};
  s.y = {s.x[0], groups * outputs};
  s.steps.groups = groups;
  const int64_t dimensions = draw.between(1, 3);
  for (int64_t d = 0; d < 3; ++d) {
    const bool there = d >= 3 - dimensions;
    const int64_t window = there ? draw.between(1, many ? 2 : 4) : 1, dilation = there ? draw.between(1, 3) : 1;
    const int64_t stride = there ? draw.between(1, 3) : 1, padding = there ? draw.between(0, 3) : 0;
    const int64_t reach = (window - 1) * dilation + 1;
    const int64_t size = there ? std::max<int64_t>(reach - 2 * padding, 1) + draw.between(0, 6) : 1;
    s.x.push_back(size);
    s.weight.push_back(window);
    s.y.push_back((size + 2 * padding - reach) / stride + 1);
    s.steps.stride[d] = stride;
    s.steps.padding[d] = padding;
    s.steps.dilation[d] = dilation;
  }
  return s;
}

void expect_convolution_as_on_cpu(Device on, const Shapes& s, Draws& draw, DType t) {
  SCOPED_TRACE(s.text());
  const Tensor x = draw.numbers(s.x, t), w = draw.numbers(s.weight, t), y = draw.numbers(s.y, t);
  const Tensor bias = draw.between(0, 1) == 0 ? Tensor() : draw.numbers({s.weight[0]}, t);
  const auto run = [&](Convolution product, const Tensor& a, const Tensor& b, const Dims& shape, Device device) {
    const Tensor out = full(shape, 9, {t, device}), left = a.to(device), right = b.to(device);
    const Tensor shift = product == Convolution::forward && bias.defined() ? bias.to(device) : Tensor();
    kernels(device.type)
        .convolution(product, out.raw_view(), left.raw_view(), right.raw_view(),
                     shift.defined() ? shift.raw_view() : View(), s.steps);
    return out;
  };
  const auto compare = [&](Convolution product, const Tensor& a, const Tensor& b, const Dims& shape) {
    SCOPED_TRACE("product " + std::to_string(static_cast<int>(product)));
    const double tolerance = t == f64 ? 1e-11 : 1e-4;
    const Tensor there = run(product, a, b, shape, on);
    expect_near(there, run(product, a, b, shape, Device()), tolerance, tolerance);
  };
  compare(Convolution::forward, x, w, s.y);
  compare(Convolution::by_data, y, w, s.x);
  compare(Convolution::by_weight, x, y, s.weight);
}

DEVICE_TEST(ConvolutionsAgreeWithTheCpu) {
  Draws draw(11);
  for (int i = 0; i < 700 && !::testing::Test::HasFatalFailure(); ++i) {  // three products each
    const Shapes s = random_shapes(draw);
    expect_convolution_as_on_cpu(on, s, draw, i % 4 == 0 ? f64 : f32);
  }
}

DEVICE_TEST(ConvolutionsSumOverManyPlacesInPieces) {
  Draws draw(12);
  for (const DType t : {f32, f64}) {
    expect_convolution_as_on_cpu(
        on, {{4, 12, 1, 30, 30}, {20, 12, 1, 3, 3}, {4, 20, 1, 30, 30}, {{1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1}}, draw, t);
  }
  const Shapes s{{4, 12, 1, 30, 30}, {20, 12, 1, 3, 3}, {4, 20, 1, 30, 30}, {{1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1}};
  const Tensor x = draw.numbers(s.x, f32).to(on), y = draw.numbers(s.y, f32).to(on);
  const Tensor first = zeros(s.weight, {f32, on}), second = zeros(s.weight, {f32, on});
  for (const Tensor& out : {first, second}) {
    kernels(on.type).convolution(Convolution::by_weight, out.raw_view(), x.raw_view(), y.raw_view(), View(), s.steps);
  }
  expect_equal(first, second);
}

DEVICE_TEST(ConvolutionsOf16BitsAgreeWithTheCpu) {
  Draws draw(13);
  for (const DType t : {f16, bf16}) {
    for (const int64_t groups : {1, 2}) {
      const Tensor leaves[] = {draw.numbers({2, 6, 7, 9}, t), draw.numbers({8, 6 / groups, 3, 2}, t),
                               draw.numbers({8}, t)};
      const auto run = [&](Device place) {
        std::vector<Tensor> all;
        for (const Tensor& leaf : leaves) all.push_back(leaf.to(place).detach().requires_grad_());
        const Tensor y = conv2d(all[0], all[1], all[2], {.stride = {2, 1}, .padding = {1, 2}, .groups = groups});
        const Tensor back = conv_transpose2d(y, all[1], {}, {.stride = {2, 1}, .padding = {1, 2}, .groups = groups});
        back.sum().backward();
        std::vector<Tensor> results = {y.detach(), back.detach()};
        for (const Tensor& leaf : all) results.push_back(leaf.grad());
        return results;
      };
      const std::vector<Tensor> actual = run(on), expected = run(Device());
      const double ulp = t == f16 ? 0x1p-10 : 0x1p-7;
      for (size_t i = 0; i < expected.size(); ++i) {
        const double largest = expected[i].to(f64).abs().max().item<double>();
        expect_near(actual[i], expected[i], 4 * ulp, 2 * ulp * largest);
      }
    }
  }
}

// ---- pooling --------------------------------------------------------------------------------------------------------

struct Windows {
  Dims x, out;
  PoolPlan plan;
  std::vector<double> extents[3];
};

Windows random_windows(Draws& draw) {
  Windows w;
  const int64_t planes = draw.between(0, 3), dimensions = draw.between(1, 3);
  w.x = {planes};
  w.out = {planes};
  for (int64_t d = 0; d < 3; ++d) {
    PoolPlan::Line& line = w.plan.lines[d];
    if (d >= 3 - dimensions) {
      line = {draw.between(1, 4), draw.between(1, 3), 0, draw.between(1, 3), {}};
      line.padding = draw.between(0, line.size / 2);
    }
    const int64_t reach = (line.size - 1) * line.dilation + 1;
    const int64_t size = d >= 3 - dimensions ? std::max<int64_t>(reach - 2 * line.padding, 1) + draw.between(0, 7) : 1;
    const int64_t count = (size + 2 * line.padding - reach) / line.stride + 1;
    w.x.push_back(size);
    w.out.push_back(count);
    for (int64_t i = 0; i < count; ++i) w.extents[d].push_back(static_cast<double>(draw.between(1, 5)));
  }
  return w;
}

/// Whether every window has an element in the plane, as the kernels are promised.
bool all_have_elements(const Windows& w) {
  for (int d = 0; d < 3; ++d) {
    const PoolPlan::Line& line = w.plan.lines[d];
    for (int64_t i = 0; i < w.out[1 + d]; ++i) {
      bool found = false;
      for (int64_t k = 0; k < line.size; ++k) {
        const int64_t at = i * line.stride - line.padding + k * line.dilation;
        found = found || (at >= 0 && at < w.x[1 + d]);
      }
      if (!found) return false;
    }
  }
  return true;
}

DEVICE_TEST(PoolsAgreeWithTheCpu) {
  Draws draw(13);
  for (int i = 0; i < 300 && !::testing::Test::HasFatalFailure(); ++i) {
    Windows w = random_windows(draw);
    if (!all_have_elements(w)) continue;
    SCOPED_TRACE("x " + w.x.text() + ", windows " + w.out.text());
    for (int d = 0; d < 3; ++d) w.plan.lines[d].extents = w.extents[d];
    const DType t = i % 3 == 0 ? f64 : f32;
    Tensor x = draw.numbers(w.x, t);
    if (i % 4 == 1) x = (x * 2.0).to(i64).to(t);  // ties
    if (i % 4 == 2 && x.numel() > 2) x.view({-1}).slice(0, 1, {}, 3).fill_(std::numeric_limits<double>::quiet_NaN());
    if (i % 4 == 3 && x.numel() > 2) x.view({-1}).slice(0, 0, {}, 2).fill_(-std::numeric_limits<double>::infinity());
    const Tensor g = draw.numbers(w.out, t);
    struct Results {
      Tensor largest, index, alone, mean, dx;
    } results[2];
    for (const Device device : {Device(), on}) {
      Results& r = results[device == on];
      const TensorOptions like{t, device};
      r = {zeros(w.out, like), zeros(w.out, {i64, device}), zeros(w.out, like), zeros(w.out, like), full(w.x, 5, like)};
      const Tensor data = x.to(device), gradient = g.to(device);
      const KernelTable& table = kernels(device.type);
      table.pool(Pool::max, r.largest.raw_view(), r.index.raw_view(), data.raw_view(), w.plan);
      table.pool(Pool::max, r.alone.raw_view(), View{}, data.raw_view(), w.plan);
      table.pool(Pool::mean, r.mean.raw_view(), View{}, data.raw_view(), w.plan);
      table.pool_gradient(r.dx.raw_view(), gradient.raw_view(), w.plan);
    }
    expect_equal(results[1].largest, results[0].largest);
    expect_equal(results[1].index, results[0].index);
    expect_equal(results[1].alone, results[0].alone);
    expect_near(results[1].mean, results[0].mean);
    expect_near(results[1].dx, results[0].dx);
  }
}

// ---- norms of channels ----------------------------------------------------------------------------------------------

DEVICE_TEST(BatchNormAgreesWithTheCpu) {
  Draws draw(14);
  for (int i = 0; i < 60 && !::testing::Test::HasFatalFailure(); ++i) {
    const Dims shape{draw.between(1, 4), draw.between(1, 70), draw.between(1, i % 5 == 0 ? 900 : 40)};
    SCOPED_TRACE(shape.text());
    const DType t = i % 4 == 0 ? f64 : i % 4 == 1 ? bf16 : f32, wide = compute_type(t);
    const Dims channels{shape[1]};
    const bool turned = i % 3 == 0;
    Tensor x = turned ? draw.numbers({shape[2], shape[1], shape[0]}, t) : draw.numbers(shape, t);
    const Tensor g = draw.numbers(shape, t), weight = i % 2 == 0 ? Tensor() : draw.numbers(channels, wide);
    const Tensor bias = i % 5 == 0 ? Tensor() : draw.numbers(channels, wide);
    struct Results {
      Tensor out, mean, variance, dx, dweight, dbias;
    } results[2];
    for (const Device device : {Device(), on}) {
      Results& r = results[device == on];
      const TensorOptions like{t, device}, stat{wide, device};
      r = {zeros(shape, like), zeros(channels, stat), zeros(channels, stat),
           zeros(shape, like), zeros(channels, stat), zeros(channels, stat)};
      const auto view = [](const Tensor& tensor) { return tensor.defined() ? tensor.raw_view() : View{}; };
      const auto there = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
      const Tensor moved = x.to(device), data = turned ? moved.transpose(0, 2) : moved;
      const Tensor gradient = g.to(device), w = there(weight), b = there(bias);
      const KernelTable& table = kernels(device.type);
      table.batch_norm(r.out.raw_view(), r.mean.raw_view(), r.variance.raw_view(), data.raw_view(), view(w), view(b),
                       1e-5);
      const Tensor rstd = rsqrt(r.variance + 1e-5);
      const bool without = i % 7 == 3;
      table.batch_norm_gradient(r.dx.raw_view(), without ? View{} : r.dweight.raw_view(),
                                without ? View{} : r.dbias.raw_view(), gradient.raw_view(), data.raw_view(),
                                r.mean.raw_view(), rstd.raw_view(), view(w));
    }
    const double loose = t == f64 ? 1e-9 : t == f32 ? 2e-4 : 3e-2;
    for (Tensor Results::*part :
         {&Results::out, &Results::mean, &Results::variance, &Results::dx, &Results::dweight, &Results::dbias}) {
      expect_near(results[1].*part, results[0].*part, loose, loose);
    }
  }
}

}  // namespace
}  // namespace weft
