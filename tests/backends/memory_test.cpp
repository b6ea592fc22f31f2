// Memory figures of devices.
#include "device_checks.hpp"

#include <thread>

#include <weft/backends/pinned_memory.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using namespace test;

constexpr size_t mebibyte = size_t{1} << 20;

void expect_ordered(const MemoryStats& s) {
  EXPECT_LE(s.allocated, s.reserved);
  EXPECT_LE(s.allocated, s.peak_allocated);
  EXPECT_LE(s.reserved, s.peak_reserved);
  EXPECT_LE(s.free, s.total);
  EXPECT_LE(s.reserved, s.total - s.free) << "what others use counts too";
}

DEVICE_TEST(MemoryFiguresKeepTheirOrder) {
  empty_cache(on);
  reset_peak(on);
  const MemoryStats before = memory_stats(on);
  expect_ordered(before);
  {
    const Tensor one = empty({262144}, {f32, on});
    const MemoryStats during = memory_stats(on);
    expect_ordered(during);
    EXPECT_EQ(during.allocated - before.allocated, mebibyte);
    EXPECT_GE(before.free - during.free, mebibyte);
  }
  const MemoryStats after = memory_stats(on);
  expect_ordered(after);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.peak_allocated - before.allocated, mebibyte) << "until it is reset";
  reset_peak(on);
  EXPECT_EQ(memory_stats(on).peak_allocated, before.allocated);
  empty_cache(on);
  EXPECT_EQ(memory_stats(on).reserved, before.reserved);
  EXPECT_EQ(memory_stats(on).free, before.free);
}

DEVICE_TEST(MemoryFiguresOfManyThreads) {
  empty_cache(on);
  const size_t before = memory_stats(on).allocated;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([on, t] {
      std::vector<Tensor> kept;
      for (int i = 0; i < 100; ++i) {
        kept.push_back(empty({(i * 37 + t) % 5000 + 1}, {f32, on}));
        if (i % 3 == 0) kept.erase(kept.begin());
        if (i % 20 == 0) expect_ordered(memory_stats(on));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_stats(on).allocated, before);
}

DEVICE_TEST(MemoryFreedByAnotherThreadCounts) {
  const size_t before = memory_stats(on).allocated;
  Tensor x = empty({1000}, {f32, on});
  EXPECT_EQ(memory_stats(on).allocated, before + 4000);
  std::thread([mine = std::move(x)]() mutable { mine = Tensor(); }).join();
  EXPECT_EQ(memory_stats(on).allocated, before);
}

DEVICE_TEST(PinnedMemoryIsCountedByItself) {
  empty_pinned_cache(on);
  const MemoryStats before = pinned_memory_stats(on), of_device = memory_stats(on);
  {
    const Tensor x = ones({mebibyte / 4}).pin_memory(on);
    const MemoryStats during = pinned_memory_stats(on);
    EXPECT_EQ(during.allocated - before.allocated, mebibyte);
    EXPECT_GE(during.reserved, during.allocated);
    EXPECT_EQ(during.total, 0u);
    EXPECT_EQ(memory_stats(on).allocated, of_device.allocated) << "not the device's";
    expect_equal(x.to(on, {.non_blocking = true}), ones({mebibyte / 4}));
  }
  EXPECT_EQ(pinned_memory_stats(on).allocated, before.allocated);
  synchronize(on);
  empty_pinned_cache(on);
  EXPECT_EQ(pinned_memory_stats(on).reserved, before.reserved);
}

DEVICE_TEST(ADeviceThatIsNotThereHasNoMemory) {
  const Device none(on.type, 200);
  EXPECT_THROW(memory_stats(none), DeviceError);
  EXPECT_THROW(reset_peak(none), DeviceError);
  EXPECT_THROW(empty_cache(none), DeviceError);
  EXPECT_THROW(pinned_memory_stats(none), DeviceError);
  EXPECT_THROW(empty_pinned_cache(none), DeviceError);
}

TEST(PinnedMemory, IsNoneForTheCpu) {
  EXPECT_EQ(pinned_memory_stats(Device()).reserved, 0u);
  empty_pinned_cache(Device());
}

// A driver without figures of other processes: only Weft's own memory is known.
TEST_F(Hpu, WithoutSysmanFreeMemoryIsTotalMinusUsed) {
  if (environment("ZES_ENABLE_SYSMAN") == "1") GTEST_SKIP() << "needs ZES_ENABLE_SYSMAN=0";
  const Device on(DeviceType::hpu);
  const Tensor x = empty({mebibyte}, {u8, on});
  const MemoryStats s = memory_stats(on);
  EXPECT_GE(s.reserved, mebibyte);
  EXPECT_EQ(s.free, s.total - s.reserved);
}

DEVICES_TEST(CopiesOfEachLayoutBetweenThem) {
  if (device_count(on.type) < 2) GTEST_SKIP() << on.name() << ": needs two devices";
  const Device other(on.type, 1);
  const Tensor x = arange(0, 24 * 50).to(f32).view({24, 50});
  const Tensor here = x.to(on);
  expect_equal(here.t().to(other), x.t());
  expect_equal(here.slice(1, 3, 40, 7).to(other), x.slice(1, 3, 40, 7));
  expect_equal(here.slice(0, {}, {}, -1).to(other), x.slice(0, {}, {}, -1));
  expect_equal(here.select(0, 0).expand({5, 50}).to(other), x.select(0, 0).expand({5, 50}));
  expect_equal(here.to(other, f64), x.to(f64));
  expect_equal(here.slice(0, 0, 0).to(other), x.slice(0, 0, 0));
  expect_equal(here.select(0, 0).select(0, 7).to(other), x.select(0, 0).select(0, 7));
  Tensor there = zeros({24, 50}, {f32, other});
  there.slice(1, 10, 20).copy_(here.slice(1, 20, 30));
  expect_equal(there.slice(1, 10, 20), x.slice(1, 20, 30));
  const MemoryStats before = memory_stats(other);
  for (int i = 0; i < 50; ++i) {  // each is dropped while it may be on its way
    const Tensor big = full({100'000}, i, {f32, on});
    ASSERT_EQ((big.to(other) + 1.0).select(0, 99'999).item<float>(), static_cast<float>(i + 1));
  }
  EXPECT_EQ(memory_stats(other).allocated, before.allocated);
}

}  // namespace
}  // namespace weft
