// Compiled programs are found again by all that they depend on, and outlive the work that uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "message_of.hpp"

#include <weft/backends/queued/recipe_cache.hpp>
#include <weft/ops/create.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/tensor.hpp>

namespace {
thread_local int allocations = 0;
}

// Not inlined: the compiler would take malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

std::string key_of(const char* op, const std::vector<Tensor>& inputs) {
  RecipeKey key(op, Device());
  for (const Tensor& input : inputs) key.input(input.raw_view());
  return std::string(key.bytes());
}
Tensor of(const Dims& shape, DType dtype = DType::f32) { return zeros(shape, {dtype}); }

/// Work that is done when the test says so.
class HandQueue : public Queue {
 public:
  explicit HandQueue(int number = 1) : Queue(Device(), number) {}

  Shared<Fence> record(bool) override {
    if (lost) throw DeviceError("lost");
    return Shared<HandFence>::make(*this, ++queued);
  }
  void wait(const Shared<Fence>&) override {}
  void call(Callback<void()>) override {}
  bool idle() override { return queued == done; }
  void synchronize() override { done = queued; }
  void* native_handle() override { return nullptr; }

  int queued = 0;
  std::atomic<int> done = 0;
  std::atomic<bool> lost = false;

 private:
  struct HandFence : Fence {
    HandFence(HandQueue& q, int n) : of(q), number(n) {}
    Queue& queue() const override { return of; }
    bool reached() override {
      if (of.lost) throw DeviceError("lost");
      return of.done >= number;
    }
    void wait() override { of.done = number; }
    double milliseconds_since(const Fence&) const override { return 0; }
    HandQueue& of;
    int number;
  };
};

struct Program {
  explicit Program(int v, std::atomic<int>* c = nullptr) : value(v), alive(c) {
    if (alive != nullptr) ++*alive;
  }
  Program(const Program&) = delete;
  ~Program() {
    if (alive != nullptr) --*alive;
  }
  int value;
  std::atomic<int>* alive;
};
using Programs = RecipeCache<Program>;

Shared<Program> program(int value, std::atomic<int>* alive = nullptr) { return Shared<Program>::make(value, alive); }
RecipeHandle<Program> find(Programs& cache, int n, std::atomic<int>* alive = nullptr) {
  RecipeKey key("op", Device());
  key.attribute(n);
  return cache.find(key, [&] { return program(n, alive); });
}

// ---- keys
// ------------------------------------------------------------------------------------------------------------

TEST(RecipeKey, ContainsRanksAndSizes) {
  EXPECT_NE(key_of("concat", {of({2, 3}), of({4})}), key_of("concat", {of({2}), of({3, 4})}));
  EXPECT_NE(key_of("neg", {of({})}), key_of("neg", {of({1})}));
  EXPECT_NE(key_of("neg", {of({2, 3})}), key_of("neg", {of({3, 2})}));
  EXPECT_NE(key_of("neg", {of({0})}), key_of("neg", {of({0, 0})}));
  EXPECT_EQ(key_of("concat", {of({2, 3}), of({4})}), key_of("concat", {of({2, 3}), of({4})}));
}

TEST(RecipeKey, OneTensorTwiceIsNotTwoTensors) {
  const Tensor x = of({64}), y = of({64}), z = of({64});
  EXPECT_NE(key_of("add", {x, y}), key_of("add", {x, x}));
  EXPECT_EQ(key_of("add", {x, y}), key_of("add", {y, z}));
  EXPECT_EQ(key_of("add", {x, x}), key_of("add", {y, y}));
  EXPECT_NE(key_of("f", {x, y, x}), key_of("f", {x, y, y}));
  EXPECT_EQ(key_of("f", {of({0}), of({0})}), key_of("f", {x.slice(0, 0, 0), x.slice(0, 0, 0)}))
      << "nothing shares no address";

  RecipeKey fresh("add", Device()), over("add", Device());
  fresh.input(x.raw_view()).output(y.raw_view());
  over.input(x.raw_view()).output(x.raw_view());
  EXPECT_NE(fresh.bytes(), over.bytes());
}

TEST(RecipeKey, TheTypeOfTheIndexCounts) {
  const Tensor x = of({8});
  EXPECT_NE(key_of("gather", {x, of({3}, DType::i32)}), key_of("gather", {x, of({3}, DType::i64)}));
}

TEST(RecipeKey, StridesCountWhereTheyAreNotDense) {
  const Tensor x = of({4, 4});
  EXPECT_NE(key_of("f", {x}), key_of("f", {x.t()}));
  EXPECT_NE(key_of("f", {of({4}).expand({4, 4})}), key_of("f", {x}));
  const Tensor wide = of({8, 8});
  EXPECT_NE(key_of("f", {wide.slice(1, 0, 4)}), key_of("f", {wide.slice(1, 0, 8, 2)}));
  View one = of({2, 1, 2}).transpose(0, 2).raw_view(), other = one;
  one.layout.contiguous = other.layout.contiguous = 0;
  other.layout.strides[1] = 1000;
  EXPECT_EQ(RecipeKey("f", Device()).input(one).bytes(), RecipeKey("f", Device()).input(other).bytes());
}

TEST(RecipeKey, EachFieldChangesTheKey) {
  const auto with = [](auto&&... values) {
    RecipeKey key("op", Device());
    (key.attribute(values), ...);
    return std::string(key.bytes());
  };
  EXPECT_NE(with(1, 23), with(12, 3));
  EXPECT_NE(with("ab", "c"), with("a", "bc"));
  EXPECT_NE(with(1), with(1.0));
  EXPECT_NE(with(true), with(1));
  EXPECT_NE(with(0.0), with(-0.0));
  EXPECT_NE(with(DType::f32), with(DType::f64));
  EXPECT_NE(with(Dims{1, 2}, Dims{3}), with(Dims{1}, Dims{2, 3}));
  EXPECT_NE(with(std::optional<int64_t>()), with(std::optional<int64_t>(0)));
  EXPECT_EQ(with(std::optional<int64_t>(7)), with(int64_t{7}));
  EXPECT_EQ(with(2.5f), with(2.5));
}

TEST(RecipeKey, NameDeviceFlagsAndInPlaceCount) {
  const auto bytes = [](const char* op, Device on, const char* flags) {
    return std::string(RecipeKey(op, on, flags).bytes());
  };
  EXPECT_NE(bytes("ab", {}, "c"), bytes("a", {}, "bc"));
  EXPECT_NE(bytes("a", {}, ""), bytes("a", {}, "-O2"));
  EXPECT_NE(bytes("a", Device(DeviceType::cuda), ""), bytes("a", Device(DeviceType::hpu), ""));
  EXPECT_NE(bytes("a", Device(DeviceType::hpu, 0), ""), bytes("a", Device(DeviceType::hpu, 1), ""));
  RecipeKey plain("relu", Device()), in_place("relu", Device());
  in_place.in_place();
  EXPECT_NE(plain.bytes(), in_place.bytes());
}

TEST(RecipeKey, AnAbsentOperandIsNone) {
  const Tensor x = of({2}), b = of({2});
  RecipeKey without("f", Device()), with("f", Device());
  without.input(x.raw_view()).absent().input(b.raw_view());
  with.input(x.raw_view()).input(b.raw_view());
  EXPECT_NE(without.bytes(), with.bytes());
}

TEST(RecipeKey, TakesAnyNumberOfOperands) {
  std::vector<Tensor> many;
  for (int i = 0; i < 200; ++i) many.push_back(of({i, 2, 3, 4, 5}));
  const std::string once = key_of("concat", many);
  EXPECT_EQ(once, key_of("concat", many));
  many[199] = many[150];
  EXPECT_NE(once, key_of("concat", many));
  many[199] = of({150, 2, 3, 4, 5});
  EXPECT_NE(once, key_of("concat", many));
}

TEST(RecipeKey, IsReadByPeople) {
  const Tensor x = of({2, 3});
  RecipeKey key("add", Device(DeviceType::hpu), "-O2");
  key.input(x.raw_view()).input(x.raw_view()).absent().attribute(0.5).attribute("sum").attribute(Dims{1, 2});
  key.attribute(DType::bf16).attribute(true).attribute(uint64_t{1} << 63).in_place();
  key.output(of({3, 2}).t().raw_view());
  EXPECT_EQ(key.text(),
            "add(float32[2, 3], same as 0: float32[2, 3], none, 0.5, \"sum\", [1, 2], bfloat16, 1, "
            "9223372036854775808, in place) "
            "-> float32[2, 3] in steps of [4, 8] bytes on hpu:0 with -O2");
}

// ---- the cache
// -------------------------------------------------------------------------------------------------------

TEST(RecipeCache, CompilesOnceAndCounts) {
  Programs cache;
  for (int round = 0; round < 3; ++round) {
    for (int n = 0; n < 5; ++n) EXPECT_EQ(find(cache, n)->value, n);
  }
  const RecipeStats s = cache.stats();
  EXPECT_EQ(s.compiles, 5u);
  EXPECT_EQ(s.misses, 5u);
  EXPECT_EQ(s.hits, 10u);
  EXPECT_EQ(s.evictions, 0u);
  EXPECT_EQ(cache.size(), 5u);
}

TEST(RecipeCache, KeepsRecentlyUsedRecipes) {
  Programs cache(2);
  find(cache, 1), find(cache, 2), find(cache, 1), find(cache, 3);
  EXPECT_EQ(cache.stats().evictions, 1u);
  find(cache, 1);
  EXPECT_EQ(cache.stats().compiles, 3u) << "1 was used after 2";
  find(cache, 2);
  EXPECT_EQ(cache.stats().compiles, 4u);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(RecipeCache, CapacityComesFromTheEnvironment) {
  ASSERT_EQ(unsetenv("WEFT_RECIPE_CACHE"), 0);
  EXPECT_EQ(default_recipe_capacity(), 1024u);
  for (const auto& [text, capacity] :
       std::vector<std::pair<const char*, size_t>>{{"7", 7}, {"0", 0}, {"", 1024}, {"-1", 1024}, {"many", 1024}}) {
    ASSERT_EQ(setenv("WEFT_RECIPE_CACHE", text, 1), 0);
    EXPECT_EQ(default_recipe_capacity(), capacity) << text;
  }
  ASSERT_EQ(setenv("WEFT_RECIPE_CACHE", "3", 1), 0);
  Programs cache;
  for (int n = 0; n < 10; ++n) find(cache, n);
  EXPECT_EQ(cache.size(), 3u);
  unsetenv("WEFT_RECIPE_CACHE");
}

TEST(RecipeCache, WithoutCapacityEveryCallCompiles) {
  Programs cache(0);
  std::atomic<int> alive = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(find(cache, 1, &alive)->value, 1);
  EXPECT_EQ(cache.stats().compiles, 3u);
  cache.clear();
  EXPECT_EQ(alive, 0);
}

TEST(RecipeCache, AHitAllocatesNothing) {
  Programs cache;
  HandQueue queue;
  const Tensor x = of({4, 4, 4, 4}), index = of({7}, DType::i64);
  const View transposed = x.transpose(0, 1).raw_view();
  const auto call = [&] {
    RecipeKey key("gather", Device(), "-O2 -some-flags");
    key.input(x.raw_view()).input(index.raw_view()).input(transposed).attribute(1).attribute(Dims{1, 2, 3});
    cache.find(key, [] { return program(1); }).used_on(queue);
  };
  call();
  const int before = allocations;
  for (int i = 0; i < 100; ++i) call();
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(cache.stats().hits, 100u);
}

TEST(RecipeCache, ThreadsThatMissTogetherCompileOnce) {
  Programs cache;
  std::atomic<int> compiled = 0, waiting = 0;
  std::vector<std::thread> threads;
  std::vector<Program*> found(8);
  for (size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&, t] {
      ++waiting;
      const RecipeKey key("slow", Device());
      const auto handle = cache.find(key, [&] {
        ++compiled;
        while (waiting < 8 || cache.stats().misses < 8) std::this_thread::sleep_for(1ms);
        return program(5);
      });
      EXPECT_EQ(handle->value, 5);
      found[t] = handle.get();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(cache.stats().compiles, 1u);
  EXPECT_EQ(cache.stats().misses, 8u);
  for (Program* p : found) EXPECT_EQ(p, found[0]);
}

TEST(RecipeCache, AFailureIsReportedAndNotKept) {
  Programs cache;
  const Tensor x = of({2, 3});
  RecipeKey key("softplus", Device());
  key.input(x.raw_view());
  const CallScope call("softplus");
  const auto fails = [&]() -> Shared<Program> { throw std::runtime_error("no register is left\nat line 3"); };
  const std::string message = message_of<DeviceError>([&] { cache.find(key, fails); });
  EXPECT_THAT(message, AllOf(HasSubstr("[softplus]"), HasSubstr("softplus(float32[2, 3]) on cpu does not compile"),
                             HasSubstr("no register is left at line 3")));
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.find(key, [] { return program(3); })->value, 3) << "the next call compiles again";
  EXPECT_EQ(cache.stats().compiles, 2u);
}

TEST(RecipeCache, RunningOutOfMemoryPassesAsItIs) {
  Programs cache;
  const RecipeKey key("op", Device());
  EXPECT_THROW(cache.find(key, []() -> Shared<Program> { throw OutOfMemoryError("full", {}, 1, 2, 3, 4, 5); }),
               OutOfMemoryError);
  EXPECT_THROW(cache.find(key, []() -> Shared<Program> { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(cache.find(key, [] { return program(1); })->value, 1);
}

TEST(RecipeCache, AFailureReachesAllThatWait) {
  Programs cache;
  std::atomic<int> failed = 0, compiled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const RecipeKey key("bad", Device());
      try {
        cache.find(key, [&]() -> Shared<Program> {
          ++compiled;
          while (cache.stats().misses < 4) std::this_thread::sleep_for(1ms);
          throw std::runtime_error("no");
        });
      } catch (const DeviceError&) {
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(compiled, 1);
}

TEST(RecipeCache, OneThatIsEvictedLivesUntilItsLastLaunchIsDone) {
  Programs cache(1);
  HandQueue queue;
  std::atomic<int> alive = 0;
  find(cache, 1, &alive).used_on(queue);
  find(cache, 2).used_on(queue);
  EXPECT_EQ(alive, 1) << "its launch has not run";
  find(cache, 3).used_on(queue);
  EXPECT_EQ(alive, 1);
  queue.done = 2;  // past the marks of 1 and 2
  find(cache, 4);
  EXPECT_EQ(alive, 0);
}

TEST(RecipeCache, EachQueueThatUsedItIsWaitedFor) {
  Programs cache(1);
  HandQueue one(1), two(2);
  std::atomic<int> alive = 0;
  {
    const auto handle = find(cache, 1, &alive);
    handle.used_on(one), handle.used_on(two), handle.used_on(one);
  }
  find(cache, 2);
  one.done = 100;
  find(cache, 3);
  EXPECT_EQ(alive, 1);
  two.done = 100;
  find(cache, 4);
  EXPECT_EQ(alive, 0);
}

TEST(RecipeCache, AHandleKeepsItAndMayStillLaunchAfterEviction) {
  Programs cache(1);
  HandQueue queue;
  std::atomic<int> alive = 0;
  {
    const auto handle = find(cache, 1, &alive);
    find(cache, 2);
    find(cache, 3);
    EXPECT_EQ(handle->value, 1);
    handle.used_on(queue);
  }
  find(cache, 4);
  EXPECT_EQ(alive, 1) << "used on the queue after it was evicted";
  queue.synchronize();
  find(cache, 5);
  EXPECT_EQ(alive, 0);
}

TEST(RecipeCache, ClearingAndTheEndWaitForTheQueues) {
  HandQueue queue;
  std::atomic<int> alive = 0;
  {
    Programs cache;
    find(cache, 1, &alive).used_on(queue);
    cache.clear();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(queue.done, 1);
    EXPECT_EQ(cache.size(), 0u);
    find(cache, 1, &alive).used_on(queue);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(queue.done, 2);
}

TEST(RecipeCache, AQueueThatFailedHoldsNothing) {
  Programs cache(1);
  HandQueue before, later;
  std::atomic<int> alive = 0;
  find(cache, 1, &alive).used_on(before);
  before.lost = true;
  find(cache, 2, &alive).used_on(later);
  find(cache, 3);
  EXPECT_EQ(alive, 1) << "1 is gone, 2 has a mark";
  later.lost = true;
  find(cache, 4);
  EXPECT_EQ(alive, 0);
}

TEST(RecipeCache, ManyThreadsAndFewPlaces) {
  std::atomic<int> alive = 0;
  {
    Programs cache(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        HandQueue queue(t + 1);
        for (int i = 0; i < 2000; ++i) {
          const int n = (i * 7 + t * 3) % 11;
          const auto handle = find(cache, n, &alive);
          ASSERT_EQ(handle->value, n);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(cache.size(), 4u);
    const RecipeStats s = cache.stats();
    EXPECT_EQ(s.hits + s.misses, 8000u);
    EXPECT_EQ(s.compiles - s.evictions, cache.size());
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace weft
