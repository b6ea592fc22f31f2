// Streams and events on every device that is here; the CPU's have nothing to wait for.
#include "device_checks.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <weft/autograd/engine.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using namespace test;
using namespace std::chrono_literals;

/// Work on `stream` waits until this object is destroyed.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    stream.call([open = open_] {
      while (!*open) std::this_thread::sleep_for(100us);
    });
  }
  ~Gate() { *open_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

/// Where each command is waited for, a stream cannot be held.
bool waits_for_each() {
  for (const char* variable : {"WEFT_HPU_SYNC", "WEFT_CUDA_SYNC", "WEFT_STUB_SYNC"}) {
    if (environment(variable) == "1") return true;
  }
  return false;
}
#define NEEDS_QUEUES() \
  if (waits_for_each()) GTEST_SKIP() << "each command is waited for"

DEVICE_TEST(AStreamIsCurrentWhileItsGuardLives) {
  const Stream normal = default_stream(on), one(on), two(on);
  EXPECT_EQ(normal.id(), 0);
  EXPECT_NE(one.id(), two.id());
  EXPECT_EQ(current_stream(on), normal);
  {
    const StreamGuard outer(one);
    EXPECT_EQ(current_stream(on), one);
    {
      const StreamGuard inner(two);
      EXPECT_EQ(current_stream(on), two);
      std::thread([&] { EXPECT_EQ(current_stream(on), normal) << "a thread's stream is its own"; }).join();
      const StreamGuard innermost(normal);
      EXPECT_EQ(current_stream(on), normal);
    }
    EXPECT_EQ(current_stream(on), one);
  }
  EXPECT_EQ(current_stream(on), normal);
  EXPECT_NE(one.native_handle(), nullptr);
}

DEVICE_TEST(StreamsRunBesideEachOther) {
  NEEDS_QUEUES();
  const Stream held(on), free(on);
  const Gate gate(held);
  EXPECT_FALSE(held.query());
  const StreamGuard guard(free);
  const Tensor x = ones({100}, {f32, on}) + 1.0;
  EXPECT_EQ(sum(x).item<float>(), 200) << "it did not wait for the other stream";
  free.synchronize();
  EXPECT_TRUE(free.query());
  EXPECT_FALSE(held.query());
}

DEVICE_TEST(AStreamWaitsForAnEventOfAnother) {
  NEEDS_QUEUES();
  const Stream writer(on), reader(on);
  const Tensor x = zeros({1000}, {f32, on});
  writer.wait_stream(default_stream(on));
  Event written, before;
  EXPECT_TRUE(written.query()) << "never recorded";
  reader.wait_event(before);
  Tensor y;
  {
    const Gate gate(writer);
    {
      const StreamGuard guard(writer);
      x.fill_(3);
    }
    written.record(writer);
    EXPECT_FALSE(written.query());
    reader.wait_event(written);
    const StreamGuard guard(reader);
    y = x * 2.0;
    EXPECT_FALSE(reader.query());
  }
  written.synchronize();
  EXPECT_TRUE(written.query());
  reader.synchronize();
  expect_equal(y, full({1000}, 6, {f32}));
}

DEVICE_TEST(FunctionsOfTheHostRunInTheStreamsOrder) {
  const Stream stream(on);
  const Tensor host = zeros({4}).pin_memory(on);
  std::vector<float> seen;
  const StreamGuard guard(stream);
  for (int i = 0; i < 20; ++i) {
    host.copy_(full({4}, i, {f32, on}), {.non_blocking = true});
    stream.call([&seen, host] { seen.push_back(static_cast<const float*>(host.data_ptr())[3]); });
  }
  stream.synchronize();
  ASSERT_EQ(seen.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], static_cast<float>(i));
}

DEVICE_TEST(CallsOfTwoStreamsDoNotWaitForEachOthersTurn) {
  NEEDS_QUEUES();
  const Stream first(on), second(on);
  std::atomic<bool> ran = false;
  {
    const Gate gate(second);
    first.wait_stream(second);
    first.call([&] { ran = true; });
    second.call([] {});
    EXPECT_FALSE(ran);
  }
  first.synchronize();
  EXPECT_TRUE(ran);
}

DEVICE_TEST(ExceptionsOfFunctionsAreRaisedByTheNextWait) {
  const Stream stream(on);
  stream.call([] { throw std::runtime_error("from the host"); });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  stream.synchronize();
  stream.call([] { throw std::runtime_error("from the host"); });
  EXPECT_THROW(synchronize(on), std::runtime_error);
  EXPECT_THROW(stream.call({}), ValueError);
}

DEVICE_TEST(AnIndexOutOfRangeIsRaisedByItsOwnStream) {
  const Stream wrong(on), right(on);
  const Tensor x = ones({3}, {f32, on}), index = full({2}, 7, {i64, on});
  synchronize(on);
  {
    const StreamGuard guard(wrong);
    index_select(x, 0, index);
  }
  right.synchronize();
  default_stream(on).synchronize();
  try {
    wrong.synchronize();
    FAIL() << "raised nothing";
  } catch (const IndexError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("index_select"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("stream_test.cpp"));
  }
  wrong.synchronize();
}

DEVICE_TEST(EventsTellTheTimeBetweenThem) {
  const Stream stream(on);
  Event start({.timing = true}), end({.timing = true}), silent;
  start.record(stream);
  stream.call([] { std::this_thread::sleep_for(30ms); });
  end.record(stream);
  const double elapsed = start.elapsed_time(end);
  EXPECT_GE(elapsed, 25);
  EXPECT_LT(elapsed, 20'000);
  silent.record(stream);
  EXPECT_THROW(start.elapsed_time(silent), ValueError);
  EXPECT_THROW(start.elapsed_time(Event({.timing = true})), ValueError);
  Event host({.timing = true});
  host.record(default_stream(Device()));
  EXPECT_THROW(start.elapsed_time(host), ValueError);
}

DEVICE_TEST(MemoryThatAnotherStreamUsesIsNotReusedBeforeItIsDone) {
  NEEDS_QUEUES();
  const Stream side(on);
  Tensor x = full({1000}, 5, {f32, on});
  side.wait_stream(default_stream(on));
  Tensor copy;
  {
    const Gate gate(side);
    {
      const StreamGuard guard(side);
      copy = x + 0.0;
    }
    const void* const address = x.data_ptr();
    x = Tensor();
    for (int i = 0; i < 4; ++i) {
      const Tensor other = full({1000}, 9, {f32, on});
      EXPECT_NE(other.data_ptr(), address) << "the side stream has not read it yet";
      default_stream(on).synchronize();
    }
  }
  side.synchronize();
  expect_equal(copy, full({1000}, 5, {f32}));
}

DEVICE_TEST(MemoryOfOneStreamIsReusedAtOnceByIt) {
  NEEDS_QUEUES();
  const Stream side(on);
  const StreamGuard guard(side);
  Tensor x = empty({100'000}, {f32, on});
  const void* const address = x.data_ptr();
  x = Tensor();
  EXPECT_EQ(empty({100'000}, {f32, on}).data_ptr(), address);
}

DEVICE_TEST(ManySmallOpsOfFourThreadsOnFourStreams) {
  const int rounds = 640;  // of four ops
  const Tensor shared = arange(0, 50).to(f32).to(on);
  synchronize(on);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Stream stream(on);
      const StreamGuard guard(stream);
      Tensor x = zeros({50}, {f32, on});
      for (int i = 0; i < rounds; ++i) {
        x = x + shared;  // what it was is dropped before it is read
        x = x * 1.0;
        x += 1.0;
        x = x - 1.0;
        if (i % 100 == 0) {
          EXPECT_EQ(x[1].item<float>(), static_cast<float>(i + 1));
        }
      }
      expect_equal(x, arange(0, 50).to(f32) * static_cast<double>(rounds));
      EXPECT_EQ(current_stream(on), stream) << t;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

DEVICE_TEST(PinnedTensorsTravelWithoutBlocking) {
  NEEDS_QUEUES();
  const Tensor plain = arange(0, 300'000).to(f32);
  EXPECT_FALSE(plain.is_pinned());
  const Tensor pinned = plain.pin_memory(on);
  EXPECT_TRUE(pinned.is_pinned() && pinned.is_pinned(on));
  EXPECT_THROW(plain.pin_memory(Device()), DeviceError);
  EXPECT_TRUE(pinned.pin_memory(on).impl() == pinned.impl());
  expect_equal(pinned, plain);
  const Stream stream(on);
  const StreamGuard guard(stream);
  Tensor there, back;
  {
    const Gate gate(stream);
    there = pinned.to(on, {.non_blocking = true});
    back = (there + 1.0).to(Device(), {.non_blocking = true});
    EXPECT_FALSE(stream.query());
  }
  stream.synchronize();
  EXPECT_TRUE(back.is_pinned(on));
  expect_equal(back, plain + 1.0);
  expect_equal(plain.to(on, {.non_blocking = true}), plain);
  expect_equal(there.transpose(0, 0).slice(0, {}, {}, 3).to(Device(), {.non_blocking = false}),
               plain.slice(0, {}, {}, 3));
  EXPECT_EQ(zeros({0}).to(on, {.non_blocking = true}).numel(), 0);
}

DEVICE_TEST(PinnedMemoryIsNotReusedBeforeItsCopyIsDone) {
  NEEDS_QUEUES();
  const Stream stream(on);
  Tensor source = full({5000}, 2, {f32}).pin_memory(on);
  const void* const address = source.data_ptr();
  Tensor there;
  {
    const Gate gate(stream);
    const StreamGuard guard(stream);
    there = source.to(on, {.non_blocking = true});
    source = Tensor();
    EXPECT_NE(full({5000}, 8, {f32}).pin_memory(on).data_ptr(), address);
  }
  stream.synchronize();
  expect_equal(there, full({5000}, 2, {f32}));
}

DEVICE_TEST(BackwardRunsOnTheStreamsOfItsOps) {
  const Stream side(on);
  const auto gradient_of = [&](const Tensor& w, bool on_side) {
    Tensor loss;
    if (on_side) {
      side.wait_stream(current_stream(w.device()));
      const StreamGuard guard(side);
      loss = sum(matmul(w, w) * 2.0);
    } else {
      loss = sum(matmul(w, w) * 2.0);
    }
    if (on_side) current_stream(w.device()).wait_stream(side);
    (loss * sum(w)).backward();
    return w.grad();
  };
  const Tensor host = arange(0, 16).to(f32).view({4, 4}) * 0.25;
  const Tensor expected = gradient_of(host.clone().requires_grad_(), false);
  for (int i = 0; i < 20; ++i) {
    expect_near(gradient_of(host.to(on).requires_grad_(), true), expected);
  }
  EXPECT_EQ(current_stream(on), default_stream(on));
}

DEVICE_TEST(ADroppedStreamFinishesItsWork) {
  Tensor x;
  {
    const Stream stream(on);
    const StreamGuard guard(stream);
    x = ones({1000}, {f32, on}) * 3.0;
  }
  synchronize(on);
  expect_equal(x, full({1000}, 3, {f32}));
}

DEVICES_TEST(StreamsOfTwoDevicesWaitForEachOther) {
  NEEDS_QUEUES();
  if (device_count(on.type) < 2) GTEST_SKIP() << "there is one device";
  const Device other(on.type, 1);
  const Stream here(on), there(other);
  const StreamGuard guard_here(here), guard_there(there);
  Tensor x, y;
  {
    const Gate gate(here);
    x = ones({100}, {f32, on}) + 1.0;
    there.wait_stream(here);
    y = ones({100}, {f32, other}) + 1.0;
    EXPECT_FALSE(there.query());
  }
  expect_equal(x.to(other) * y, full({100}, 4, {f32}));
  here.synchronize();
}

TEST(CpuStream, HasNothingToWaitFor) {
  const Device cpu;
  const Stream stream(cpu);
  const StreamGuard guard(stream);
  EXPECT_EQ(current_stream(cpu).id(), 0);
  EXPECT_TRUE(stream.query());
  bool ran = false;
  stream.call([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_THROW(stream.call([] { throw std::runtime_error("here"); }), std::runtime_error);
  Event start({.timing = true}), end({.timing = true});
  start.record(stream);
  std::this_thread::sleep_for(2ms);
  end.record(stream);
  EXPECT_GE(start.elapsed_time(end), 1.9);
  stream.wait_event(end);
  stream.synchronize();
  EXPECT_EQ(stream.native_handle(), nullptr);
}

TEST(CpuStream, OfADeviceThatIsNotThereIsADeviceError) {
  EXPECT_THROW(Stream(Device(DeviceType::hpu, 99)), DeviceError);
  EXPECT_THROW(current_stream(Device(DeviceType::cuda, 99)), DeviceError);
}

}  // namespace
}  // namespace weft
