// Threads: tensors created in one and destroyed in another, shared graphs and leaves, and threads that end.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Tensor& t) { return t.to_vector<double>(); }

template <class F>
void on_threads(int count, F&& work) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Freed after the thread locals of the main thread are gone.
Tensor outlives_everything = tensor({1.0, 2.0});
Tensor graph_outlives_everything = exp(ones({300}).requires_grad_()).sum();

TEST(Threads, TensorsDieOnAnotherThreadThanTheyWereBorn) {
  const int64_t before = detail::live_tensors();
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Tensor> market;
  constexpr int pairs = 2, rounds = 2000;
  on_threads(2 * pairs, [&](int t) {
    for (int i = 0; i < rounds; ++i) {
      if (t < pairs) {
        // Heads alone, a block of the allocator, a view, a graph.
        Tensor x = full({i % 3 == 0 ? 1 : 200}, static_cast<double>(i)).requires_grad_(i % 2 == 0);
        if (i % 5 == 0) x = exp(x.view({-1, 1}));
        std::lock_guard lock(mutex);
        market.push_back(std::move(x));
        changed.notify_one();
      } else {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !market.empty(); });
        const Tensor x = std::move(market.front());
        market.pop_front();
        lock.unlock();
        if (i % 5 != 0) continue;
        EXPECT_GT(x.numel(), 0);
      }
    }
  });
  EXPECT_TRUE(market.empty());
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(Threads, HandlesOfOneTensorAreCountedExactly) {
  const int64_t before = detail::live_tensors();
  for (int round = 0; round < 200; ++round) {
    Tensor x = ones({4}).requires_grad_();
    on_threads(3, [copy = std::move(x)](int) {
      for (int i = 0; i < 50; ++i) {
        const Tensor mine = copy;
        const Tensor view = mine.view({2, 2});
      }
    });
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(Threads, ALeafMayDieWhileABackwardRunsIntoIt) {
  const int64_t before = detail::live_tensors();
  for (int round = 0; round < 300; ++round) {
    Tensor x = ones({3}).requires_grad_();
    std::atomic<int> seen{0};
    register_post_accumulate_grad_hook(x, [&](const Tensor& leaf) { seen += static_cast<int>(leaf.numel()); });
    Tensor y = x + 1.0;
    std::thread killer([leaf = std::move(x)]() mutable { leaf = Tensor(); });
    y.backward(ones({3}));
    killer.join();
    EXPECT_TRUE(seen == 0 || seen == 3);
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(Threads, BackwardIntoTheSameLeavesAddsUp) {
  const Tensor x = ones({64}).requires_grad_(), w = full({64}, 2.0).requires_grad_();
  std::atomic<int> hooked{0};
  register_hook(x, [&](const Tensor&) {
    ++hooked;
    return Tensor();
  });
  constexpr int threads = 4, rounds = 100;
  on_threads(threads, [&](int) {
    for (int i = 0; i < rounds; ++i) ((x * w).sum() + x.sum()).backward();
  });
  EXPECT_EQ(hooked, threads * rounds);
  EXPECT_EQ(values(x.grad()), Doubles(64, 3.0 * threads * rounds));
  EXPECT_EQ(values(w.grad()), Doubles(64, 1.0 * threads * rounds));
}

// Every node is met over several edges, some while another thread's pass holds it and again after that pass let go.
TEST(Threads, OneRetainedGraphOfManyDiamonds) {
  const Tensor x = full({2}, 0.5, f64).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 12; ++i) y = (y + y) * 0.5 + (y - x) + (x - y);
  const Tensor z = y.sum();
  z.backward({.retain_graph = true});
  const Doubles once = values(x.grad());
  constexpr int threads = 4, rounds = 300;
  on_threads(threads, [&](int) {
    for (int i = 0; i < rounds; ++i) z.backward({.retain_graph = true});
  });
  EXPECT_EQ(once, Doubles(2, 1.0));
  EXPECT_EQ(values(x.grad()), Doubles(2, 1.0 + threads * rounds));
}

TEST(Threads, OneRetainedGraphOfManyKindsOfNodes) {
  const Tensor x = (arange(24).to(f64).view({4, 6}) * 0.01).detach().requires_grad_();
  const Tensor w = (arange(36).to(f64).view({6, 6}) * 0.02).detach().requires_grad_();
  Tensor h = tanh(matmul(x, w));
  h = softmax(h, 1) + exp(h.t().contiguous().view({4, 6}));
  h = cat({h.slice(0, 0, 2), h.slice(0, 2, 4) * 2.0}, 0);
  h.select(0, 1).mul_(0.5);
  const Tensor z = (h * h).mean() + h.unbind(1)[2].sum();
  const auto once = grad({z}, {x, w}, {}, {.retain_graph = true});
  on_threads(4, [&](int t) {
    for (int i = 0; i < 30; ++i) {
      if (t % 2 == 0) {
        z.backward({.retain_graph = true});
      } else {
        const auto again = grad({z}, {x, w}, {}, {.retain_graph = true});
        EXPECT_EQ(values(again[0]), values(once[0]));
        EXPECT_EQ(values(again[1]), values(once[1]));
      }
    }
  });
  const Doubles sum = values(x.grad()), part = values(once[0]);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], 60 * part[i], 1e-9);
}

TEST(Threads, AGraphIsFreedWhileOthersRunIt) {
  for (int round = 0; round < 100; ++round) {
    const int64_t before = detail::live_tensors();
    {
      const Tensor x = full({40}, 0.5, f64).requires_grad_();
      Tensor y = x;
      for (int i = 0; i < 10; ++i) y = exp(y * 0.1) * sigmoid(y);
      const Tensor z = y.sum();
      std::atomic<int> done{0};
      on_threads(4, [&](int t) {
        try {
          if (t == 0) grad({z}, {x});
          else z.backward({.retain_graph = t == 1});
          ++done;
        } catch (const AutogradError& error) {
          EXPECT_NE(std::string(error.what()).find("backward through a graph a second time"), std::string::npos);
        }
      });
      EXPECT_GE(done, 1);
      EXPECT_THROW(z.backward(), AutogradError);
    }
    EXPECT_EQ(detail::live_tensors(), before);
  }
}

TEST(Threads, AHookMayFreeTheGraphThatRuns) {
  const Tensor x = full({4}, 2.0, f64).requires_grad_();
  const Tensor y = exp(x), z = (y * y).sum();
  Tensor inner;
  bool outer = true;
  register_node_pre_hook(y, [&](const GradEvent&) {
    if (std::exchange(outer, false)) inner = grad({z}, {x})[0];  // frees what the outer pass is about to read
  });
  z.backward({.retain_graph = true});
  ASSERT_TRUE(inner.defined());
  EXPECT_NEAR(values(inner)[0], 2 * std::exp(4.0), 1e-9);
  EXPECT_EQ(values(x.grad()), values(inner));
  EXPECT_THROW(z.backward(), AutogradError);
}

TEST(Threads, HooksAndKeptGradientsOfASharedGraph) {
  const Tensor x = ones({4}).requires_grad_();
  const Tensor y = x * 2.0;
  y.retain_grad();
  const Tensor z = (y * y).sum();
  std::atomic<int> calls{0};
  std::vector<HookHandle> handles;
  for (int i = 0; i < 3; ++i) {
    handles.push_back(register_hook(y, [&](const Tensor& g) {
      ++calls;
      return g * 1.0;
    }));
  }
  on_threads(3, [&](int t) {
    for (int i = 0; i < 60; ++i) {
      z.backward({.retain_graph = true});
      EXPECT_EQ(std::fmod(y.grad().sum().item<double>(), 16.0), 0);  // whole passes, however many
      if (i != 20 + t) continue;
      EXPECT_TRUE(handles[t].remove());
    }
  });
  EXPECT_GE(calls, 3 * 21);
  EXPECT_EQ(values(y.grad()), Doubles(4, 4.0 * 180));
  EXPECT_EQ(values(x.grad()), Doubles(4, 8.0 * 180));
}

TEST(Threads, ViewsOfAWrittenTensorAreBroughtUpToDateOnce) {
  for (int round = 0; round < 100; ++round) {
    const Tensor x = ones({4}).requires_grad_();
    const Tensor base = x * 1.0;
    const Tensor view = base.view({2, 2});
    base.mul_(3.0);
    on_threads(3, [&](int) {
      EXPECT_TRUE(view.requires_grad());
      (view * 1.0).sum().backward({.retain_graph = true});
    });
    EXPECT_EQ(values(x.grad()), Doubles(4, 9.0));
  }
}

TEST(Threads, VersionsRiseOnManyStoragesAtOnce) {
  const Tensor shared = zeros({8});
  std::mutex mutex;
  on_threads(4, [&](int) {
    const Tensor own = zeros({8});
    for (int i = 0; i < 200; ++i) {
      own.add_(1.0);
      own.slice(0, 0, 4).add_(shared.numel());
      std::lock_guard lock(mutex);
      shared.add_(1.0);
    }
    EXPECT_EQ(own.version(), 400u);
  });
  EXPECT_EQ(shared.version(), 800u);
  EXPECT_EQ(values(shared), Doubles(8, 800.0));
}

TEST(Threads, TensorsLiveOnAfterTheirThread) {
  const int64_t before = detail::live_tensors();
  std::vector<Tensor> kept;
  for (int t = 0; t < 8; ++t) {
    std::thread([&] {
      for (int i = 0; i < 400; ++i) kept.push_back(full({i % 40 + 1}, 1.0));
      const Tensor x = ones({20}).requires_grad_();
      kept.push_back((x * x).sum());
    }).join();
  }
  EXPECT_EQ(kept.back().item<float>(), 20.0f);
  kept.back().backward();
  kept.clear();
  EXPECT_EQ(detail::live_tensors(), before);
}

struct LastWill {
  Tensor tensor;
  ~LastWill() {
    tensor = exp(ones({200}).requires_grad_()) * 2.0;
    tensor = Tensor();
  }
};

TEST(Threads, AThreadLocalTensorMayDieAfterTheFreeLists) {
  const int64_t before = detail::live_tensors();
  for (int t = 0; t < 4; ++t) {
    std::thread([] {
      // Created before the thread's first tensor, so it is destroyed after that tensor's thread-locals.
      static thread_local LastWill will;
      will.tensor = ones({3});
    }).join();
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(Threads, TheFirstThreadStartsWhileTensorsAreInUse) {
  // In a fresh process: counts switch to locked instructions when the first thread starts.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Tensor x = ones({16}).requires_grad_();
        const Tensor y = (x * x).sum();
        std::vector<Tensor> copies(100, y);
        std::thread other([moved = std::move(copies), y]() mutable {
          moved.clear();
          for (int i = 0; i < 100; ++i) y.backward({.retain_graph = true});
        });
        for (int i = 0; i < 100; ++i) y.backward({.retain_graph = true});
        other.join();
        _exit(values(x.grad()) == Doubles(16, 400.0) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// The sanitizers' own allocators are not whole after fork().
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(Threads, AForkedChildStartsThreadsOfItsOwn) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t) {
    busy.emplace_back([&] {
      while (!stop) {
        std::vector<Tensor> many;
        for (int i = 0; i < 400; ++i) many.push_back(ones({100}));
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      on_threads(4, [](int) {
        for (int k = 0; k < 300; ++k) exp(ones({100}).requires_grad_()).sum().backward();
      });
      _exit(memory_stats().allocations > 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
}
#endif

}  // namespace
}  // namespace weft
