// The HPU backend on the test driver. CTest runs the suites again where the driver is hostile, has several devices,
// little memory, fails, or is absent: each suite says what it needs and skips elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
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

namespace weft {
namespace {

const Device hpu(DeviceType::hpu);

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

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

class WithDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
    if (!environment("WEFT_ZE_LOSE_AFTER").empty()) GTEST_SKIP() << "the device will be lost";
  }
  static Backend& backend() { return *find_backend(DeviceType::hpu); }
};

// ---- copies and memory
// ------------------------------------------------------------------------------------------------

class Hpu : public WithDevice {};

TEST_F(Hpu, DescribesItself) {
  EXPECT_GE(device_count(DeviceType::hpu), 1);
  EXPECT_THAT(backend().describe(0), ::testing::HasSubstr("GiB"));
  EXPECT_THROW(backend().describe(99), DeviceError);
  EXPECT_THROW(zeros({2}, {f32, Device(DeviceType::hpu, 99)}), DeviceError);
}

TEST_F(Hpu, TransfersEveryDtypeUnchanged) {
  for (int t = 0; t < dtype_count; ++t) {
    const Tensor host = arange(0, 100).to(static_cast<DType>(t));
    const Tensor back = host.to(hpu).to(Device());
    ASSERT_EQ(back.dtype(), host.dtype());
    EXPECT_EQ(std::memcmp(back.data_ptr(), host.data_ptr(), static_cast<size_t>(host.nbytes())), 0);
  }
}

TEST_F(Hpu, UploadsMayReuseTheirSourceAtOnce) {
  constexpr size_t count = 64;
  std::vector<Tensor> targets;
  std::vector<unsigned char> source;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = 1 + i * i * 211;  // from one byte to several staging slots
    targets.push_back(empty({static_cast<int64_t>(bytes)}, {u8, hpu}));
    source.assign(bytes, static_cast<unsigned char>(i + 1));
    backend().upload(0, targets.back().data_ptr(), source.data(), bytes);
    source.assign(bytes, 0xEE);
  }
  for (size_t i = 0; i < count; ++i) {
    for (double v : values_of(targets[i])) ASSERT_EQ(v, static_cast<double>(i + 1)) << "copy " << i;
  }
}

TEST_F(Hpu, ZeroBytesAreCopiedByDoingNothing) {
  backend().upload(0, nullptr, nullptr, 0);
  backend().download(0, nullptr, nullptr, 0);
  backend().copy(0, nullptr, 0, nullptr, 0);
  const Tensor nothing = zeros({0, 3}, {f32, hpu});
  EXPECT_EQ((nothing + 1.0).to(Device()).numel(), 0);
  EXPECT_EQ(sum(nothing).item<float>(), 0);
}

TEST_F(Hpu, CopiesAcrossStridesAndDtypes) {
  const Tensor x = arange(0, 60).to(f32).view({3, 4, 5}) * 1.5 - 20.0;
  const Tensor device = x.to(hpu);
  for (DType t : {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2}) {
    SCOPED_TRACE(name(t));
    if (t == u8 || t == u16 || t == u32 || t == u64) continue;  // negative numbers have no common meaning there
    expect_equal(device.permute({2, 0, 1}).to(t), x.permute({2, 0, 1}).to(t));
    expect_equal(device.to(t).to(f64), x.to(t).to(f64));
  }
  const Tensor target = zeros({5, 3, 4}, {f16, hpu});
  target.slice(0, {}, {}, 2).copy_(device.permute({2, 0, 1}).slice(0, {}, {}, 2));
  const Tensor expected = zeros({5, 3, 4}, {f16});
  expected.slice(0, {}, {}, 2).copy_(x.permute({2, 0, 1}).slice(0, {}, {}, 2));
  expect_equal(target, expected);
}

TEST_F(Hpu, ConvertsExtremeNumbersAsTheCpuDoes) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor(std::vector<double>{0.5, -0.5, 1e10, -1e10, 1e20, infinity, -infinity, nan, 255, -1});
  for (DType from : {f64, f32, f16, bf16}) {
    for (DType to : {boolean, i8, i16, i32, i64, u64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2}) {
      SCOPED_TRACE(std::string(name(from)) + " to " + name(to));
      expect_equal(x.to(from).to(hpu).to(to).to(Device()).to(f64), x.to(from).to(to).to(f64));
    }
  }
}

TEST_F(Hpu, FillsEveryDtype) {
  for (DType t : {boolean, u8, i16, i32, i64, f16, bf16, f32, f64}) {
    SCOPED_TRACE(name(t));
    expect_equal(full({7}, 3, {t, hpu}), full({7}, 3, {t}));
    const Tensor a = zeros({4, 6}, {t, hpu}), b = zeros({4, 6}, {t});
    a.slice(1, {}, {}, 2).fill_(1), b.slice(1, {}, {}, 2).fill_(1);
    expect_equal(a, b);
  }
}

TEST_F(Hpu, CountsItsMemory) {
  empty_cache(hpu);
  const MemoryStats before = memory_stats(hpu);
  {
    const Tensor big = zeros({1 << 20}, {f32, hpu}), small = zeros({10}, {f32, hpu});
    const MemoryStats during = memory_stats(hpu);
    EXPECT_EQ(during.allocated - before.allocated, (4u << 20) + 40u);
    EXPECT_GE(during.reserved, during.allocated);
    EXPECT_GE(during.peak_allocated, during.allocated);
    EXPECT_EQ(during.allocations, before.allocations + 2);
    EXPECT_GT(during.total, 0u);
    EXPECT_LT(during.free, during.total);
  }
  EXPECT_EQ(memory_stats(hpu).allocated, before.allocated);
  empty_cache(hpu);
  EXPECT_LE(memory_stats(hpu).reserved, before.reserved);
  reset_peak(hpu);
  EXPECT_EQ(memory_stats(hpu).peak_allocated, before.allocated);
}

TEST_F(Hpu, KeepsToALimit) {
  const size_t now = memory_stats(hpu).allocated;
  set_memory_limit(hpu, now + (1 << 20));
  EXPECT_THROW(zeros({1 << 20}, {f32, hpu}), OutOfMemoryError);
  expect_equal(ones({10}, {f32, hpu}), ones({10}));
  set_memory_limit(hpu, 0);
  EXPECT_EQ(zeros({1 << 20}, {f32, hpu}).numel(), 1 << 20);
}

TEST_F(Hpu, MemoryIsReusedOnlyInOrder) {
  Tensor sum = zeros({1000}, {f32, hpu});
  for (int i = 1; i <= 200; ++i) sum = sum + full({1000}, i, {f32, hpu}) * 2.0;
  for (double v : values_of(sum)) ASSERT_EQ(v, 200 * 201);
}

TEST_F(Hpu, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([t, &results] {
      Tensor x = full({333}, static_cast<double>(t), {f32, hpu});
      for (int i = 0; i < 50; ++i) x = x + 1.0;
      results[t] = sum(x).item<double>();
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], 333 * (50 + static_cast<double>(t)));
}

// ---- kernels
// ----------------------------------------------------------------------------------------------------------

TEST_F(Hpu, PointwiseTakesAnyLayout) {
  const Tensor x = rand({3, 4, 5}) - 0.5, y = rand({4, 1}) + 0.5;
  const Tensor a = x.to(hpu), b = y.to(hpu);
  expect_near(a * b, x * y);
  expect_near(a.permute({2, 1, 0}) / b, x.permute({2, 1, 0}) / y);
  expect_near(a.slice(2, {}, {}, -2) - b, x.slice(2, {}, {}, -2) - y);
  expect_near(exp(a.select(0, 1)) + b, exp(x.select(0, 1)) + y);
  expect_near(maximum(a, b.expand({3, 4, 5})), maximum(x, y.expand({3, 4, 5})));
  expect_near(sum(a) * 2.0, sum(x) * 2.0);  // 0-d
  const Tensor target = zeros({3, 5, 4}, {f32, hpu}), expected = zeros({3, 5, 4});
  target.transpose(1, 2).add_(a), expected.transpose(1, 2).add_(x);
  expect_equal(target, expected);
}

TEST_F(Hpu, HostScalarsAreReadOnTheHost) {
  const Tensor x = arange(0, 10).to(f32);
  for (DType t : {f32, f64, f16, bf16}) {
    const Tensor h = x.to(t), d = h.to(hpu);
    expect_near(d * 2.5 + 1.0, h * 2.5 + 1.0);
    expect_near(3.0 - d, 3.0 - h);
    expect_equal(d > 4.0, h > 4.0);
    expect_equal(where(d > 4.0, d, 0.0), where(h > 4.0, h, 0.0));
  }
  const int64_t large = (int64_t{1} << 62) + 1;
  const Tensor i = full({3}, large, {i64, hpu});
  expect_equal(i + 1, full({3}, large + 1, {i64}));
  expect_equal(i == large, ones({3}, {boolean}));
  const Tensor scalar_from_host = tensor(std::vector<float>{2.0f}).view({});
  expect_equal(x.to(hpu) * scalar_from_host, x * 2.0);
}

TEST_F(Hpu, ComputesWithIntegersAndBool) {
  const Tensor x = arange(-50, 50), y = arange(0, 100) + 1;
  for (DType t : {i8, i16, i32, i64, u8}) {
    SCOPED_TRACE(name(t));
    const Tensor a = x.to(t), b = y.to(t), c = a.to(hpu), d = b.to(hpu);
    expect_equal(c + d, a + b);
    expect_equal(c * d, a * b);
    expect_equal(minimum(c, d), minimum(a, b));
    expect_equal(abs(c), abs(a));
    expect_equal(c < d, a < b);
    expect_equal(sum(c), sum(a));
    expect_equal(matmul(c.view({10, 10}), d.view({10, 10})), matmul(a.view({10, 10}), b.view({10, 10})));
  }
  const Tensor p = x > 7, q = y > 60, r = p.to(hpu), s = q.to(hpu);
  expect_equal(r + s, p + q);
  expect_equal(r * s, p * q);
  expect_equal(logical_xor(r, s), logical_xor(p, q));
  expect_equal(any(r), any(p));
  expect_equal(all(r), all(p));
}

TEST_F(Hpu, ReducesShortAndLongRowsAndColumns) {
  for (const Dims& shape : {Dims{3, 5}, Dims{2, 1000}, Dims{700, 3}, Dims{1, 150000}, Dims{150000, 2}, Dims{0, 4}}) {
    SCOPED_TRACE(shape.text());
    const Tensor x = rand(shape) - 0.5, d = x.to(hpu);
    for (int dim : {0, 1}) {
      if (x.sizes()[static_cast<size_t>(dim)] == 0) continue;
      expect_near(sum(d, {dim}), sum(x, {dim}), 1e-5, 1e-4);
      expect_near(mean(d, {dim}, true), mean(x, {dim}, true), 1e-5, 1e-6);
      expect_near(var(d, {dim}), var(x, {dim}), 1e-4, 1e-6);
      expect_equal(argmax(d, dim), argmax(x, dim));
      expect_equal(amax(d, {dim}), amax(x, {dim}));
      expect_near(softmax(d, dim), softmax(x, dim), 1e-4, 1e-7);
    }
    expect_near(sum(d), sum(x), 1e-5, 1e-3);
    expect_near(cumsum(d, 1), cumsum(x, 1), 1e-5, 1e-4);
  }
}

TEST_F(Hpu, NanWinsAndInfinitiesStay) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor(std::vector<float>{1, infinity, 2, nan, 3, -infinity}).view({3, 2});
  const Tensor d = x.to(hpu);
  for (int dim : {0, 1}) {
    expect_equal(sum(d, {dim}), sum(x, {dim}));
    expect_equal(amax(d, {dim}), amax(x, {dim}));
    expect_equal(argmin(d, dim), argmin(x, dim));
    expect_equal(cumsum(d, dim), cumsum(x, dim));
  }
}

TEST_F(Hpu, MultipliesMatricesOfManyShapes) {
  struct Shape {
    int64_t m, k, n;
  };
  for (const Shape& s :
       {Shape{1, 1, 1}, Shape{3, 7, 5}, Shape{33, 17, 65}, Shape{64, 64, 64}, Shape{70, 40, 130}, Shape{5, 0, 4}}) {
    const Tensor a = rand({s.m, s.k}) - 0.5, b = rand({s.n, s.k}) - 0.5, bias = rand({s.n});
    expect_near(matmul(a.to(hpu), b.to(hpu).t()), matmul(a, b.t()), 1e-5, 1e-5);
    expect_near(linear(a.to(hpu), b.to(hpu), bias.to(hpu)), linear(a, b, bias), 1e-5, 1e-5);
  }
  const Tensor a = rand({2, 1, 9, 4}), b = rand({3, 4, 6});
  expect_near(matmul(a.to(hpu), b.to(hpu)), matmul(a, b), 1e-5, 1e-5);
  for (DType t : {f16, bf16, f64}) {
    const Tensor x = a.to(t), y = b.to(t);
    expect_near(matmul(x.to(hpu), y.to(hpu)), matmul(x, y), t == f64 ? 1e-12 : 1e-2, t == f64 ? 1e-12 : 1e-2);
  }
}

TEST_F(Hpu, IndexesAndAddsByIndex) {
  const Tensor x = rand({5, 4, 3}), d = x.to(hpu);
  const Tensor index = tensor(std::vector<int64_t>{4, 0, -1, 0, 2}), on_device = index.to(hpu);
  for (DType t : {f32, f64, f16, bf16, i64, u8}) {
    SCOPED_TRACE(name(t));
    const Tensor a = (x * 100.0).to(t), b = a.to(hpu);
    expect_equal(index_select(b, 0, on_device), index_select(a, 0, index));
    expect_equal(index_add(b, 0, on_device, b), index_add(a, 0, index, a));
    expect_equal(index_add(b.permute({1, 2, 0}), 2, on_device.to(i32), b.permute({1, 2, 0})),
                 index_add(a.permute({1, 2, 0}), 2, index.to(i32), a.permute({1, 2, 0})));
  }
  const Tensor at = index.slice(0, 0, 3).view({1, 1, 3}).expand({5, 2, 3}) * 0 + 1;
  expect_equal(gather(d, 1, at.to(hpu)), gather(x, 1, at));
  expect_equal(scatter_add(d, 1, at.to(hpu), d), scatter_add(x, 1, at, x));
}

TEST_F(Hpu, BadIndicesSurfaceAtTheNextWait) {
  const Tensor x = rand({4, 3}, {f32, hpu});
  const Tensor index = tensor(std::vector<int64_t>{0, 7}).to(hpu);
  const Tensor rows = index_select(x, 0, index);
  const unsigned line = __LINE__ - 1;
  try {
    synchronize(hpu);
    FAIL() << "index 7 of 4 went unnoticed";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[index_select] index 7 is out of range for axis 0 of size 4"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("hpu_test.cpp:" + std::to_string(line)));
  }
  synchronize(hpu);  // told once
  EXPECT_THROW(index_add(x, 0, index, rand({2, 3}, {f32, hpu})).to(Device()), IndexError);
  EXPECT_THROW(cross_entropy(x, tensor(std::vector<int64_t>{0, 1, 2, 3}).to(hpu)).item<float>(), IndexError);
  expect_equal(ones({2}, {f32, hpu}), ones({2}));
}

TEST_F(Hpu, DrawsTheSameBitsAsTheCpu) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    for (int64_t n : {1, 7, 1000}) {
      manual_seed(n);
      const Tensor expected_uniform = rand({n}, {t}), expected_normal = randn({n, 3}, {t});
      manual_seed(n);
      expect_equal(rand({n}, {t, hpu}), expected_uniform);
      expect_equal(randn({n, 3}, {t, hpu}), expected_normal);
    }
  }
  manual_seed(5);
  const Tensor expected = randint(-3, 1000, {501});
  manual_seed(5);
  expect_equal(randint(-3, 1000, {501}, {i64, hpu}), expected);
}

TEST_F(Hpu, NormsAndLossesMatchInHalfPrecisionToo) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    const double tolerance = t == f64 ? 1e-12 : (t == f32 ? 1e-5 : 2e-2);
    const Tensor x = (rand({6, 200}) * 4.0).to(t), w = rand({200}).to(t), b = rand({200}).to(t);
    expect_near(layer_norm(x.to(hpu), {200}, w.to(hpu), b.to(hpu)), layer_norm(x, {200}, w, b), tolerance, tolerance);
    expect_near(rms_norm(x.to(hpu), {200}, w.to(hpu)), rms_norm(x, {200}, w), tolerance, tolerance);
    const Tensor targets = tensor(std::vector<int64_t>{0, 199, 5, -100, 7, 7});
    expect_near(cross_entropy(x.to(hpu), targets.to(hpu)), cross_entropy(x, targets), tolerance, tolerance);
  }
}

TEST_F(Hpu, UnservedDtypesSayWhere) {
  const Tensor x = zeros({2}, {u32, hpu});
  try {
    kernels(x.raw_view()).unary(UnaryOp::square, x.raw_view(), x.raw_view());
    FAIL();
  } catch (const DTypeError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("uint32 on hpu:0"));
  }
}

// ---- other circumstances
// ----------------------------------------------------------------------------------------------

class HpuDevices : public WithDevice {};

TEST_F(HpuDevices, CopyBetweenThem) {
  if (device_count(DeviceType::hpu) < 2) GTEST_SKIP() << "needs WEFT_ZE_DEVICES=2";
  const Device other(DeviceType::hpu, 1);
  const Tensor x = rand({100000}), here = x.to(hpu), there = here.to(other);
  expect_equal(there, x);
  expect_near(there * 2.0, x * 2.0);
  expect_equal((there + 1.0).to(hpu), x + 1.0);
  EXPECT_THROW(here + there, DeviceError);
}

class HpuMemory : public WithDevice {};

TEST_F(HpuMemory, RunsOutWithATypedErrorAndGoesOn) {
  if (memory_stats(hpu).total > (size_t{1} << 30)) GTEST_SKIP() << "needs WEFT_ZE_MEM_MB=64";
  EXPECT_THROW(zeros({100 << 20}, {u8, hpu}), OutOfMemoryError);
  for (int i = 0; i < 10; ++i) {  // what is cached is given back for blocks of other sizes
    expect_equal(sum(ones({(10 + i) << 18}, {f32, hpu})), full({}, (10 + i) << 18, {f32}));
  }
}

class HpuLost : public ::testing::Test {};

TEST_F(HpuLost, EveryCallIsADeviceError) {
  if (environment("WEFT_ZE_LOSE_AFTER").empty()) GTEST_SKIP() << "needs WEFT_ZE_LOSE_AFTER";
  ASSERT_EQ(device_count(DeviceType::hpu), 1);
  const auto use = [] { return (ones({10}, {f32, hpu}) + 1.0).to(Device()); };
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) use();
      },
      DeviceError);
  EXPECT_THROW(use(), DeviceError);
  EXPECT_THROW(synchronize(hpu), DeviceError);
}

TEST(HpuAbsent, MeansNoDevices) {
  if (device_count(DeviceType::hpu) != 0) GTEST_SKIP() << "there is an HPU";
  EXPECT_EQ(find_backend(DeviceType::hpu), nullptr);
  EXPECT_THROW(zeros({2}, {f32, hpu}), DeviceError);
  EXPECT_THROW(zeros({2}).to(hpu), DeviceError);
  EXPECT_THROW(synchronize(hpu), DeviceError);
}

// Dies after the driver was told to shut down.
Tensor immortal;
TEST_F(Hpu, StaticTensorsOutliveIt) { immortal = ones({1000}, {f32, hpu}); }

}  // namespace
}  // namespace weft
