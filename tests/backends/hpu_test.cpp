// Modes of the HPU test driver. CTest repeats these and the device tests with a hostile driver, several devices, little
// memory, failures and no driver. Each suite checks its requirements and is skipped otherwise.
#include "device_checks.hpp"

#include <string>

#include <message_of.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

const Device hpu(DeviceType::hpu);

class HpuMemory : public OnDevice<DeviceType::hpu> {};

TEST_F(HpuMemory, ExhaustionRaisesAndTheDeviceStaysUsable) {
  if (memory_stats(hpu).total > (size_t{1} << 30)) GTEST_SKIP() << "needs WEFT_ZE_MEM_MB=64";
  EXPECT_THROW(zeros({100 << 20}, {u8, hpu}), OutOfMemoryError);
  for (int i = 0; i < 10; ++i) {  // what is cached is given back for blocks of other sizes
    expect_equal(sum(ones({(10 + i) << 18}, {f32, hpu})), full({}, (10 + i) << 18, {f32}));
  }
}

// Run in a process of its own, where nothing has asked for the device yet.
TEST(HpuLimit, HoldsFromBeforeTheFirstUse) {
  try {
    set_memory_limit(hpu, 1 << 20);
  } catch (const DeviceError&) {
    GTEST_SKIP() << "there is no HPU";
  }
  EXPECT_EQ(memory_stats(hpu).limit, size_t{1} << 20);
  const std::string text = message_of<OutOfMemoryError>([] { zeros({2 << 20}, {u8, hpu}); });
  EXPECT_NE(text.find("no 2097152 bytes on hpu:0"), std::string::npos) << text;
  EXPECT_NE(text.find(" free, limit 1048576"), std::string::npos) << text;
  expect_equal(zeros({100}, {u8, hpu}), zeros({100}, u8));
  set_memory_limit(hpu, 0);
}

TEST(HpuTiny, ErrorsNameRequestedAndFreeMemory) {
  if (environment("WEFT_ZE_MEM_MB") != "2") GTEST_SKIP() << "needs WEFT_ZE_MEM_MB=2";
  const std::string text = message_of<OutOfMemoryError>([] { zeros({10}).to(hpu); });
  EXPECT_NE(text.find("no 4194304 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("the device has 2097152 bytes"), std::string::npos) << text;
  EXPECT_EQ(zeros({10}).numel(), 10);
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

/// With a thread that launches, the op that fails has returned long before.
TEST_F(HpuLost, ALaunchThatIsRefusedLaterNamesItsOpAndLine) {
  if (environment("WEFT_ZE_LOSE_AFTER").empty()) GTEST_SKIP() << "needs WEFT_ZE_LOSE_AFTER";
  if (environment("WEFT_HPU_WORKER").empty()) GTEST_SKIP() << "needs WEFT_HPU_WORKER";
  std::string message;
  try {
    const Tensor x = ones({10}, {f32, hpu});
    for (int i = 0; i < 100; ++i) expm1(x);
    message = message_of<DeviceError>([] { current_stream(hpu).synchronize(); });
  } catch (const DeviceError& e) {  // the device was lost before all of them were given
    message = e.what();
  }
  EXPECT_THAT(message, AllOf(HasSubstr("lost"), HasSubstr("expm1"), HasSubstr("hpu_test.cpp:")));
}

/// A kind of device that is not here.
void expect_absent(Device absent) {
  EXPECT_EQ(find_backend(absent.type), nullptr);
  EXPECT_THROW(zeros({2}, {f32, absent}), DeviceError);
  EXPECT_THROW(zeros({2}).to(absent), DeviceError);
  EXPECT_THROW(synchronize(absent), DeviceError);
  EXPECT_THROW(memory_stats(absent), DeviceError);
}
TEST(HpuAbsent, MeansNoDevices) {
  if (device_count(DeviceType::hpu) != 0) GTEST_SKIP() << "there is an HPU";
  expect_absent(hpu);
}
TEST(CudaAbsent, MeansNoDevices) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is a GPU";
  expect_absent(Device(DeviceType::cuda));
}

}  // namespace
}  // namespace weft
