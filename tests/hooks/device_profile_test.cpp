// Profiles of devices' streams, on the host's clock.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/hooks/profiler.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t ms = 1'000'000;

class DeviceProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
    x = rand({64, 64}).to(on);
    (void)exp(x);
    (void)matmul(x, x);
    synchronize(on);
  }
  static std::vector<ProfiledEvent> of_kind(const Profiler& profiler, ProfiledKind kind) {
    std::vector<ProfiledEvent> out;
    for (const ProfiledEvent& e : profiler.events()) {
      if (e.kind == kind) out.push_back(e);
    }
    return out;
  }
  const Device on = Device(DeviceType::hpu);
  Tensor x;
};

TEST_F(DeviceProfile, SpansAreWithinTheHostTimeOfTheirKernel) {
  Profiler profiler;
  profiler.start();
  const unsigned line = __LINE__ + 1;
  for (int i = 0; i < 20; ++i) (void)exp(x);
  profiler.stop();
  const auto kernels = of_kind(profiler, ProfiledKind::kernel), spans = of_kind(profiler, ProfiledKind::span);
  ASSERT_EQ(spans.size(), 20u);
  ASSERT_EQ(kernels.size(), 20u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].op, "exp");
    EXPECT_STREQ(spans[i].kernel, "unary");
    EXPECT_EQ(spans[i].where.line(), line);
    EXPECT_EQ(spans[i].device, on);
    EXPECT_EQ(spans[i].stream, 0);
    EXPECT_EQ(spans[i].shape.text(), "[64, 64]");
    EXPECT_LE(spans[i].begin, spans[i].end);
    // The clocks were set by waits, which a busy machine makes long.
    EXPECT_GE(spans[i].begin, kernels[i].begin - 5 * ms);
    EXPECT_LE(spans[i].end, kernels[i].end + 5 * ms);
    if (i > 0) {
      EXPECT_GE(spans[i].begin, spans[i - 1].end);
    }
  }
}

TEST_F(DeviceProfile, SpansAreMeasuredThoughNobodyWaits) {
  Profiler profiler({.synchronize = false});
  profiler.start();
  Tensor y = x;
  for (int i = 0; i < 500; ++i) y = y * 1.0;
  profiler.stop();
  EXPECT_EQ(of_kind(profiler, ProfiledKind::span).size(), 500u);
  int64_t busy = 0;
  for (const ProfiledEvent& e : of_kind(profiler, ProfiledKind::span)) busy += e.end - e.begin;
  EXPECT_GT(busy, 0);
}

// With 20 valid bits of 40 ns, as CTest runs it too, the device's clock begins anew every 42 ms.
TEST_F(DeviceProfile, AClockThatBeginsAnewIsFollowed) {
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 4; ++i) {
    (void)exp(x);
    std::this_thread::sleep_for(150ms);
  }
  profiler.stop();
  const auto kernels = of_kind(profiler, ProfiledKind::kernel), spans = of_kind(profiler, ProfiledKind::span);
  ASSERT_EQ(spans.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GE(spans[i].begin, kernels[i].begin - 6 * ms) << i;
    EXPECT_LE(spans[i].end, kernels[i].end + 6 * ms) << i;
  }
}

TEST_F(DeviceProfile, EachStreamIsARow) {
  const Stream side(on);
  Profiler profiler;
  profiler.start();
  (void)exp(x);
  {
    const StreamGuard guard(side);
    (void)sin(x);
  }
  profiler.stop();
  const auto spans = of_kind(profiler, ProfiledKind::span);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].stream, 0);
  EXPECT_EQ(spans[1].stream, side.id());
  const std::string trace = profiler.chrome_trace();
  EXPECT_THAT(trace, HasSubstr(R"("name":"process_name","ph":"M","pid":2,"args":{"name":"hpu:0"})"));
  EXPECT_THAT(trace, testing::ContainsRegex(R"("name":"exp"[^}]*"pid":2,"tid":0)"));
  EXPECT_THAT(trace, testing::ContainsRegex("\"name\":\"sin\"[^}]*\"pid\":2,\"tid\":" + std::to_string(side.id())));
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '{'), std::count(trace.begin(), trace.end(), '}'));
}

TEST_F(DeviceProfile, KernelsOfACompositeKeepTheNameThatWasCalled) {
  Profiler profiler;
  profiler.start();
  (void)logsumexp(x, {1});
  (void)exp(x);
  profiler.stop();
  const auto spans = of_kind(profiler, ProfiledKind::span);
  ASSERT_GE(spans.size(), 3u);
  int64_t begin = spans.front().begin, end = 0;
  for (size_t i = 0; i + 1 < spans.size(); ++i) {
    EXPECT_EQ(spans[i].called, "logsumexp");
    end = spans[i].end;
  }
  EXPECT_EQ(spans.back().called, "exp");
  const std::string trace = profiler.chrome_trace();
  const std::string parent =
      "\"name\":\"logsumexp\",\"cat\":\"called\",\"ph\":\"X\",\"ts\":[0-9.]*,\"dur\":[0-9.]*,"
      "\"pid\":";
  EXPECT_THAT(trace, testing::ContainsRegex(parent + "1,"));
  EXPECT_THAT(trace, testing::ContainsRegex(parent + "2,"));
  EXPECT_LT(begin, end);
  EXPECT_THAT(trace, Not(HasSubstr(R"("name":"exp","cat":"called")")));
}

TEST_F(DeviceProfile, CanBeLeftOut) {
  Profiler profiler({.device_spans = false});
  profiler.start();
  (void)exp(x);
  profiler.stop();
  EXPECT_EQ(of_kind(profiler, ProfiledKind::span).size(), 0u);
  EXPECT_EQ(of_kind(profiler, ProfiledKind::kernel).size(), 1u);
  Profiler few({.most_events = 3});
  few.start();
  for (int i = 0; i < 10; ++i) (void)exp(x);
  few.stop();
  EXPECT_LE(few.events().size(), 6u);
}

TEST_F(DeviceProfile, SeveralThreadsAndRuns) {
  Profiler profiler({.synchronize = false});
  for (int run = 0; run < 3; ++run) {
    profiler.start();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this] {
        const Stream stream(on);
        const StreamGuard guard(stream);
        for (int i = 0; i < 50; ++i) (void)exp(x);
        stream.synchronize();
      });
    }
    for (std::thread& thread : threads) thread.join();
    profiler.stop();
    EXPECT_EQ(of_kind(profiler, ProfiledKind::span).size(), 200u);
    for (const ProfiledEvent& e : of_kind(profiler, ProfiledKind::span)) EXPECT_GE(e.begin, 0);
  }
}

TEST(DeviceProfileOfNothing, IsValid) {
  Profiler profiler;
  profiler.start();
  EXPECT_THROW(profiler.start(), ValueError);
  profiler.stop();
  EXPECT_TRUE(profiler.events().empty());
  EXPECT_EQ(profiler.chrome_trace(), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\n]}\n");
}

TEST(DeviceProfileOfTheCpu, HasNoSpansButNamesTheCalls) {
  const Tensor a = rand({8, 8});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 3; ++i) (void)logsumexp(a, {1});
  profiler.stop();
  size_t calls = 0;
  const std::string trace = profiler.chrome_trace(), called = "\"name\":\"logsumexp\",\"cat\":\"called\"";
  for (size_t at = trace.find(called); at != std::string::npos; at = trace.find(called, at + 1)) ++calls;
  for (const ProfiledEvent& e : profiler.events()) {
    EXPECT_EQ(e.kind, ProfiledKind::kernel);
    EXPECT_EQ(e.called, "logsumexp");
  }
  EXPECT_EQ(calls, 3u);
}

}  // namespace
}  // namespace weft
