// The CUDA backend on a GPU against the CPU. Where there is none, each test says so and is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <weft/autograd/mode.hpp>
#include <weft/backends/backend.hpp>
#include <weft/backends/dispatch.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/softmax.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/layout.hpp>

namespace weft {
namespace {

const Device cuda(DeviceType::cuda);

std::vector<double> values_of(const Tensor& t) { return t.to(Device()).to_vector<double>(); }

/// Element by element within `relative` and `absolute`; NaN equals NaN.
void expect_near(const Tensor& actual, const Tensor& expected, double relative = 1e-5, double absolute = 1e-6) {
  ASSERT_EQ(actual.shape().text(), expected.shape().text());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const std::vector<double> a = values_of(actual), e = values_of(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    ASSERT_NEAR(a[i], e[i], absolute + relative * std::fabs(e[i])) << "element " << i;
  }
}
void expect_equal(const Tensor& actual, const Tensor& expected) { expect_near(actual, expected, 0, 0); }

/// Rounding error to expect of a few operations.
double tolerance_of(DType t) { return t == f64 ? 1e-12 : (t == f32 ? 1e-5 : 2e-2); }

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
#if !WEFT_HAS_CUDA
    GTEST_SKIP() << "cuda: not built in (nvcc was not found, or WEFT_WITH_CUDA is OFF)";
#endif
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << "cuda: this machine has no GPU or no driver for it";
  }
  static Backend& backend() { return *find_backend(DeviceType::cuda); }
};
using CudaDevices = Cuda;

// ---- copies and memory ----------------------------------------------------------------------------------------------

TEST_F(Cuda, DescribesItself) {
  EXPECT_GE(device_count(DeviceType::cuda), 1);
  EXPECT_THAT(backend().describe(0), ::testing::HasSubstr("GiB"));
  EXPECT_THROW(backend().describe(99), DeviceError);
  EXPECT_THROW(zeros({2}, {f32, Device(DeviceType::cuda, 99)}), DeviceError);
}

TEST_F(Cuda, TransfersEveryDtypeUnchanged) {
  for (int t = 0; t < dtype_count; ++t) {
    const Tensor host = arange(0, 100).to(static_cast<DType>(t));
    const Tensor back = host.to(cuda).to(Device());
    ASSERT_EQ(back.dtype(), host.dtype());
    EXPECT_EQ(std::memcmp(back.data_ptr(), host.data_ptr(), static_cast<size_t>(host.nbytes())), 0);
  }
}

TEST_F(Cuda, UploadsMayReuseTheirSourceAtOnce) {
  constexpr size_t count = 64;
  std::vector<Tensor> targets;
  std::vector<unsigned char> source;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = 1 + i * i * 401;  // from one byte to several staging slots
    targets.push_back(empty({static_cast<int64_t>(bytes)}, {u8, cuda}));
    source.assign(bytes, static_cast<unsigned char>(i + 1));
    backend().upload(0, targets.back().data_ptr(), source.data(), bytes);
    source.assign(bytes, 0xEE);
  }
  for (size_t i = 0; i < count; ++i) {
    for (double v : values_of(targets[i])) ASSERT_EQ(v, static_cast<double>(i + 1)) << "copy " << i;
  }
}

TEST_F(Cuda, ZeroBytesAreCopiedByDoingNothing) {
  backend().upload(0, nullptr, nullptr, 0);
  backend().download(0, nullptr, nullptr, 0);
  backend().copy(0, nullptr, 0, nullptr, 0);
  const Tensor nothing = zeros({0, 3}, {f32, cuda});
  EXPECT_EQ((nothing + 1.0).to(Device()).numel(), 0);
  EXPECT_EQ(sum(nothing).item<float>(), 0);
}

TEST_F(Cuda, CopiesAcrossStridesAndDtypes) {
  const Tensor x = arange(0, 60).to(f32).view({3, 4, 5}) * 1.5 - 20.0;
  const Tensor device = x.to(cuda);
  for (DType t : {boolean, i8, i16, i32, i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2}) {
    SCOPED_TRACE(name(t));
    expect_equal(device.permute({2, 0, 1}).to(t), x.permute({2, 0, 1}).to(t));
    expect_equal(device.to(t).to(f64), x.to(t).to(f64));
  }
  const Tensor target = zeros({5, 3, 4}, {f16, cuda}), expected = zeros({5, 3, 4}, {f16});
  target.slice(0, {}, {}, 2).copy_(device.permute({2, 0, 1}).slice(0, {}, {}, 2));
  expected.slice(0, {}, {}, 2).copy_(x.permute({2, 0, 1}).slice(0, {}, {}, 2));
  expect_equal(target, expected);
}

TEST_F(Cuda, FillsEveryDtype) {
  for (DType t : {boolean, u8, i16, i32, i64, f16, bf16, f32, f64}) {
    SCOPED_TRACE(name(t));
    expect_equal(full({7}, 3, {t, cuda}), full({7}, 3, {t}));
    const Tensor a = zeros({4, 6}, {t, cuda}), b = zeros({4, 6}, {t});
    a.slice(1, {}, {}, 2).fill_(1), b.slice(1, {}, {}, 2).fill_(1);
    expect_equal(a, b);
  }
}

TEST_F(Cuda, CountsItsMemory) {
  empty_cache(cuda);
  const MemoryStats before = memory_stats(cuda);
  {
    const Tensor big = zeros({1 << 20}, {f32, cuda}), small = zeros({10}, {f32, cuda});
    const MemoryStats during = memory_stats(cuda);
    EXPECT_EQ(during.allocated - before.allocated, (4u << 20) + 40u);
    EXPECT_GE(during.reserved, during.allocated);
    EXPECT_GE(during.peak_allocated, during.allocated);
    EXPECT_EQ(during.allocations, before.allocations + 2);
    EXPECT_LT(during.free, during.total);
  }
  EXPECT_EQ(memory_stats(cuda).allocated, before.allocated);
  empty_cache(cuda);
  EXPECT_LE(memory_stats(cuda).reserved, before.reserved);
  reset_peak(cuda);
  EXPECT_EQ(memory_stats(cuda).peak_allocated, before.allocated);
}

TEST_F(Cuda, KeepsToALimit) {
  const size_t now = memory_stats(cuda).allocated;
  set_memory_limit(cuda, now + (1 << 20));
  EXPECT_THROW(zeros({1 << 20}, {f32, cuda}), OutOfMemoryError);
  expect_equal(ones({10}, {f32, cuda}), ones({10}));
  set_memory_limit(cuda, 0);
  EXPECT_EQ(zeros({1 << 20}, {f32, cuda}).numel(), 1 << 20);
}

TEST_F(Cuda, RunsOutWithATypedErrorAndGoesOn) {
  const int64_t too_much = static_cast<int64_t>(memory_stats(cuda).total) + 1;
  EXPECT_THROW(empty({too_much}, {u8, cuda}), OutOfMemoryError);
  expect_equal(ones({10}, {f32, cuda}) * 2.0, ones({10}) * 2.0);
}

TEST_F(Cuda, MemoryIsReusedOnlyInOrder) {
  Tensor total = zeros({1000}, {f32, cuda});
  for (int i = 1; i <= 200; ++i) total = total + full({1000}, i, {f32, cuda}) * 2.0;
  for (double v : values_of(total)) ASSERT_EQ(v, 200 * 201);
}

TEST_F(Cuda, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([t, &results] {
      Tensor x = full({24, 24}, static_cast<double>(t), {f32, cuda});
      for (int i = 0; i < 50; ++i) x = x + 1.0;
      results[t] = sum(matmul(x, ones({24, 1}, {f32, cuda}))).item<double>();
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], 24 * 24 * (50 + static_cast<double>(t)));
}

// ---- kernels --------------------------------------------------------------------------------------------------------

TEST_F(Cuda, PointwiseTakesAnyLayout) {
  const Tensor x = rand({3, 4, 5}) - 0.5, y = rand({4, 1}) + 0.5;
  const Tensor a = x.to(cuda), b = y.to(cuda);
  expect_near(a * b, x * y);
  expect_near(a.permute({2, 1, 0}) / b, x.permute({2, 1, 0}) / y);
  expect_near(a.slice(2, {}, {}, -2) - b, x.slice(2, {}, {}, -2) - y);
  expect_near(exp(a.select(0, 1)) + b, exp(x.select(0, 1)) + y);
  expect_near(maximum(a, b.expand({3, 4, 5})), maximum(x, y.expand({3, 4, 5})));
  expect_near(sum(a) * 2.0, sum(x) * 2.0);  // 0-d
  const Tensor target = zeros({3, 5, 4}, {f32, cuda}), expected = zeros({3, 5, 4});
  target.transpose(1, 2).add_(a), expected.transpose(1, 2).add_(x);
  expect_equal(target, expected);
}

/// Every op of the lists through the table, in every float type.
TEST_F(Cuda, EveryFormulaMatchesTheCpu) {
  const auto compare_all = [](DType t, auto count, double low, double high, const char* what, auto&& apply) {
    const Tensor x = (rand({257}) * (high - low) + low).to(t), y = (rand({257}) * 1.5 + 0.5).to(t);
    for (int i = 0; i < static_cast<int>(count); ++i) {
      SCOPED_TRACE(std::string(what) + " " + std::to_string(i) + " of " + name(t));
      const Tensor host = empty({257}, {t}), device = empty({257}, {t, cuda});
      apply(static_cast<decltype(count)>(i), host, x, y);
      apply(static_cast<decltype(count)>(i), device, x.to(cuda), y.to(cuda));
      expect_near(device, host, 4 * tolerance_of(t), tolerance_of(t));
    }
  };
  for (DType t : {f32, f64, f16, bf16}) {
    compare_all(t, UnaryOp::count, 0.1, 3.0, "unary",
                [](UnaryOp op, const Tensor& out, const Tensor& x, const Tensor&) {
                  kernels(out.raw_view()).unary(op, out.raw_view(), x.raw_view());
                });
    compare_all(t, UnaryOp::count, 0.1, 3.0, "gradient",
                [](UnaryOp op, const Tensor& out, const Tensor& x, const Tensor& y) {
                  kernels(out.raw_view()).unary_gradient(op, out.raw_view(), y.raw_view(), x.raw_view());
                });
    compare_all(t, BinaryOp::count, 0.1, 3.0, "binary",
                [](BinaryOp op, const Tensor& out, const Tensor& x, const Tensor& y) {
                  kernels(out.raw_view()).binary(op, out.raw_view(), x.raw_view(), y.raw_view());
                });
    compare_all(t, TernaryOp::count, 0.1, 3.0, "ternary",
                [](TernaryOp op, const Tensor& out, const Tensor& x, const Tensor& y) {
                  kernels(out.raw_view()).ternary(op, out.raw_view(), x.raw_view(), y.raw_view(), x.raw_view());
                });
  }
}

TEST_F(Cuda, ComputesWithIntegersAndBool) {
  const Tensor x = arange(-50, 50), y = arange(0, 100) + 1;
  for (DType t : {i8, i16, i32, i64, u8}) {
    SCOPED_TRACE(name(t));
    const Tensor a = x.to(t), b = y.to(t), c = a.to(cuda), d = b.to(cuda);
    expect_equal(c + d, a + b);
    expect_equal(c * d, a * b);
    expect_equal(minimum(c, d), minimum(a, b));
    expect_equal(c < d, a < b);
    expect_equal(sum(c), sum(a));
    expect_equal(matmul(c.view({10, 10}), d.view({10, 10})), matmul(a.view({10, 10}), b.view({10, 10})));
  }
  const Tensor p = x > 7, q = y > 60, r = p.to(cuda), s = q.to(cuda);
  expect_equal(r + s, p + q);
  expect_equal(logical_xor(r, s), logical_xor(p, q));
  expect_equal(any(r), any(p));
  expect_equal(all(r), all(p));
}

TEST_F(Cuda, ReducesShortAndLongRowsAndColumns) {
  for (const Dims& shape :
       {Dims{3, 5}, Dims{2, 1000}, Dims{700, 3}, Dims{1, 150000}, Dims{150000, 2}, Dims{300, 400}}) {
    SCOPED_TRACE(shape.text());
    const Tensor x = rand(shape) - 0.5, d = x.to(cuda);
    for (int dim : {0, 1}) {
      expect_near(sum(d, {dim}), sum(x, {dim}), 1e-5, 1e-4);
      expect_near(mean(d, {dim}, true), mean(x, {dim}, true), 1e-5, 1e-6);
      expect_near(var(d, {dim}), var(x, {dim}), 1e-4, 1e-6);
      expect_equal(argmax(d, dim), argmax(x, dim));
      expect_equal(amax(d, {dim}), amax(x, {dim}));
      expect_near(softmax(d, dim), softmax(x, dim), 1e-4, 1e-7);
      expect_near(cumsum(d, dim), cumsum(x, dim), 1e-5, 1e-3);
    }
    expect_near(sum(d), sum(x), 1e-5, 1e-3);
  }
}

TEST_F(Cuda, MultipliesMatricesOfManyShapes) {
  struct Shape {
    int64_t m, k, n;
  };
  for (const Shape& s : {Shape{1, 1, 1}, Shape{3, 7, 5}, Shape{33, 17, 65}, Shape{1, 64, 9}, Shape{70, 40, 1},
                         Shape{128, 256, 192}, Shape{5, 0, 4}}) {
    for (DType t : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n) + " " + name(t));
      const double tolerance = tolerance_of(t);
      const Tensor a = (rand({s.m, s.k}) - 0.5).to(t), b = (rand({s.n, s.k}) - 0.5).to(t), bias = rand({s.n}).to(t);
      const Tensor c = a.to(cuda), d = b.to(cuda);
      expect_near(matmul(c, d.t()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(matmul(c, d.t().contiguous()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(matmul(c.t().contiguous().t(), d.t()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(linear(c, d, bias.to(cuda)), linear(a, b, bias), tolerance, tolerance);
    }
  }
}

TEST_F(Cuda, MultipliesBatchesInAnyLayout) {
  const Tensor a = rand({2, 1, 9, 4}), b = rand({3, 4, 6}), heads = rand({2, 5, 3, 4});
  const Tensor c = a.to(cuda), d = b.to(cuda), e = heads.to(cuda);
  expect_near(matmul(c, d), matmul(a, b));
  expect_near(matmul(e.transpose(1, 2), e.permute({0, 2, 3, 1})),
              matmul(heads.transpose(1, 2), heads.permute({0, 2, 3, 1})));
  expect_near(matmul(c.slice(3, {}, {}, 2), d.slice(1, {}, {}, 2)),
              matmul(a.slice(3, {}, {}, 2), b.slice(1, {}, {}, 2)));
  expect_near(matmul(d.slice(2, 1, 4), d.slice(2, 1, 4).transpose(1, 2)),
              matmul(b.slice(2, 1, 4), b.slice(2, 1, 4).transpose(1, 2)));
  const Tensor target = zeros({3, 6, 9}, {f32, cuda}), expected = zeros({3, 6, 9});
  const View from_a = broadcast_view(c.select(0, 0).raw_view(), Dims{3, 9, 4}), none{};
  kernels(target.raw_view()).matmul(target.transpose(1, 2).raw_view(), from_a, d.raw_view(), none);
  expected.transpose(1, 2).copy_(matmul(a.select(0, 0), b));
  expect_near(target, expected);
  const Tensor many = rand({70000, 2, 3}).to(i32);  // more than a grid has groups
  expect_equal(matmul(many.to(cuda), many.to(cuda).transpose(1, 2)), matmul(many, many.transpose(1, 2)));
}

TEST_F(Cuda, IndexesAndAddsByIndex) {
  const Tensor x = rand({5, 4, 3}), d = x.to(cuda);
  const Tensor index = tensor(std::vector<int64_t>{4, 0, -1, 0, 2}), on_device = index.to(cuda);
  for (DType t : {f32, f64, f16, bf16, i64, u8}) {
    SCOPED_TRACE(name(t));
    const Tensor a = (x * 100.0).to(t), b = a.to(cuda);
    expect_equal(index_select(b, 0, on_device), index_select(a, 0, index));
    expect_equal(index_add(b, 0, on_device, b), index_add(a, 0, index, a));
  }
  const Tensor at = index.slice(0, 0, 3).view({1, 1, 3}).expand({5, 2, 3}) * 0 + 1;
  expect_equal(gather(d, 1, at.to(cuda)), gather(x, 1, at));
  expect_equal(scatter_add(d, 1, at.to(cuda), d), scatter_add(x, 1, at, x));
}

TEST_F(Cuda, BadIndicesSurfaceAtTheNextWait) {
  const Tensor x = rand({4, 3}, {f32, cuda});
  const Tensor index = tensor(std::vector<int64_t>{0, 7}).to(cuda);
  const Tensor rows = index_select(x, 0, index);
  const unsigned line = __LINE__ - 1;
  try {
    synchronize(cuda);
    FAIL() << "index 7 of 4 went unnoticed";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[index_select] index 7 is out of range for axis 0 of size 4"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("cuda_test.cpp:" + std::to_string(line)));
  }
  synchronize(cuda);  // told once
  expect_equal(ones({2}, {f32, cuda}), ones({2}));
}

TEST_F(Cuda, DrawsTheSameBitsAsTheCpu) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    for (int64_t n : {1, 7, 1000}) {
      manual_seed(n);
      const Tensor expected_uniform = rand({n}, {t}), expected_normal = randn({n, 3}, {t});
      manual_seed(n);
      expect_equal(rand({n}, {t, cuda}), expected_uniform);
      expect_equal(randn({n, 3}, {t, cuda}), expected_normal);
    }
  }
  manual_seed(5);
  const Tensor expected = randint(-3, 1000, {501});
  manual_seed(5);
  expect_equal(randint(-3, 1000, {501}, {i64, cuda}), expected);
}

TEST_F(Cuda, NormsAndLossesMatch) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    const double tolerance = tolerance_of(t);
    const Tensor x = (rand({6, 200}) * 4.0).to(t), w = rand({200}).to(t), b = rand({200}).to(t);
    expect_near(layer_norm(x.to(cuda), {200}, w.to(cuda), b.to(cuda)), layer_norm(x, {200}, w, b), tolerance,
                tolerance);
    expect_near(rms_norm(x.to(cuda), {200}, w.to(cuda)), rms_norm(x, {200}, w), tolerance, tolerance);
    const Tensor targets = tensor(std::vector<int64_t>{0, 199, 5, -100, 7, 7});
    expect_near(cross_entropy(x.to(cuda), targets.to(cuda)), cross_entropy(x, targets), tolerance, tolerance);
  }
}

TEST_F(Cuda, GradientsMatch) {
  const Tensor x = rand({8, 16}), w = rand({16, 12}), gain = rand({12}), targets = arange(0, 8);
  const auto gradients = [&](Device device) {
    const Tensor a = x.to(device).detach(), b = w.to(device).detach(), c = gain.to(device).detach();
    for (const Tensor& leaf : {a, b, c}) leaf.requires_grad_();
    cross_entropy(layer_norm(gelu_tanh(matmul(a, b)), {12}, c), targets.to(device)).backward();
    return std::vector<Tensor>{a.grad(), b.grad(), c.grad()};
  };
  const std::vector<Tensor> expected = gradients(Device()), actual = gradients(cuda);
  for (size_t i = 0; i < expected.size(); ++i) expect_near(actual[i], expected[i], 1e-4, 1e-6);
}

TEST_F(Cuda, UnservedDtypesSayWhere) {
  const Tensor x = zeros({2}, {u32, cuda});
  try {
    kernels(x.raw_view()).unary(UnaryOp::square, x.raw_view(), x.raw_view());
    FAIL();
  } catch (const DTypeError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("uint32 on cuda:0"));
  }
}

// ---- other circumstances --------------------------------------------------------------------------------------------

TEST_F(CudaDevices, CopyBetweenThem) {
  if (device_count(DeviceType::cuda) < 2) GTEST_SKIP() << "cuda: needs two GPUs";
  const Device other(DeviceType::cuda, 1);
  const Tensor x = rand({100000}), here = x.to(cuda), there = here.to(other);
  expect_equal(there, x);
  expect_near(matmul(there.view({100, 1000}), there.view({1000, 100})),
              matmul(x.view({100, 1000}), x.view({1000, 100})));
  expect_equal((there + 1.0).to(cuda), x + 1.0);
  EXPECT_THROW(here + there, DeviceError);
}

TEST(CudaAbsent, MeansNoDevices) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "cuda: there is a GPU";
  EXPECT_EQ(find_backend(DeviceType::cuda), nullptr);
  EXPECT_THROW(zeros({2}, {f32, cuda}), DeviceError);
  EXPECT_THROW(zeros({2}).to(cuda), DeviceError);
  EXPECT_THROW(synchronize(cuda), DeviceError);
  EXPECT_THROW(memory_stats(cuda), DeviceError);
}

// Dies after the runtime was told to shut down.
Tensor immortal;
TEST_F(Cuda, StaticTensorsOutliveIt) { immortal = ones({1000}, {f32, cuda}); }

}  // namespace
}  // namespace weft
