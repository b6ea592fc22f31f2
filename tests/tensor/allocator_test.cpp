#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <weft/tensor/allocator.hpp>
#include <weft/tensor/error.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool caching = false;
#else
constexpr bool caching = true;
#endif

constexpr size_t kib = 1024, mib = kib * kib;

class CpuAllocator : public testing::Test {
 protected:
  void SetUp() override { clean(); }
  void TearDown() override { clean(); }
  static void clean() {
    set_memory_limit({}, 0);
    empty_cache();
    reset_peak();
  }
  static size_t allocated() { return memory_stats().allocated; }
  Allocator& a = cpu_allocator();
};

TEST_F(CpuAllocator, BlocksAreAlignedAndWritable) {
  for (size_t bytes :
       {size_t{1}, size_t{64}, size_t{65}, size_t{1000}, 4 * kib, mib - 1, mib, mib + 1, 2 * mib, 5 * mib, 33 * mib}) {
    char* p = static_cast<char*>(a.allocate(bytes));
    ASSERT_NE(p, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u) << bytes;
    std::memset(p, 1, bytes);
    a.free(p, bytes);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(CpuAllocator, SmallTensorsCostLittleAndTheirMemoryIsGivenBack) {
  constexpr size_t count = 100000;
  for (const int64_t numbers : {64, 10, 300}) {
    std::vector<Tensor> tensors;
    tensors.reserve(count);
    empty_cache();
    const size_t before = resident_bytes();
    for (size_t i = 0; i < count; ++i) tensors.push_back(ones({numbers}));
    const size_t data = numbers * 4 <= 64 ? 0 : static_cast<size_t>(numbers) * 4;
    EXPECT_LT(resident_bytes() - before, count * (data + data / 4 + 450)) << numbers;
    // Some of them stay allocated.
    const Tensor first = tensors.front(), last = tensors.back();
    tensors.clear();
    empty_cache();
    EXPECT_LT(resident_bytes(), before + 4 * mib) << numbers;
    EXPECT_EQ(sum(first + last).item<float>(), 2.0f * static_cast<float>(numbers));
  }
}

TEST_F(CpuAllocator, MemoryThatOtherThreadsFreedIsGivenBack) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 50000; ++i) tensors.push_back(ones({64}));
  empty_cache();
  const size_t before = resident_bytes();
  std::thread([&] { tensors.clear(); }).join();
  empty_cache();
  EXPECT_LT(resident_bytes(), before - 20 * mib);
}
#endif

TEST_F(CpuAllocator, CountsRequestedBytes) {
  const MemoryStats before = memory_stats();
  void* small = a.allocate(1000);
  void* large = a.allocate(3 * mib + 5);
  MemoryStats now = memory_stats();
  EXPECT_EQ(now.allocated, before.allocated + 1000 + 3 * mib + 5);
  EXPECT_EQ(now.allocations, before.allocations + 2);
  EXPECT_GE(now.reserved, now.allocated);
  EXPECT_EQ(now.peak_allocated, now.allocated);
  a.free(large, 3 * mib + 5);
  a.free(small, 1000);
  now = memory_stats();
  EXPECT_EQ(now.allocated, before.allocated);
  EXPECT_EQ(now.peak_allocated, before.allocated + 1000 + 3 * mib + 5);
  reset_peak();
  EXPECT_EQ(memory_stats().peak_allocated, before.allocated);
  EXPECT_GT(now.total, 0u);
  EXPECT_LE(now.free, now.total);
}

TEST_F(CpuAllocator, ReusesBlocksOfOneClass) {
  if (!caching) GTEST_SKIP() << "no caching under the address sanitizer";
  for (size_t bytes : {size_t{4000}, 700 * kib, 7 * mib}) {
    void* p = a.allocate(bytes);
    a.free(p, bytes);
    void* again = a.allocate(bytes - 8);
    EXPECT_EQ(again, p) << bytes;
    a.free(again, bytes - 8);
  }
}

TEST_F(CpuAllocator, EmptyCacheReturnsAllMemory) {
  const size_t before = memory_stats().reserved;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(a.allocate(100 * kib));
  void* large = a.allocate(20 * mib);
  for (void* p : blocks) a.free(p, 100 * kib);
  a.free(large, 20 * mib);
  EXPECT_GE(memory_stats().reserved, caching ? before + 20 * mib : before);
  empty_cache();
  EXPECT_EQ(memory_stats().reserved, before);
}

TEST_F(CpuAllocator, EmptyCacheReachesOtherThreads) {
  std::atomic<int> step{0};
  const size_t before = memory_stats().reserved;
  std::thread other([&] {
    void* p = a.allocate(300 * kib);
    a.free(p, 300 * kib);
    step = 1;
    while (step != 2) std::this_thread::yield();
    p = a.allocate(64);  // the next visit
    a.free(p, 64);
    step = 3;
    while (step != 4) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  empty_cache();
  step = 2;
  while (step != 3) std::this_thread::yield();
  EXPECT_LE(memory_stats().reserved, before + 64);
  step = 4;
  other.join();
}

TEST_F(CpuAllocator, LimitRefusesAndIsLifted) {
  const size_t base = allocated();
  set_memory_limit({}, base + 10 * mib);
  EXPECT_EQ(memory_stats().limit, base + 10 * mib);
  void* p = a.allocate(6 * mib);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(a.allocate(6 * mib), nullptr);
  void* q = a.allocate(4 * mib);
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(a.allocate(1), nullptr);
  EXPECT_EQ(allocated(), base + 10 * mib);
  EXPECT_EQ(memory_stats().peak_allocated, base + 10 * mib);
  a.free(q, 4 * mib);
  q = a.allocate(4 * kib);
  EXPECT_NE(q, nullptr);
  a.free(q, 4 * kib);
  set_memory_limit({}, 0);
  EXPECT_EQ(memory_stats().limit, 0u);
  q = a.allocate(60 * mib);
  EXPECT_NE(q, nullptr);
  a.free(q, 60 * mib);
  a.free(p, 6 * mib);
}

TEST_F(CpuAllocator, ImpossibleSizesLeaveNoTrace) {
  const MemoryStats before = memory_stats();
  EXPECT_EQ(a.allocate(size_t{1} << 60), nullptr);
  EXPECT_EQ(a.allocate(~size_t{0}), nullptr);
  EXPECT_EQ(memory_stats().allocated, before.allocated);
  EXPECT_EQ(memory_stats().peak_allocated, before.peak_allocated);
}

TEST_F(CpuAllocator, CacheIsBoundedByThePeak) {
  for (size_t bytes = 32 * mib; bytes < 64 * mib; bytes += 4 * mib) {
    void* p = a.allocate(bytes);
    ASSERT_NE(p, nullptr);
    a.free(p, bytes);
  }
  const MemoryStats now = memory_stats();
  EXPECT_LE(now.reserved, now.peak_allocated + now.peak_allocated / 2 + 64 * mib);
}

TEST_F(CpuAllocator, ThreadsTradeBlocks) {
  const size_t base = allocated(), count = memory_stats().allocations;
  struct Block {
    unsigned char* data;
    size_t bytes;
    unsigned char mark;
  };
  std::mutex mutex;
  std::vector<Block> market;
  constexpr int threads = 4, rounds = 3000;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i) {
      const size_t bytes = size_t{1} << (random() % 12 + 2);
      Block block{static_cast<unsigned char*>(a.allocate(bytes)), bytes, static_cast<unsigned char>(random())};
      std::memset(block.data, block.mark, bytes);
      {
        std::lock_guard lock(mutex);
        market.push_back(block);
        std::swap(market[random() % market.size()], market.back());
        if (market.size() < 32) continue;
        block = market.back();
        market.pop_back();
      }
      for (size_t k = 0; k < block.bytes; k += 37) ASSERT_EQ(block.data[k], block.mark);
      a.free(block.data, block.bytes);
      if (i % 500 == 0) empty_cache();
    }
  };
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i);
  for (std::thread& t : all) t.join();
  for (const Block& block : market) a.free(block.data, block.bytes);
  EXPECT_EQ(allocated(), base);
  EXPECT_EQ(memory_stats().allocations, count + threads * rounds);
}

TEST_F(CpuAllocator, PeakIsExactUnderThreads) {
  constexpr int threads = 4;
  const size_t base = allocated();
  std::mutex mutex;
  std::condition_variable changed;
  int holding = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      void* p = a.allocate(mib / 2);
      std::unique_lock lock(mutex);
      if (++holding == threads) changed.notify_all();
      changed.wait(lock, [&] { return holding == threads; });
      lock.unlock();
      a.free(p, mib / 2);
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(memory_stats().peak_allocated, base + threads * (mib / 2));
}

TEST_F(CpuAllocator, BlocksMayOutliveTheirThread) {
  void* p = nullptr;
  std::thread([&] { p = a.allocate(5000); }).join();
  std::memset(p, 7, 5000);
  a.free(p, 5000);
}

/// Freed after every thread local and most statics are gone.
struct LateBlock {
  void* data = cpu_allocator().allocate(12345);
  ~LateBlock() {
    cpu_allocator().free(data, 12345);
    void* p = cpu_allocator().allocate(100);
    cpu_allocator().free(p, 100);
  }
} late_block;

TEST(AllocatorRegistry, NamesTheMissingDevice) {
  EXPECT_EQ(find_allocator(Device()), &cpu_allocator());
  EXPECT_EQ(find_allocator(Device(DeviceType::hpu, 200)), nullptr);
  EXPECT_THROW(memory_stats(Device(DeviceType::hpu, 200)), DeviceError);
  EXPECT_EQ(memory_stats(Device(DeviceType::meta)).allocated, 0u);
  register_allocator(Device(DeviceType::hpu, 200), &cpu_allocator());
  EXPECT_EQ(find_allocator(Device(DeviceType::hpu, 200)), &cpu_allocator());
  register_allocator(Device(DeviceType::hpu, 200), nullptr);
}

#if !defined(__SANITIZE_THREAD__)
TEST(AllocatorFork, ChildAllocates) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    void* p = cpu_allocator().allocate(3 * mib);
    cpu_allocator().free(p, 3 * mib);
    _exit(p != nullptr ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace weft
