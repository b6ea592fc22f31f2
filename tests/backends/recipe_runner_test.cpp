// Launches on a thread of their own: in order, with their op and line, and none after one that failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "message_of.hpp"

#include <weft/backends/queued/recipe_runner.hpp>
#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(RecipeRunner, RunsInOrderOnAThreadOfItsOwn) {
  RecipeRunner runner;
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    runner.run([&, i, caller = std::this_thread::get_id()] {
      EXPECT_NE(std::this_thread::get_id(), caller);
      order.push_back(i);
    });
  }
  runner.drain();
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  runner.rethrow();
}

TEST(RecipeRunner, ReturnsBeforeTheLaunchHasRun) {
  std::atomic<bool> open = false, ran = false;
  RecipeRunner runner;
  runner.run([&] {
    while (!open) std::this_thread::sleep_for(1ms);
    ran = true;
  });
  EXPECT_FALSE(ran);
  open = true;
  runner.drain();
  EXPECT_TRUE(ran);
}

TEST(RecipeRunner, AFailureStopsLaterWorkUntilItIsReported) {
  RecipeRunner runner;
  int ran = 0;
  std::string message;
  {
    const CallScope call("my_op");
    runner.run([] { raise<DeviceError>({.problem = "the launch was refused"}); });
  }
  for (int i = 0; i < 10; ++i) runner.run([&] { ++ran; });
  runner.drain();
  for (int i = 0; i < 10; ++i) runner.run([&] { ++ran; });
  runner.drain();
  EXPECT_EQ(ran, 0);
  EXPECT_THAT(message_of<DeviceError>([&] { runner.rethrow(); }),
              AllOf(HasSubstr("[my_op]"), HasSubstr("the launch was refused"), HasSubstr("recipe_runner_test.cpp:")));
  runner.rethrow();
  runner.run([&] { ++ran; });
  runner.drain();
  EXPECT_EQ(ran, 1) << "told, the stream goes on";
}

TEST(RecipeRunner, KeepsArgumentsUntilTheLaunchHasRun) {
  RecipeRunner runner;
  std::atomic<bool> open = false;
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = held;
  runner.run([&] {
    while (!open) std::this_thread::sleep_for(1ms);
  });
  int read = 0;
  runner.run([held = std::move(held), &read] { read = *held; });
  EXPECT_FALSE(seen.expired());
  open = true;
  runner.drain();
  EXPECT_EQ(read, 7);
  EXPECT_TRUE(seen.expired()) << "dropped before the drain returns";
}

TEST(RecipeRunner, SkippedWorkIsReleased) {
  RecipeRunner runner;
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = held;
  runner.run([] { throw std::runtime_error("no"); });
  runner.run([held = std::move(held)] {});
  runner.drain();
  EXPECT_TRUE(seen.expired());
  EXPECT_THROW(runner.rethrow(), std::runtime_error);
}

TEST(RecipeRunner, ItsEndDrains) {
  std::atomic<int> ran = 0;
  {
    RecipeRunner runner;
    for (int i = 0; i < 100; ++i) runner.run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
  RecipeRunner stopped;
  stopped.stop();
  stopped.run([&] { ++ran; });
  stopped.stop();
  EXPECT_EQ(ran, 100);
}

TEST(RecipeRunner, WaitsWhereTooManyAreBefore) {
  RecipeRunner runner;
  std::atomic<bool> open = false;
  std::atomic<size_t> given = 0, ran = 0;
  constexpr size_t all = RecipeRunner::most_waiting + 100;
  runner.run([&] {
    while (!open) std::this_thread::sleep_for(1ms);
  });
  std::thread giver([&] {
    for (size_t i = 0; i < all; ++i) {
      runner.run([&] { ++ran; });
      ++given;
    }
  });
  while (given < RecipeRunner::most_waiting - 1) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(given, RecipeRunner::most_waiting - 1);  // the closed one is before them
  open = true;
  giver.join();
  runner.drain();
  EXPECT_EQ(ran, all);
}

TEST(RecipeRunner, SeveralThreadsKeepTheirOwnOrder) {
  RecipeRunner runner;
  std::vector<std::vector<int>> seen(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        runner.run([&, t, i] { seen[t].push_back(i); });
        if (i % 100 == 0) runner.drain();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  runner.drain();
  for (const auto& one : seen) {
    ASSERT_EQ(one.size(), 500u);
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
}

}  // namespace
}  // namespace weft
