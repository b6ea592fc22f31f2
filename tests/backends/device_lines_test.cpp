// Scans, counts, bags of rows and resampling: every device against the CPU.
#include "device_checks.hpp"

#include <functional>
#include <limits>
#include <random>

#include <weft/ops/create.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using namespace test;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

int64_t between(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
}
Tensor numbers(std::mt19937& random, const Dims& shape, DType t, double low = -1, double high = 1) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.product(); ++i)
    values.push_back(low + (high - low) * static_cast<double>(random()) / 0x1p32);
  return tensor(values).to(f64).reshape(shape).to(t);
}
Tensor integers(std::mt19937& random, const Dims& shape, int64_t low, int64_t high, DType t = i64) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.product(); ++i) values.push_back(between(random, low, high));
  return tensor(values).to(t).reshape(shape);
}

/// Runs `kernel` on the CPU and on the device with the operands there, and compares the outputs, which are initialised
/// with 7.
using Kernel = std::function<void(const KernelTable&, const std::vector<View>& out, const std::vector<View>& in)>;
struct Output {
  Dims shape;
  DType dtype;
};
void expect_as_on_cpu(Device on, const std::vector<Output>& outputs, const std::vector<Tensor>& inputs,
                      double tolerance, const Kernel& kernel) {
  std::vector<Tensor> results[2];
  for (const Device device : {Device(), on}) {
    std::vector<Tensor> operands, &out = results[device == on];
    std::vector<View> to, from;
    for (const Output& o : outputs) out.push_back(full(o.shape, 7, {o.dtype, device}));
    for (const Tensor& t : inputs) operands.push_back(t.defined() ? t.to(device) : t);
    for (const Tensor& t : out) to.push_back(t.raw_view());
    for (const Tensor& t : operands) from.push_back(t.defined() ? t.raw_view() : View{});
    kernel(kernels(device.type), to, from);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_near(results[1][i], results[0][i], tolerance, tolerance);
  }
}

// ---- lines ----------------------------------------------------------------------------------------------------------

const Dims line_shapes[] = {{1}, {1000}, {3, 700, 2}, {2, 5, 300}, {130, 3}, {0, 4}};

DEVICE_TEST(RunningProductsAgreeWithTheCpu) {
  std::mt19937 random(1);
  for (const Dims& shape : line_shapes) {
    for (int dim = 0; dim < shape.size(); ++dim) {
      SCOPED_TRACE(shape.text() + " along " + std::to_string(dim));
      const Kernel product = [&](const KernelTable& table, const auto& out, const auto& in) {
        table.running_product(out[0], in[0], dim);
      };
      for (const DType t : {f32, f64}) {
        expect_as_on_cpu(on, {{shape, t}}, {numbers(random, shape, t, 0.9, 1.1)}, t == f64 ? 1e-11 : 1e-4, product);
      }
      for (const DType t : {i64, u64}) {
        expect_as_on_cpu(on, {{shape, t}}, {integers(random, shape, 1, 9, t)}, 0, product);
      }
    }
  }
}

DEVICE_TEST(RunningSumsOfExponentialsAgreeWithTheCpu) {
  std::mt19937 random(2);
  for (const Dims& shape : line_shapes) {
    for (const DType t : {f32, f64}) {
      for (const double value : {0.0, infinity, -infinity, nan}) {
        Tensor x = numbers(random, shape, t, -50, 50);
        if (value != 0 && x.numel() > 3) x.view({-1}).slice(0, 2, {}, 150).fill_(value);
        if (value == -infinity && x.numel() > 0) x.view({-1}).slice(0, 0, 1).fill_(value);
        for (int dim = 0; dim < shape.size(); ++dim) {
          SCOPED_TRACE(shape.text() + " along " + std::to_string(dim) + " with " + std::to_string(value));
          expect_as_on_cpu(on, {{shape, t}}, {x}, t == f64 ? 1e-12 : 1e-5,
                           [&](const KernelTable& table, const auto& out, const auto& in) {
                             table.running_log_sum_exp(out[0], in[0], dim);
                           });
        }
      }
    }
  }
}

DEVICE_TEST(RunningExtremesAgreeWithTheCpu) {
  std::mt19937 random(3);
  for (const Dims& shape : line_shapes) {
    for (const DType t : {f32, f64, u8, i16, i32, i64, u64}) {
      Tensor x = integers(random, shape, 0, 100, t);
      if (t == f32 && x.numel() > 400) x.view({-1}).slice(0, 350, {}, 90).fill_(nan);
      for (int dim = 0; dim < shape.size(); ++dim) {
        for (const bool largest : {false, true}) {
          SCOPED_TRACE(shape.text() + " along " + std::to_string(dim) + " of " + name(t));
          if (x.numel() == 0) continue;
          expect_as_on_cpu(on, {{shape, t}, {shape, i64}}, {x}, 0,
                           [&](const KernelTable& table, const auto& out, const auto& in) {
                             table.running_extreme(out[0], out[1], in[0], dim, largest);
                           });
        }
      }
    }
  }
}

DEVICE_TEST(ReplacesNumbersThatAreNotFinite) {
  for (const DType t : {f32, f64}) {
    const Tensor x = tensor(std::vector<double>{1, nan, infinity, -infinity, -0.0, 3e38}).to(t);
    expect_as_on_cpu(on, {{x.shape(), t}}, {x}, 0, [](const KernelTable& table, const auto& out, const auto& in) {
      table.nan_to_num(out[0], in[0], 1.5, 2.5, -3.5);
    });
  }
}

DEVICE_TEST(FindsTheNextNumber) {
  const std::vector<double> values = {0,        -0.0,      1,   -1, 1e-45, -1e-45, 3.4028234e38, -3.4028234e38,
                                      infinity, -infinity, nan, 2};
  for (const DType t : {f32, f64}) {
    const auto n = static_cast<int64_t>(values.size());
    const Tensor x = tensor(values).to(f64).to(t);
    const Tensor a = x.unsqueeze(1).expand({n, n}).contiguous(), b = x.unsqueeze(0).expand({n, n}).contiguous();
    const Tensor out = zeros({n, n}, {t, on}), expected = zeros({n, n}, {t});
    const Tensor a_there = a.to(on), b_there = b.to(on);
    kernels(on.type).nextafter(out.raw_view(), a_there.raw_view(), b_there.raw_view());
    kernels(DeviceType::cpu).nextafter(expected.raw_view(), a.raw_view(), b.raw_view());
    expect_equal(out, expected);
    expect_equal(1.0 / out.to(Device()), 1.0 / expected);  // the sign of zeros
  }
}

// ---- counts and bags ------------------------------------------------------------------------------------------------

DEVICE_TEST(CountsOfNumbersAgreeWithTheCpu) {
  std::mt19937 random(4);
  for (const int64_t n : {0, 1, 100, 5000}) {
    for (const DType t : {i32, i64}) {
      const Tensor x = integers(random, {2 * n}, 0, 40, t).slice(0, {}, {}, 2).clone();
      expect_as_on_cpu(on, {{{50}, i64}}, {x}, 0, [](const KernelTable& table, const auto& out, const auto& in) {
        table.bincount(out[0], in[0]);
      });
    }
  }
}

struct RandomBags {
  Tensor weight, indices, begins, factors;
  int64_t bags, width, padding;

  RandomBags(std::mt19937& random, DType t) {
    const int64_t rows = between(random, 1, 20), n = between(random, 0, 60);
    bags = between(random, 1, 9);
    width = between(random, 0, 40);
    padding = between(random, -1, rows - 1);
    weight = numbers(random, {rows, width}, t);
    if (weight.numel() > 9) weight.view({-1}).slice(0, 3, {}, 37).fill_(nan);
    indices = integers(random, {n}, 0, rows - 1);
    std::vector<int64_t> first(static_cast<size_t>(bags));
    for (int64_t& begin : first) begin = between(random, 0, n);
    std::sort(first.begin(), first.end());
    first[0] = 0;
    begins = tensor(first);
    if (between(random, 0, 1) == 0) factors = numbers(random, {n}, t);
  }
};

DEVICE_TEST(BagsAgreeWithTheCpu) {
  std::mt19937 random(5);
  for (int i = 0; i < 200 && !::testing::Test::HasFatalFailure(); ++i) {
    const DType t = i % 3 == 0 ? f64 : f32;
    const RandomBags b(random, t);
    const bool mean = i % 2 == 0;
    expect_as_on_cpu(on, {{{b.bags, b.width}, t}, {{b.bags, 1}, t}}, {b.weight, b.indices, b.begins, b.factors},
                     t == f64 ? 1e-13 : 1e-5, [&](const KernelTable& table, const auto& out, const auto& in) {
                       table.bag_sum(out[0], out[1], in[0], in[1], in[2], in[3], b.padding, mean);
                     });
    expect_as_on_cpu(on, {{{b.bags, b.width}, t}, {{b.bags, b.width}, i64}}, {b.weight, b.indices, b.begins}, 0,
                     [&](const KernelTable& table, const auto& out, const auto& in) {
                       table.bag_max(out[0], out[1], in[0], in[1], in[2], b.padding);
                     });
  }
}

DEVICE_TEST(BadIndicesOfBagsNameTheOpAndItsLine) {
  const Tensor weight = ones({3, 2}, {f32, on});
  const Tensor indices = tensor(std::vector<int64_t>{0, 3, 1}).to(on);
  for (const BagMode mode : {BagMode::mean, BagMode::max}) {
    try {
      embedding_bag(indices, weight, {.offsets = tensor(std::vector<int64_t>{0, 2}).to(on), .mode = mode});
      synchronize(on);
      ADD_FAILURE() << "nothing was raised";
    } catch (const IndexError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("[embedding_bag]"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("3"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("device_lines_test.cpp"));
    }
  }
}

// ---- between elements -----------------------------------------------------------------------------------------------

DEVICE_TEST(ResamplesAsTheCpuDoes) {
  std::mt19937 random(6);
  for (int i = 0; i < 100 && !::testing::Test::HasFatalFailure(); ++i) {
    const DType t = i % 3 == 0 ? f64 : f32;
    const int dim = static_cast<int>(between(random, 0, 2));
    Dims shape{between(random, 1, 4), between(random, 1, 20), between(random, 1, 20)}, result = shape;
    result[dim] = between(random, 1, 30);
    const int64_t taps = between(random, 0, 4);
    const Tensor at = integers(random, {taps, result[dim]}, -1, shape[dim] - 1, t == f64 ? i64 : i32);
    expect_as_on_cpu(on, {{result, t}}, {numbers(random, shape, t), at, numbers(random, {taps, result[dim]}, t)},
                     t == f64 ? 1e-13 : 1e-5, [&](const KernelTable& table, const auto& out, const auto& in) {
                       table.resample(out[0], in[0], in[1], in[2], dim);
                     });
  }
}

DEVICE_TEST(SamplesImagesAsTheCpuDoes) {
  std::mt19937 random(7);
  for (int i = 0; i < 150 && !::testing::Test::HasFatalFailure(); ++i) {
    const DType t = i % 3 == 0 ? f64 : f32;
    const int64_t rank = between(random, 2, 3), images = between(random, 1, 3), channels = between(random, 1, 5),
                  count = between(random, 0, 80);
    Dims shape{images, channels};
    for (int64_t d = 0; d < rank; ++d) shape.push_back(between(random, 1, 6));
    Tensor places = numbers(random, {rank, images, count}, t, -3, 8);
    if (i % 4 == 0) places = floor(places);
    if (i % 5 == 0 && count > 4)
      places.view({-1}).slice(0, 1, {}, 40).fill_(nan), places.view({-1}).slice(0, 3, {}, 40).fill_(infinity);
    const Dims result{images, channels, count};
    const Tensor x = numbers(random, shape, t), g = numbers(random, result, t);
    const double tolerance = t == f64 ? 1e-12 : 3e-5;
    expect_as_on_cpu(
        on, {{result, t}}, {x, places}, tolerance,
        [](const KernelTable& table, const auto& out, const auto& in) { table.sample_linear(out[0], in[0], in[1]); });
    expect_as_on_cpu(on, {{shape, t}, {places.shape(), t}}, {g, x, places}, tolerance,
                     [](const KernelTable& table, const auto& out, const auto& in) {
                       table.sample_linear_gradient(out[0], out[1], in[0], in[1], in[2]);
                     });
    expect_as_on_cpu(on, {{shape, t}}, {g, x, places}, tolerance,
                     [](const KernelTable& table, const auto& out, const auto& in) {
                       table.sample_linear_gradient(out[0], View{}, in[0], in[1], in[2]);
                     });
  }
}

DEVICE_TEST(GradientsOfSampledImagesAreTheSameBitsInEveryRun) {
  std::mt19937 random(8);
  const Tensor x = zeros({1, 2, 3, 3}, {f32, on}), places = numbers(random, {2, 1, 3000}, f32, -1, 3).to(on);
  const Tensor g = numbers(random, {1, 2, 3000}, f32).to(on), first = zeros(x.shape(), {f32, on}),
               second = zeros(x.shape(), {f32, on});
  for (const Tensor& dx : {first, second}) {
    kernels(on.type).sample_linear_gradient(dx.raw_view(), View{}, g.raw_view(), x.raw_view(), places.raw_view());
  }
  expect_equal(first, second);
}

}  // namespace
}  // namespace weft
