// Calls on a thread of their own, one at a time.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <weft/io/files/background-inl.hpp>

namespace weft::io {
namespace {

void sleep_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

TEST(BackgroundCall, StartsAfterThePreviousCallWithoutAWait) {
  std::atomic<int> calls = 0, seen = -1;
  {
    BackgroundCall call;
    call.start([&] { sleep_a_little(), ++calls; });
    call.start([&] { seen = calls.load(), sleep_a_little(), ++calls; });
    call.start([&] { ++calls; });
  }
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(calls, 3);
}

TEST(BackgroundCall, StartRethrowsTheErrorOfThePreviousCallOnce) {
  BackgroundCall call;
  std::atomic<int> calls = 0;
  call.start([] { throw std::runtime_error("first"); });
  EXPECT_THROW(call.start([&] { ++calls; }), std::runtime_error);
  call.wait();
  EXPECT_EQ(calls, 0);
  call.start([&] { ++calls; });
  call.wait();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace weft::io
