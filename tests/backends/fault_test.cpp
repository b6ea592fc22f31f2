// Faults of devices: failing drivers, exhausted memory, forked processes.
#include "device_checks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include <weft/autograd/engine.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/threads.hpp>

namespace weft {
namespace {

using namespace test;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const Device hpu(DeviceType::hpu), cuda(DeviceType::cuda);

// ---- drivers --------------------------------------------------------------------------------------------------------

/// Run where the driver has a fault that WEFT_TEST_FAULT names as the reason must.
void expect_no_devices(Device absent) {
  const std::string reason = environment("WEFT_TEST_FAULT");
  if (reason.empty()) GTEST_SKIP() << "needs a driver that fails";
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(device_count(absent.type), 0);
    EXPECT_THAT(why_no_device(absent), HasSubstr(reason));
  }
  try {
    zeros({2}, {f32, absent});
    FAIL() << "raised nothing";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no device " + absent.name()));
  }
  expect_equal(ones({3}) + 1.0, full({3}, 2, f32));
}
TEST(HpuFault, ADriverThatFailsMeansNoDevicesAndTheReason) { expect_no_devices(hpu); }
TEST(CudaFault, ADriverThatFailsMeansNoDevicesAndTheReason) { expect_no_devices(cuda); }

TEST(HpuVersion, ADriverOfAnotherMinorVersionServes) {
  if (environment("WEFT_ZE_API").empty()) GTEST_SKIP() << "needs WEFT_ZE_API";
  ASSERT_EQ(device_count(DeviceType::hpu), 1) << why_no_device(hpu);
  expect_equal(ones({3}, {f32, hpu}) + 1.0, full({3}, 2, f32));
}

// ---- a device that is lost in the middle of a step ------------------------------------------------------------------

void expect_cpu_serves_after_loss(Device on, const char* reason) {
  ASSERT_EQ(device_count(on.type), 1);
  const Tensor host = ones({4, 4}).requires_grad_(), w = host.detach().to(on).requires_grad_();
  const auto step = [](const Tensor& x) {
    Tensor loss = sum(matmul(x, x) * 2.0);
    loss.backward();
    return loss;
  };
  try {
    for (int i = 0; i < 100; ++i) step(w).item<float>();
    FAIL() << "raised nothing";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr(reason));
    EXPECT_THAT(error.what(), HasSubstr("fault_test.cpp:"));
  }
  EXPECT_THROW(step(w).item<float>(), DeviceError);
  EXPECT_THROW(Stream(on).synchronize(), DeviceError);
  EXPECT_EQ(step(host).item<float>(), 128);
  EXPECT_TRUE(host.grad().defined());
}
TEST(HpuLostInAStep, LeavesTheCpuAndItsTensorsUsable) {
  if (environment("WEFT_ZE_LOSE_AFTER").empty()) GTEST_SKIP() << "needs WEFT_ZE_LOSE_AFTER";
  expect_cpu_serves_after_loss(hpu, "the device was lost");
}
TEST(CudaLostInAStep, LeavesTheCpuAndItsTensorsUsable) {
  if (environment("WEFT_TEST_CUDA_FAIL").empty()) GTEST_SKIP() << "needs WEFT_TEST_CUDA_FAIL";
  expect_cpu_serves_after_loss(cuda, "an illegal memory access was encountered");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

constexpr int64_t mebibyte = int64_t{1} << 20;

std::string out_of_memory_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const OutOfMemoryError& error) {
    return error.what();
  }
  return "no OutOfMemoryError";
}

DEVICE_TEST(OutOfMemoryErrorsListTheLargestTensors) {
  const Tensor large = ones({3 * mebibyte}, {u8, on}), larger = large.to(i16), small = zeros({100}, {u8, on});
  synchronize(on);
  set_memory_limit(on, memory_stats(on).allocated + static_cast<size_t>(mebibyte));
  const std::string text = out_of_memory_text([&] { larger * 2; });
  set_memory_limit(on, 0);
  EXPECT_THAT(text, ::testing::StartsWith("[mul] no 6291456 bytes on " + on.name()));
  EXPECT_THAT(text, ContainsRegex("[0-9]+ allocated, [0-9]+ reserved, [0-9]+ free, limit [0-9]+; the largest: "
                                  "6291456 of to at .*fault_test.cpp:[0-9]+, 3145728 of ones at .*fault_test.cpp:"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

DEVICE_TEST(OutOfMemoryInBackwardLeavesTapeAndGradients) {
  const Tensor x = full({mebibyte}, 2, {f32, on}).requires_grad_(), w = ones({}, {f32, on}).requires_grad_();
  x.set_grad(ones({mebibyte}, {f32, on}));
  const Tensor loss = sum(exp(x * w) * x);
  synchronize(on);
  set_memory_limit(on, memory_stats(on).allocated + static_cast<size_t>(mebibyte));
  const std::string text = out_of_memory_text([&] { loss.backward({.retain_graph = true}); });
  const Tensor next = ones({100}, {f32, on}) + 1.0;
  set_memory_limit(on, 0);
  EXPECT_THAT(text, HasSubstr("no 4194304 bytes on " + on.name()));
  EXPECT_THAT(text, HasSubstr("fault_test.cpp:")) << "the line of the forward call";
  expect_equal(next, full({100}, 2, f32));
  expect_equal(x.grad(), ones({mebibyte}));
  EXPECT_FALSE(w.grad().defined());
  loss.backward();
  expect_near(x.grad().slice(0, 0, 3), full({3}, 1 + 3 * std::exp(2.0), f32));
}

DEVICE_TEST(ReleasesCachedMemoryBeforeRaisingOutOfMemory) {
  const auto total = static_cast<int64_t>(memory_stats(on).total);
  if (total > 256 * mebibyte) GTEST_SKIP() << "the device has too much memory for this";
  for (const int64_t parts : {2, 3, 5}) {  // blocks of each size are cached when the next size is asked for
    for (int i = 0; i < 3; ++i) EXPECT_EQ(zeros({total / parts / 2}, {u8, on}).numel(), total / parts / 2);
  }
}

// ---- fork -----------------------------------------------------------------------------------------------------------

#if defined(__SANITIZE_ADDRESS__)
#define SKIP_WHERE_LOCKS_OUTLIVE_FORK() \
  GTEST_SKIP() << "a thread may hold the address sanitizer's own locks, which its child inherits"
#else
#define SKIP_WHERE_LOCKS_OUTLIVE_FORK() static_cast<void>(0)
#endif

/// The exit status of `body` in a child; 99 where it took longer than 20 seconds.
int status_in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());
  for (int i = 0; i < 2000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 99;
}

/// 0 where `call` raises the DeviceError that tells of the fork.
template <class F>
int refused(F&& call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return std::string(error.what()).find("belongs to the process that forked this one") != std::string::npos ? 0 : 2;
  }
  return 1;
}

DEVICE_TEST(AForkedChildRaisesAndComputesOnTheCpu) {
  SKIP_WHERE_LOCKS_OUTLIVE_FORK();
  Tensor x = ones({1000}, {f32, on}) + 1.0;
  auto side = std::make_unique<Stream>(on);
  side->wait_stream(current_stream(on));
  Event event, start({.timing = true}), end({.timing = true});
  {
    const StreamGuard guard(*side);
    start.record(*side);
    x = x * 2.0;
    end.record(*side);
    event.record(*side);
  }
  side->call([] {});
  const int status = status_in_child([&] {
    int wrong = refused([&] { x + 1.0; });
    wrong += refused([&] { (void)x.to(Device()); });
    wrong += refused([&] { ones({3}, {f32, on}); });
    wrong += refused([&] { ones({3}).to(on); });
    wrong += refused([&] { synchronize(on); });
    wrong += refused([&] { side->synchronize(); });
    wrong += refused([&] { event.synchronize(); });
    wrong += refused([&] { start.elapsed_time(end); });
    wrong += refused([&] { memory_stats(on); });
    wrong += refused([&] { Stream{on}; });
    wrong += refused([&] { ones({3}).pin_memory(); });
    set_num_threads(2);
    const Tensor big = ones({1000, 1000});
    if (sum(matmul(big, big)).item<float>() != 1e9f) wrong += 10;
    x = Tensor();
    side.reset();
    event = Event();
    return wrong;
  });
  EXPECT_EQ(status, 0);
  side->synchronize();
  expect_equal(x, full({1000}, 4, f32));
}

DEVICE_TEST(AChildForkedWhileThreadsUseTheDeviceDoesNotHang) {
  SKIP_WHERE_LOCKS_OUTLIVE_FORK();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const Stream stream(on);
      const StreamGuard guard(stream);
      while (!stop) sum(ones({1000}, {f32, on}) + 1.0).item<float>();
    });
  }
  Tensor x = ones({10}, {f32, on});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(status_in_child([&] {
                const int wrong = refused([&] { x + 1.0; });
                x = Tensor();
                return wrong + (sum(ones({100'000})).item<float>() == 100'000 ? 0 : 10);
              }),
              0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
