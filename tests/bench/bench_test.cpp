// weft::bench: figures on a fake clock, the table's text, and rejected arguments.
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <weft/bench.hpp>
#include <weft/ops/create.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/tensor.hpp>
#include <weft/tensor/threads.hpp>

namespace weft::bench {
namespace {

using ::testing::HasSubstr;

/// A clock that moves only where a case moves it.
struct Clock {
  double now = 0;
  int calls = 0;

  Options options() {
    return {.print = false, .clock = [this] { return now; }};
  }
  Case takes(const std::string& name, double seconds) {
    return {name, [this, seconds] { now += seconds, ++calls; }};
  }
};

TEST(Bench, MeasuresTheTimeOfEachCall) {
  Clock clock;
  const Comparison c = compare({clock.takes("one", 2e-3), clock.takes("three", 6e-3)}, clock.options());
  ASSERT_EQ(c.cases.size(), 2u);
  EXPECT_EQ(c.cases[0].name, "one");
  EXPECT_NEAR(c.cases[0].median, 2e-3, 1e-9);
  EXPECT_NEAR(c.cases[1].median, 6e-3, 1e-9);
  EXPECT_NEAR(c.cases[1].upper_quartile - c.cases[1].lower_quartile, 0, 1e-9);
  EXPECT_NEAR(c.cases[0].ratio, 1, 1e-6);
  EXPECT_NEAR(c.cases[1].ratio, 3, 1e-6);
  EXPECT_LE(c.cases[1].ratio_low, c.cases[1].ratio);
  EXPECT_GE(c.cases[1].ratio_high, c.cases[1].ratio);
}

TEST(Bench, ShortCallsShareASample) {
  Clock clock;
  const Comparison c = compare({clock.takes("short", 1e-6), clock.takes("long", 1e-2)}, clock.options());
  EXPECT_GE(c.cases[0].calls, 1000);
  EXPECT_EQ(c.cases[1].calls, 1);
  EXPECT_NEAR(c.cases[0].median, 1e-6, 1e-9);
}

TEST(Bench, CasesTakeTurnsInBothOrders) {
  Clock clock;
  std::string order;
  const auto slow = [&](char mark) {
    return Case{std::string(1, mark), [&clock, &order, mark] { clock.now += 1, order += mark; }};
  };
  Options options = clock.options();
  options.seconds = 0;
  const Comparison c = compare({slow('a'), slow('b')}, options);
  EXPECT_EQ(c.rounds, 5);
  EXPECT_EQ(order,
            "aabb"
            "abbaabbaab");
}

TEST(Bench, StopsWhenTheMediansAreKnown) {
  Clock clock;
  EXPECT_EQ(compare({clock.takes("steady", 1e-2)}, clock.options()).rounds, 15);
  int call = 0;
  Options options = clock.options();
  options.seconds = 3;
  const Comparison c = compare({{"noisy", [&] { clock.now += (++call * 7919 % 101) * 1e-3; }}}, options);
  EXPECT_GT(c.rounds, 30);
  EXPECT_LT(c.rounds, 100);
  EXPECT_LT(c.cases[0].lower_quartile, c.cases[0].median);
  EXPECT_GT(c.cases[0].upper_quartile, c.cases[0].median);
  EXPECT_NEAR(c.cases[0].median, 0.05, 0.02);
}

TEST(Bench, AFunctionThatTheClockDoesNotSee) {
  Clock clock;
  const Comparison c = compare({clock.takes("nothing", 0), clock.takes("something", 1e-3)}, clock.options());
  EXPECT_EQ(c.cases[0].median, 0);
  EXPECT_TRUE(std::isnan(c.cases[0].ratio));
  EXPECT_TRUE(std::isnan(c.cases[1].ratio));
  EXPECT_THAT(c.table(), HasSubstr("nothing        0 ns"));
}

TEST(Bench, RatesFollowFromTheWork) {
  Clock clock;
  Options options = clock.options();
  options.bytes = 4e6, options.operations = 2e6;
  Case other = clock.takes("other", 2e-3);
  other.operations = 8e6;
  const Comparison c = compare({clock.takes("plain", 1e-3), other}, options);
  EXPECT_NEAR(c.cases[0].bytes_per_second, 4e9, 1e3);
  EXPECT_NEAR(c.cases[0].operations_per_second, 2e9, 1e3);
  EXPECT_NEAR(c.cases[1].bytes_per_second, 2e9, 1e3);
  EXPECT_NEAR(c.cases[1].operations_per_second, 4e9, 1e3);
  EXPECT_GT(c.roofs.memory_bytes_per_second, 1e8);
  EXPECT_GT(c.cases[0].of_roof, 0);
  EXPECT_EQ(roofs().memory_bytes_per_second, c.roofs.memory_bytes_per_second) << "roofs are measured once";
}

TEST(Bench, SleepsTakeAsLongAsTheySay) {
  const auto sleep = [](int ms) { return [ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }; };
  const Comparison c = compare({{"2 ms", sleep(2)}, {"10 ms", sleep(10)}}, {.seconds = 0.2, .print = false});
  EXPECT_GE(c.cases[0].median, 2e-3);
  EXPECT_GE(c.cases[1].median, 10e-3);
  EXPECT_GT(c.cases[1].ratio, 1);
}

TEST(Bench, TheTable) {
  Comparison c;
  c.rounds = 41, c.pinned = true;
  c.cases = {{.name = "mine",
              .median = 1.234e-6,
              .lower_quartile = 1.2e-6,
              .upper_quartile = 1.3e-6,
              .ratio = 1,
              .ratio_low = 1,
              .ratio_high = 1},
             {.name = "the library's",
              .median = 45.6e-3,
              .lower_quartile = 9.999e-3,
              .upper_quartile = 1.5,
              .ratio = 3.7,
              .ratio_low = 3.65,
              .ratio_high = 3.749}};
  EXPECT_EQ(c.table(),
            "41 rounds by turns, 1 thread, pinned\n"
            "case             median  quartiles             times the first (95 %)\n"
            "mine            1.23 us  1.20 us to 1.30 us    1 (1 to 1)\n"
            "the library's   45.6 ms  10.0 ms to 1.50 s     3.7 (3.65 to 3.75)\n");
  c.roofs = {.operations_per_second = 2e11, .memory_bytes_per_second = 4.1e10, .cache_bytes_per_second = 3e11};
  c.cases[0].bytes_per_second = 1.5e10, c.cases[0].operations_per_second = 8e8, c.cases[0].of_roof = 0.366;
  c.pinned = false, c.threads = 2;
  EXPECT_EQ(
      c.table(),
      "41 rounds by turns, 2 threads\n"
      "roofs: 200 GFLOP/s, memory 41.0 GB/s, cache 300 GB/s\n"
      "case             median  quartiles             times the first (95 %)      bytes    operations  of roof\n"
      "mine            1.23 us  1.20 us to 1.30 us    1 (1 to 1)              15.0 GB/s   800 MFLOP/s     37 %\n"
      "the library's   45.6 ms  10.0 ms to 1.50 s     3.7 (3.65 to 3.75)              -             -        -\n");
}

TEST(Bench, ExceptionsPropagate) {
  int calls = 0;
  const auto fails = [&] {
    if (++calls == 4) throw std::runtime_error("the fourth call");
  };
  EXPECT_THROW(compare({{"fails", fails}}, {.print = false}), std::runtime_error);
#if defined(__linux__)
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  calls = 0;
  EXPECT_THROW(compare({{"fails", fails}}, {.print = false}), std::runtime_error);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
#endif
}

#if defined(__linux__)
TEST(Bench, ThreadsArePinnedOnlyWhileMeasuring) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int threads = num_threads();
  set_num_threads(1);
  int cores = 0;
  const auto look = [&] {
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    cores = CPU_COUNT(&now);
  };
  const Comparison c = compare({{"look", look}}, {.seconds = 0.01, .print = false});
  set_num_threads(threads);
  EXPECT_TRUE(c.pinned);
  EXPECT_EQ(cores, 1);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}
#endif

TEST(Bench, NothingAndNoFunctionAreRefused) {
  EXPECT_THROW(compare({}, {.print = false}), ValueError);
  try {
    compare({{"empty", nullptr}}, {.print = false});
    FAIL() << "no error";
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), HasSubstr("[bench.compare] \"empty\" holds no function"));
    EXPECT_THAT(e.what(), HasSubstr("bench_test.cpp:"));
  }
}

TEST(Bench, PrintsTheTable) {
  Clock clock;
  Options options = clock.options();
  options.print = true;
  ::testing::internal::CaptureStdout();
  const Comparison c = compare({clock.takes("one", 1e-3)}, options);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), c.table());
}

}  // namespace
}  // namespace weft::bench
