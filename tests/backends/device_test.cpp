// Every kind of device against the CPU. Where there is none, each test says so and is skipped.
#include "device_checks.hpp"

#include <cstring>
#include <limits>
#include <thread>

#include <weft/backends/functors/lists.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/softmax.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/layout.hpp>

namespace weft {
namespace {

using namespace test;

// ---- copies and memory ----------------------------------------------------------------------------------------------

DEVICE_TEST(DescribesItself) {
  EXPECT_GE(device_count(on.type), 1);
  EXPECT_THAT(backend_of(on).describe(0), ::testing::HasSubstr("GiB"));
  EXPECT_THROW(backend_of(on).describe(99), DeviceError);
  EXPECT_THROW(zeros({2}, {f32, Device(on.type, 99)}), DeviceError);
}

DEVICE_TEST(TransfersEveryDtypeUnchanged) {
  for (int t = 0; t < dtype_count; ++t) {
    const Tensor host = arange(0, 100).to(static_cast<DType>(t));
    const Tensor back = host.to(on).to(Device());
    ASSERT_EQ(back.dtype(), host.dtype());
    EXPECT_EQ(std::memcmp(back.data_ptr(), host.data_ptr(), static_cast<size_t>(host.nbytes())), 0);
  }
}

DEVICE_TEST(UploadsMayReuseTheirSourceAtOnce) {
  constexpr size_t count = 64;
  std::vector<Tensor> targets;
  std::vector<unsigned char> source;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = 1 + i * i * 401;  // from one byte to several staging slots
    targets.push_back(empty({static_cast<int64_t>(bytes)}, {u8, on}));
    source.assign(bytes, static_cast<unsigned char>(i + 1));
    backend_of(on).upload(0, targets.back().data_ptr(), source.data(), bytes);
    source.assign(bytes, 0xEE);
  }
  for (size_t i = 0; i < count; ++i) {
    for (double v : values_of(targets[i])) ASSERT_EQ(v, static_cast<double>(i + 1)) << "copy " << i;
  }
}

DEVICE_TEST(ZeroBytesAreCopiedByDoingNothing) {
  backend_of(on).upload(0, nullptr, nullptr, 0);
  backend_of(on).download(0, nullptr, nullptr, 0);
  backend_of(on).copy(0, nullptr, 0, nullptr, 0);
  const Tensor nothing = zeros({0, 3}, {f32, on});
  EXPECT_EQ((nothing + 1.0).to(Device()).numel(), 0);
  EXPECT_EQ(sum(nothing).item<float>(), 0);
}

DEVICE_TEST(CopiesAcrossStridesAndDtypes) {
  const Tensor x = arange(0, 60).to(f32).view({3, 4, 5}) * 1.5 - 20.0;
  const Tensor device = x.to(on);
  for (DType t : {boolean, i8, i16, i32, i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2}) {
    SCOPED_TRACE(name(t));
    expect_equal(device.permute({2, 0, 1}).to(t), x.permute({2, 0, 1}).to(t));
    expect_equal(device.to(t).to(f64), x.to(t).to(f64));
  }
  const Tensor target = zeros({5, 3, 4}, {f16, on}), expected = zeros({5, 3, 4}, {f16});
  target.slice(0, {}, {}, 2).copy_(device.permute({2, 0, 1}).slice(0, {}, {}, 2));
  expected.slice(0, {}, {}, 2).copy_(x.permute({2, 0, 1}).slice(0, {}, {}, 2));
  expect_equal(target, expected);
}

DEVICE_TEST(RoundsWideNumbersOnce) {
  std::vector<double> near;
  for (const double middle : {1.0625, 1.00048828125, 1.00390625, 464.0, 61440.0, 65520.0, 0x1p-10, 0x1p-17, 0x1p-25}) {
    for (const double part : {0x1p-40, 0.0, -0x1p-40})
      near.push_back(middle * (1 + part)), near.push_back(-near.back());
  }
  std::vector<int64_t> whole;
  for (const int bits : {9, 24, 31, 40, 62}) {
    for (const int64_t part : {-1, 0, 1}) {
      const int64_t middle = (int64_t{1} << bits) + (int64_t{1} << (bits - 8)) + (int64_t{1} << (bits - 9));
      whole.push_back(middle + part), whole.push_back(-middle - part);
    }
  }
  for (DType to : {f16, bf16, f8_e4m3fn, f8_e5m2}) {
    SCOPED_TRACE(name(to));
    for (const Tensor& x : {tensor(near), tensor(whole), tensor(whole).to(i32), tensor(whole).to(u32)}) {
      const Tensor here = x.to(to), there = x.to(on).to(to).to(Device());
      EXPECT_EQ(std::memcmp(there.data_ptr(), here.data_ptr(), static_cast<size_t>(here.nbytes())), 0)
          << name(x.dtype());
    }
  }
}

DEVICE_TEST(ConvertsExtremeNumbersAsTheCpuDoes) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor(std::vector<double>{0.5, -0.5, 1e10, -1e10, 1e20, infinity, -infinity, nan, 255, -1});
  for (DType from : {f64, f32, f16, bf16}) {
    for (DType to : {boolean, i8, i16, i32, i64, u64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2}) {
      SCOPED_TRACE(std::string(name(from)) + " to " + name(to));
      expect_equal(x.to(from).to(on).to(to).to(Device()).to(f64), x.to(from).to(to).to(f64));
    }
  }
}

DEVICE_TEST(FillsEveryDtype) {
  for (DType t : {boolean, u8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64}) {
    SCOPED_TRACE(name(t));
    expect_equal(full({7}, 3, {t, on}), full({7}, 3, {t}));
    const Tensor a = zeros({4, 6}, {t, on}), b = zeros({4, 6}, {t});
    a.slice(1, {}, {}, 2).fill_(1), b.slice(1, {}, {}, 2).fill_(1);
    expect_equal(a, b);
  }
}

DEVICE_TEST(CountsItsMemory) {
  empty_cache(on);
  const MemoryStats before = memory_stats(on);
  {
    const Tensor big = zeros({1 << 20}, {f32, on}), small = zeros({10}, {f32, on});
    const MemoryStats during = memory_stats(on);
    EXPECT_EQ(during.allocated - before.allocated, (4u << 20) + 40u);
    EXPECT_GE(during.reserved, during.allocated);
    EXPECT_GE(during.peak_allocated, during.allocated);
    EXPECT_EQ(during.allocations, before.allocations + 2);
    EXPECT_LT(during.free, during.total);
  }
  EXPECT_EQ(memory_stats(on).allocated, before.allocated);
  empty_cache(on);
  EXPECT_LE(memory_stats(on).reserved, before.reserved);
  reset_peak(on);
  EXPECT_EQ(memory_stats(on).peak_allocated, before.allocated);
}

DEVICE_TEST(KeepsToALimit) {
  const size_t now = memory_stats(on).allocated;
  set_memory_limit(on, now + (1 << 20));
  EXPECT_THROW(zeros({1 << 20}, {f32, on}), OutOfMemoryError);
  expect_equal(ones({10}, {f32, on}), ones({10}));
  set_memory_limit(on, 0);
  EXPECT_EQ(zeros({1 << 20}, {f32, on}).numel(), 1 << 20);
}

DEVICE_TEST(ExhaustionRaisesAndTheDeviceStaysUsable) {
  const int64_t too_much = static_cast<int64_t>(memory_stats(on).total) + 1;
  EXPECT_THROW(empty({too_much}, {u8, on}), OutOfMemoryError);
  expect_equal(ones({10}, {f32, on}) * 2.0, ones({10}) * 2.0);
}

DEVICE_TEST(MemoryIsReusedOnlyInOrder) {
  Tensor total = zeros({1000}, {f32, on});
  for (int i = 1; i <= 200; ++i) total = total + full({1000}, i, {f32, on}) * 2.0;
  for (double v : values_of(total)) ASSERT_EQ(v, 200 * 201);
}

DEVICE_TEST(ServesManyThreads) {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([on, t, &results] {
      Tensor x = full({24, 24}, static_cast<double>(t), {f32, on});
      for (int i = 0; i < 50; ++i) x = x + 1.0;
      results[t] = sum(matmul(x, ones({24, 1}, {f32, on}))).item<double>();
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], 24 * 24 * (50 + static_cast<double>(t)));
}

DEVICE_TEST(DropoutDrawsFromTheGeneratorOfItsTensorsDevice) {
  const Tensor x = ones({1000});
  manual_seed(5);
  const GeneratorState start = default_generator(on).state();
  const Tensor there = dropout(x.to(on), 0.5);
  EXPECT_EQ(default_generator().state().offset, 0u);
  EXPECT_NE(default_generator(on).state(), start);
  EXPECT_EQ(values_of(there), values_of(dropout(x, 0.5)));
  EXPECT_EQ(default_generator().state(), default_generator(on).state());
}

// ---- kernels --------------------------------------------------------------------------------------------------------

DEVICE_TEST(PointwiseTakesAnyLayout) {
  const Tensor x = rand({3, 4, 5}) - 0.5, y = rand({4, 1}) + 0.5;
  const Tensor a = x.to(on), b = y.to(on);
  expect_near(a * b, x * y);
  expect_near(a.permute({2, 1, 0}) / b, x.permute({2, 1, 0}) / y);
  expect_near(a.slice(2, {}, {}, -2) - b, x.slice(2, {}, {}, -2) - y);
  expect_near(exp(a.select(0, 1)) + b, exp(x.select(0, 1)) + y);
  expect_near(maximum(a, b.expand({3, 4, 5})), maximum(x, y.expand({3, 4, 5})));
  expect_near(sum(a) * 2.0, sum(x) * 2.0);  // 0-d
  const Tensor target = zeros({3, 5, 4}, {f32, on}), expected = zeros({3, 5, 4});
  target.transpose(1, 2).add_(a), expected.transpose(1, 2).add_(x);
  expect_equal(target, expected);
}

DEVICE_TEST(HostScalarsAreReadOnTheHost) {
  const Tensor x = arange(0, 10).to(f32);
  for (DType t : {f32, f64, f16, bf16}) {
    const Tensor h = x.to(t), d = h.to(on);
    expect_near(d * 2.5 + 1.0, h * 2.5 + 1.0);
    expect_near(3.0 - d, 3.0 - h);
    expect_equal(d > 4.0, h > 4.0);
    expect_equal(where(d > 4.0, d, 0.0), where(h > 4.0, h, 0.0));
  }
  const int64_t large = (int64_t{1} << 62) + 1;
  const Tensor i = full({3}, large, {i64, on});
  expect_equal(i + 1, full({3}, large + 1, {i64}));
  expect_equal(i == large, ones({3}, {boolean}));
  const Tensor scalar_from_host = tensor(std::vector<float>{2.0f}).view({});
  expect_equal(x.to(on) * scalar_from_host, x * 2.0);
}

/// Every op of the lists through the table, in every float type.
DEVICE_TEST(EveryFormulaMatchesTheCpu) {
  const auto compare_all = [on](DType t, auto count, double low, double high, const char* what, auto&& apply) {
    const Tensor x = (rand({258}) * (high - low) + low).to(t), y = (rand({258}) * 1.5 + 0.5).to(t);
    for (int i = 0; i < static_cast<int>(count); ++i) {
      SCOPED_TRACE(std::string(what) + " " + std::to_string(i) + " of " + name(t));
      const Tensor host = empty({258}, {t}), device = empty({258}, {t, on});
      apply(static_cast<decltype(count)>(i), host, x, y);
      apply(static_cast<decltype(count)>(i), device, x.to(on), y.to(on));
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
    compare_all(t, BinaryOp::bitwise_and, 0.1, 3.0, "binary",
                [](BinaryOp op, const Tensor& out, const Tensor& x, const Tensor& y) {
                  kernels(out.raw_view()).binary(op, out.raw_view(), x.raw_view(), y.raw_view());
                });
    compare_all(t, TernaryOp::count, 0.1, 3.0, "ternary",
                [](TernaryOp op, const Tensor& out, const Tensor& x, const Tensor& y) {
                  kernels(out.raw_view()).ternary(op, out.raw_view(), x.raw_view(), y.raw_view(), x.raw_view());
                });
  }
}

/// The buffer after `compute` has written `count` elements from `offset` on, with its surroundings.
template <class F>
Tensor written(Device d, DType t, int64_t count, int64_t offset, const F& compute) {
  const Tensor buffer = full({count + 3}, 1, {t, d}), out = buffer.narrow(0, offset, count);
  compute(out.raw_view());
  return buffer.to(Device()).to(f64);
}

/// One work-item handles 16-bit neighbours in one word: at any length, and for operands that start inside a word.
DEVICE_TEST(ComputesElementsOf16BitsAtAnyLengthAndPlace) {
  for (const DType t : {f16, bf16, i16, u16}) {
    const bool floats = is_floating(t);
    const Tensor x = ((rand({2000}) - (floats ? 0.5 : 0)) * 200.0).to(t), y = (rand({2000}) * 100.0).to(t);
    for (const int64_t n : {1, 2, 3, 255, 256, 257, 511, 512, 513, 1023}) {
      for (int places = 0; places < 8; ++places) {
        SCOPED_TRACE(std::string(name(t)) + " " + std::to_string(n) + " at " + std::to_string(places));
        const int64_t offset = places & 1;
        const auto same = [&](DType made, const auto& compute) {
          const auto on_device = [&](Device d) {
            const Tensor a = x.to(d).narrow(0, (places >> 1) & 1, n), b = y.to(d).narrow(0, places >> 2, n);
            return written(d, made, n, offset, [&](const View& out) {
              compute(kernel_tables[static_cast<int>(d.type)], out, a.raw_view(), b.raw_view());
            });
          };
          expect_equal(on_device(on), on_device({}));
        };
        using Kernels = KernelTable;
        same(t, [](const Kernels& k, const View& out, const View& a, const View&) { k.unary(UnaryOp::abs, out, a); });
        same(t, [](const Kernels& k, const View& out, const View& a, const View& b) {
          k.binary(BinaryOp::mul, out, a, b);
        });
        same(t, [](const Kernels& k, const View& out, const View& a, const View& b) {
          k.ternary(TernaryOp::clamp, out, a, b, a);
        });
        same(boolean, [](const Kernels& k, const View& out, const View& a, const View& b) {
          k.compare(CompareOp::lt, out, a, b);
        });
        if (!floats) continue;
        same(t, [](const Kernels& k, const View& out, const View& a, const View& b) {
          k.unary_gradient(UnaryOp::square, out, a, b);
        });
      }
    }
    const Tensor there = x.to(on).clone();
    there.mul_(there);
    expect_equal(there, x * x);
    expect_equal(x.to(on) * 3 + 1, x * 3 + 1);
  }
}

DEVICE_TEST(ComputesWithIntegersAndBool) {
  const Tensor x = arange(-50, 50), y = arange(0, 100) + 1;
  for (DType t : {i8, i16, i32, i64, u8, u16, u32, u64}) {  // of those without a sign half are in their upper half
    SCOPED_TRACE(name(t));
    const Tensor a = x.to(t), b = y.to(t), c = a.to(on), d = b.to(on);
    expect_equal(c + d, a + b);
    expect_equal(c * d, a * b);
    expect_equal(minimum(c, d), minimum(a, b));
    expect_equal(abs(c), abs(a));
    expect_equal(sign(c), sign(a));
    expect_equal(floor_divide(c, d), floor_divide(a, b));
    expect_equal(remainder(c, d), remainder(a, b));
    expect_equal(pow(c, d), pow(a, b));
    expect_equal(clamp(c, 3, 20), clamp(a, 3, 20));
    expect_equal(c < d, a < b);
    expect_equal(c > 20, a > 20);
    expect_equal(sum(c), sum(a));
    expect_equal(amax(c), amax(a));
    expect_equal(amin(c), amin(a));
    expect_equal(argmax(c), argmax(a));
    expect_equal(cumsum(c, 0), cumsum(a, 0));
    expect_equal(matmul(c.view({10, 10}), d.view({10, 10})), matmul(a.view({10, 10}), b.view({10, 10})));
  }
  const Tensor p = x > 7, q = y > 60, r = p.to(on), s = q.to(on);
  expect_equal(r + s, p + q);
  expect_equal(r * s, p * q);
  expect_equal(logical_xor(r, s), logical_xor(p, q));
  expect_equal(any(r), any(p));
  expect_equal(all(r), all(p));
}

DEVICE_TEST(ReducesShortAndLongRowsAndColumns) {
  for (const Dims& shape :
       {Dims{3, 5}, Dims{2, 1000}, Dims{700, 3}, Dims{1, 150000}, Dims{150000, 2}, Dims{300, 400}, Dims{0, 4}}) {
    SCOPED_TRACE(shape.text());
    const Tensor x = rand(shape) - 0.5, d = x.to(on);
    for (int dim : {0, 1}) {
      if (x.sizes()[static_cast<size_t>(dim)] == 0) continue;
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

DEVICE_TEST(NanWinsAndInfinitiesStay) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor(std::vector<float>{1, infinity, 2, nan, 3, -infinity}).view({3, 2});
  const Tensor d = x.to(on);
  for (int dim : {0, 1}) {
    expect_equal(sum(d, {dim}), sum(x, {dim}));
    expect_equal(amax(d, {dim}), amax(x, {dim}));
    expect_equal(argmin(d, dim), argmin(x, dim));
    expect_equal(cumsum(d, dim), cumsum(x, dim));
  }
}

DEVICE_TEST(MultipliesMatricesOfManyShapes) {
  struct Shape {
    int64_t m, k, n;
  };
  for (const Shape& s : {Shape{1, 1, 1}, Shape{3, 7, 5}, Shape{33, 17, 65}, Shape{1, 64, 9}, Shape{70, 40, 1},
                         Shape{128, 256, 192}, Shape{5, 0, 4}}) {
    for (DType t : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n) + " " + name(t));
      const double tolerance = tolerance_of(t);
      const Tensor a = (rand({s.m, s.k}) - 0.5).to(t), b = (rand({s.n, s.k}) - 0.5).to(t), bias = rand({s.n}).to(t);
      const Tensor c = a.to(on), d = b.to(on);
      expect_near(matmul(c, d.t()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(matmul(c, d.t().contiguous()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(matmul(c.t().contiguous().t(), d.t()), matmul(a, b.t()), tolerance, tolerance);
      expect_near(linear(c, d, bias.to(on)), linear(a, b, bias), tolerance, tolerance);
    }
  }
}

DEVICE_TEST(MultipliesBatchesInAnyLayout) {
  const Tensor a = rand({2, 1, 9, 4}), b = rand({3, 4, 6}), heads = rand({2, 5, 3, 4});
  const Tensor c = a.to(on), d = b.to(on), e = heads.to(on);
  expect_near(matmul(c, d), matmul(a, b));
  expect_near(matmul(e.transpose(1, 2), e.permute({0, 2, 3, 1})),
              matmul(heads.transpose(1, 2), heads.permute({0, 2, 3, 1})));
  expect_near(matmul(c.slice(3, {}, {}, 2), d.slice(1, {}, {}, 2)),
              matmul(a.slice(3, {}, {}, 2), b.slice(1, {}, {}, 2)));
  expect_near(matmul(d.slice(2, 1, 4), d.slice(2, 1, 4).transpose(1, 2)),
              matmul(b.slice(2, 1, 4), b.slice(2, 1, 4).transpose(1, 2)));
  const Tensor target = zeros({3, 6, 9}, {f32, on}), expected = zeros({3, 6, 9});
  const View from_a = broadcast_view(c.select(0, 0).raw_view(), Dims{3, 9, 4}), none{};
  kernels(target.raw_view()).matmul(target.transpose(1, 2).raw_view(), from_a, d.raw_view(), none);
  expected.transpose(1, 2).copy_(matmul(a.select(0, 0), b));
  expect_near(target, expected);
  const Tensor many = rand({70000, 2, 3}).to(i32);  // more than a grid has groups
  expect_equal(matmul(many.to(on), many.to(on).transpose(1, 2)), matmul(many, many.transpose(1, 2)));
}

DEVICE_TEST(DrawsTheSameBitsAsTheCpu) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    for (int64_t n : {1, 7, 1000}) {
      manual_seed(n);
      const Tensor expected_uniform = rand({n}, {t}), expected_normal = randn({n, 3}, {t});
      manual_seed(n);
      expect_equal(rand({n}, {t, on}), expected_uniform);
      expect_equal(randn({n, 3}, {t, on}), expected_normal);
    }
  }
  manual_seed(5);
  const Tensor expected = randint(-3, 1000, {501});
  manual_seed(5);
  expect_equal(randint(-3, 1000, {501}, {i64, on}), expected);
  for (DType t : {u16, u32, u64}) {
    manual_seed(6);
    const Tensor whole = randint(3, 60000, {501}, {t});
    manual_seed(6);
    expect_equal(randint(3, 60000, {501}, {t, on}), whole);
    expect_equal(arange(5, 60000, 7, {t, on}), arange(5, 60000, 7, t));
  }
}

DEVICE_TEST(NormsAndLossesMatch) {
  for (DType t : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(t));
    const double tolerance = tolerance_of(t);
    const Tensor x = (rand({6, 200}) * 4.0).to(t), w = rand({200}).to(t), b = rand({200}).to(t);
    expect_near(layer_norm(x.to(on), {200}, w.to(on), b.to(on)), layer_norm(x, {200}, w, b), tolerance, tolerance);
    expect_near(rms_norm(x.to(on), {200}, w.to(on)), rms_norm(x, {200}, w), tolerance, tolerance);
    const Tensor targets = tensor(std::vector<int64_t>{0, 199, 5, -100, 7, 7});
    expect_near(cross_entropy(x.to(on), targets.to(on)), cross_entropy(x, targets), tolerance, tolerance);
  }
}

DEVICE_TEST(GradientsMatch) {
  const Tensor x = rand({8, 16}), w = rand({16, 12}), gain = rand({12}), targets = arange(0, 8);
  const auto gradients = [&](Device device) {
    const Tensor a = x.to(device).detach(), b = w.to(device).detach(), c = gain.to(device).detach();
    for (const Tensor& leaf : {a, b, c}) leaf.requires_grad_();
    cross_entropy(layer_norm(gelu_tanh(matmul(a, b)), {12}, c), targets.to(device)).backward();
    return std::vector<Tensor>{a.grad(), b.grad(), c.grad()};
  };
  const std::vector<Tensor> expected = gradients(Device()), actual = gradients(on);
  for (size_t i = 0; i < expected.size(); ++i) expect_near(actual[i], expected[i], 1e-4, 1e-6);
}

DEVICE_TEST(UnservedDtypesSayWhere) {
  const Tensor x = zeros({2}, {f8_e5m2, on});
  try {
    kernels(x.raw_view()).unary(UnaryOp::square, x.raw_view(), x.raw_view());
    synchronize(on);  // a plug-in's kernel may find out when it runs
    FAIL();
  } catch (const DTypeError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("float8_e5m2 on " + on.name()));
  }
}

DEVICE_TEST(StoresEightBitFloatsThatItDoesNotConvert) {
  for (const DType t : {f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
    SCOPED_TRACE(name(t));
    const Tensor x = tensor({1.0, 2.0, 0.25, 8.0}).to(t), there = x.to(on);
    expect_equal(there.flip({0}).clone().to(Device()).to(f32), x.flip({0}).to(f32));
    expect_equal(full({3}, 2, {t, on}).to(Device()).to(f32), full({3}, 2.0));
    if (on.type == DeviceType::cuda || on.type == DeviceType::hpu) {
      EXPECT_THROW(there.to(f32), DTypeError);
      EXPECT_THROW(ones({2}, {f32, on}).to(t), DTypeError);
    }
  }
}

// ---- other circumstances --------------------------------------------------------------------------------------------

DEVICES_TEST(CopyBetweenThem) {
  if (device_count(on.type) < 2)
    GTEST_SKIP() << on.name() << ": needs two devices (WEFT_ZE_DEVICES=2 for the test driver)";
  const Device other(on.type, 1);
  const Tensor x = rand({100000}), here = x.to(on), there = here.to(other);
  expect_equal(there, x);
  expect_near(matmul(there.view({100, 1000}), there.view({1000, 100})),
              matmul(x.view({100, 1000}), x.view({1000, 100})));
  expect_equal((there + 1.0).to(on), x + 1.0);
  EXPECT_THROW(here + there, DeviceError);
}

// Die after the devices were told to shut down.
std::vector<Tensor>& immortals() {
  static std::vector<Tensor> tensors;
  return tensors;
}
const bool constructed_first = immortals().empty();
DEVICE_TEST(StaticTensorsOutliveIt) {
  ASSERT_TRUE(constructed_first);
  immortals().push_back(ones({1000}, {f32, on}));
}

}  // namespace
}  // namespace weft
