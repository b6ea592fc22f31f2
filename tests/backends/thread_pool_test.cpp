#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <weft/backends/cpu/thread_pool.hpp>
#include <weft/tensor/threads.hpp>

namespace weft {
namespace {

using cpu::parallel_for;

class ThreadPool : public testing::Test {
 protected:
  void SetUp() override { set_num_threads(4); }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_F(ThreadPool, CoversEveryElementOnce) {
  for (int64_t n : {0, 1, 7, 100, 1001}) {
    for (int64_t chunk : {1, 3, 100, 5000}) {
      std::vector<int> hits(static_cast<size_t>(n));
      parallel_for(n, chunk, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % chunk, 0);
        EXPECT_EQ(end, std::min(begin + chunk, n));
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n);
    }
  }
}

TEST_F(ThreadPool, ChunksDoNotDependOnThreads) {
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    std::mutex mutex;
    std::set<std::pair<int64_t, int64_t>> chunks;
    parallel_for(10, 4, [&](int64_t begin, int64_t end) {
      std::lock_guard lock(mutex);
      chunks.insert({begin, end});
    });
    EXPECT_EQ(chunks, (std::set<std::pair<int64_t, int64_t>>{{0, 4}, {4, 8}, {8, 10}}));
  }
}

TEST_F(ThreadPool, WorkersTakePart) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int i = 0; i < 200 && seen.size() < 2; ++i) {
    parallel_for(8, 1, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  EXPECT_GE(seen.size(), 2u);
  EXPECT_LE(seen.size(), 4u);
}

TEST_F(ThreadPool, OtherThreadsTakeWorkOfADelayedThread) {
  std::atomic<int64_t> done{0};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallel_for(64, 1, [&](int64_t begin, int64_t) {
    if (begin == 0) {
      while (done.load() < 63 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
      EXPECT_EQ(done.load(), 63) << "chunks wait for the thread that runs the first one";
    }
    ++done;
  });
  EXPECT_EQ(done.load(), 64);
}

TEST_F(ThreadPool, ManyShortLoops) {
  int64_t total = 0;
  for (int i = 0; i < 20000; ++i) {
    int64_t parts[3] = {};
    parallel_for(3, 1, [&](int64_t begin, int64_t) { parts[begin] = i; });
    total += parts[0] + parts[1] + parts[2];
    // Now and then the workers fall asleep.
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  EXPECT_EQ(total, int64_t{3} * 20000 * 19999 / 2);
}

TEST_F(ThreadPool, FirstExceptionIsRethrown) {
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> ran{0};
    try {
      parallel_for(1000, 1, [&](int64_t begin, int64_t) {
        ran.fetch_add(1);
        if (begin >= 5) throw std::runtime_error("from " + std::to_string(begin));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 5), "from ");
    }
    EXPECT_LT(ran.load(), 1000);
  }
  int64_t sum = 0;
  parallel_for(1, 1, [&](int64_t, int64_t) { sum = 1; });
  EXPECT_EQ(sum, 1);
}

TEST_F(ThreadPool, NestedLoopsRunInline) {
  std::atomic<int64_t> sum{0};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(10, 1, [&](int64_t begin, int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      sum.fetch_add(begin);
    });
  });
  EXPECT_EQ(sum.load(), 8 * 45);
}

TEST_F(ThreadPool, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        std::vector<int64_t> parts(16);
        parallel_for(16, 2, [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k) parts[static_cast<size_t>(k)] = k + t;
        });
        for (int64_t k = 0; k < 16; ++k) wrong += parts[static_cast<size_t>(k)] != k + t;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ThreadPool, CountMayChangeBetweenLoops) {
  for (int i = 0; i < 200; ++i) {
    set_num_threads(i % 6 + 1);
    EXPECT_EQ(num_threads(), i % 6 + 1);
    std::atomic<int> sum{0};
    parallel_for(20, 1, [&](int64_t, int64_t) { sum.fetch_add(1); });
    EXPECT_EQ(sum.load(), 20);
  }
  set_num_threads(0);
  EXPECT_EQ(num_threads(), 1);
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(ThreadPool, WorksInAForkedChild) {
  parallel_for(8, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int64_t sum = 0;
    parallel_for(8, 1, [&](int64_t begin, int64_t) { sum += begin; });
    _exit(sum == 28 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace weft
