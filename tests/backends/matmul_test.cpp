#include <gtest/gtest.h>
#include <sys/time.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <string>

#include <weft/backends/cpu/matmul/gemm.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft {
namespace {

using test::ArrayShape;
using test::HostArray;

double tolerance(DType dtype, double magnitude) {
  switch (dtype) {
    case DType::f64:
      return 1e-13 * magnitude;
    case DType::f32:
      return 2e-6 * magnitude;
    case DType::f16:
      return 2e-3 * magnitude;
    case DType::bf16:
      return 1e-2 * magnitude;
    default:
      return 0;
  }
}

/// The last two dimensions by loops in double, batch by batch.
void expect_product(const HostArray& out, const HostArray& a, const HostArray& b, const HostArray& bias) {
  const Layout& o = out.view.layout;
  const int r = o.rank;
  const int64_t m = o.sizes[r - 2], n = o.sizes[r - 1], k = a.view.layout.sizes[r - 1];
  const std::vector<double> x = a.values(), y = b.values(), z = bias.view.data != nullptr ? bias.values() : x;
  for (int64_t position = 0; position < out.numel(); ++position) {
    const int64_t batch = position / (m * n), i = position / n % m, j = position % n;
    double sum = bias.view.data != nullptr ? z[position] : 0, magnitude = std::abs(sum);
    for (int64_t p = 0; p < k; ++p) {
      const double term = x[(batch * m + i) * k + p] * y[(batch * k + p) * n + j];
      sum += term;
      magnitude += std::abs(term);
    }
    double difference = out.get(position) - sum;
    if (!is_floating(o.dtype) && o.dtype != DType::i64) {  // wraps around
      difference = std::remainder(difference, std::ldexp(1, static_cast<int>(itemsize(o.dtype)) * 8));
    }
    ASSERT_NEAR(difference, 0, tolerance(o.dtype, std::max(magnitude, 1.0))) << "at " << position;
  }
}

struct Case {
  const char* name;
  ArrayShape out, a, b;
  bool biased = false;
  ArrayShape bias = {};
};

const Case cases[] = {
    {"small", {{4, 4}}, {{4, 4}}, {{4, 4}}},
    {"odd", {{7, 13}}, {{7, 5}}, {{5, 13}}},
    {"one", {{1, 1}}, {{1, 1}}, {{1, 1}}},
    {"bias", {{6, 10}}, {{6, 3}}, {{3, 10}}, true, {{6, 10}, {}, {0}}},
    {"full bias", {{6, 10}}, {{6, 3}}, {{3, 10}}, true, {{6, 10}, {1, 0}}},
    {"scalar bias", {{6, 10}}, {{6, 3}}, {{3, 10}}, true, {{6, 10}, {}, {0, 1}}},
    {"transposed a", {{9, 17}}, {{9, 8}, {1, 0}}, {{8, 17}}},
    {"transposed b", {{9, 17}}, {{9, 8}}, {{8, 17}, {1, 0}}},
    {"transposed out", {{9, 17}, {1, 0}}, {{9, 8}}, {{8, 17}, {1, 0}}, true, {{9, 17}, {}, {0}}},
    {"all transposed", {{33, 20}, {1, 0}}, {{33, 40}, {1, 0}}, {{40, 20}, {1, 0}}},
    {"gaps", {{9, 17}, {}, {}, {}, 2}, {{9, 8}, {}, {}, {}, 3}, {{8, 17}, {}, {}, {}, 2}},
    {"backwards", {{9, 17}}, {{9, 8}, {}, {}, {0}}, {{8, 17}, {}, {}, {0, 1}}},
    {"repeated", {{9, 17}}, {{9, 8}, {}, {0}}, {{8, 17}, {}, {1}}},
    {"row by matrix", {{1, 70}}, {{1, 50}}, {{50, 70}}},
    {"row by transposed", {{1, 70}}, {{1, 50}}, {{50, 70}, {1, 0}}, true, {{1, 70}}},
    {"matrix by column", {{70, 1}}, {{70, 50}}, {{50, 1}}, true, {{70, 1}, {}, {0}}},
    {"transposed by column", {{70, 1}}, {{70, 50}, {1, 0}}, {{50, 1}}},
    {"column by row", {{30, 20}}, {{30, 1}}, {{1, 20}}},
    {"strided vectors", {{1, 20}, {}, {}, {}, 2}, {{1, 30}, {}, {}, {}, 3}, {{30, 20}}},
    {"strided column", {{20, 1}, {}, {}, {}, 2}, {{20, 30}, {1, 0}}, {{30, 1}, {}, {}, {}, 5}},
    {"no rows", {{0, 5}}, {{0, 4}}, {{4, 5}}},
    {"no columns", {{3, 0}}, {{3, 4}}, {{4, 0}}},
    {"no depth", {{3, 5}}, {{3, 0}}, {{0, 5}}},
    {"no depth, bias", {{3, 5}}, {{3, 0}}, {{0, 5}}, true, {{3, 5}, {}, {0}}},
    {"batch", {{3, 5, 7}}, {{3, 5, 6}}, {{3, 6, 7}}},
    {"no batch", {{0, 5, 7}}, {{0, 5, 6}}, {{0, 6, 7}}},
    {"batch, one b", {{3, 5, 7}}, {{3, 5, 6}}, {{3, 6, 7}, {}, {0}}, true, {{3, 5, 7}, {}, {0, 1}}},
    {"batch, one b, strided a", {{3, 5, 7}}, {{3, 5, 6}, {1, 0, 2}}, {{3, 6, 7}, {}, {0}}},
    {"batch, one a", {{3, 5, 7}}, {{3, 5, 6}, {}, {0}}, {{3, 6, 7}}, true, {{3, 5, 7}, {}, {0, 1}}},
    {"heads", {{2, 3, 5, 4}, {0, 2, 1, 3}}, {{2, 3, 5, 6}, {0, 2, 1, 3}}, {{2, 3, 6, 4}, {0, 3, 1, 2}}},
    {"batch of packed", {{2, 3, 5, 4}}, {{2, 3, 5, 6}, {3, 2, 1, 0}, {1}}, {{2, 3, 6, 4}, {}, {0}, {}, 2}},
    {"unit batch", {{1, 2, 1, 5, 7}}, {{1, 2, 1, 5, 6}}, {{1, 2, 1, 6, 7}, {}, {1}}},
    {"medium", {{65, 70}}, {{65, 100}}, {{100, 70}}, true, {{65, 70}, {}, {0}}},
    {"medium transposed", {{90, 70}}, {{90, 100}, {1, 0}}, {{100, 70}, {1, 0}}},
    {"wide", {{20, 1100}}, {{20, 40}}, {{40, 1100}}},
    {"deep", {{10, 40}}, {{10, 700}}, {{700, 40}, {1, 0}}},
    {"large", {{200, 190}}, {{200, 300}}, {{300, 190}}, true, {{200, 190}, {}, {0}}},
};

class Matmul : public testing::TestWithParam<DType> {};

TEST_P(Matmul, MatchesLoops) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const HostArray a(GetParam(), c.a, 1), b(GetParam(), c.b, 2);
    const HostArray bias = c.biased ? HostArray(GetParam(), c.bias, 3) : HostArray();
    HostArray out(GetParam(), c.out, 4);
    cpu::matmul(out.view, a.view, b.view, bias.view);
    expect_product(out, a, b, bias);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Matmul,
                         testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8,
                                         DType::i16, DType::i32, DType::i64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(MatmulThreads, GiveTheSameBits) {
  const int before = num_threads();
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{300, 200, 150}, {1, 3000, 400}, {5000, 1, 300}, {64, 1000, 32}}) {
      const HostArray a(dtype, {{m, k}}, 1), b(dtype, {{k, n}}, 2);
      std::vector<std::vector<double>> results;
      for (int threads : {1, 2, 3, 7}) {
        set_num_threads(threads);
        HostArray out(dtype, {{m, n}});
        cpu::matmul(out.view, a.view, b.view, View{});
        results.push_back(out.values());
      }
      for (const auto& r : results) EXPECT_EQ(r, results[0]) << name(dtype) << " " << m << " " << n << " " << k;
    }
  }
  set_num_threads(before);
}

volatile sig_atomic_t handled = 0;

/// A handler with a frame of its own, as `std::signal` installs it: it runs on the stack of the interrupted thread.
void scribble(int) {
  volatile char frame[1024];
  for (size_t i = 0; i < sizeof frame; ++i) frame[i] = 0x5a;
  handled = handled + 1;
}

// oneDNN's kernels use the stack pointer as a general register.
TEST(MatmulSignals, LeaveProductsAsTheyAre) {
  const int before = num_threads();
  set_num_threads(1);
  const auto other = std::signal(SIGALRM, scribble);
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (auto [m, n, k] : {std::array<int64_t, 3>{2048, 128, 128}, {2048, 384, 128}, {128, 512, 2048}, {77, 93, 201}}) {
      const HostArray a(dtype, {{m, k}}, 1), b(dtype, {{k, n}, {1, 0}}, 2);
      HostArray out(dtype, {{m, n}});
      cpu::matmul(out.view, a.view, b.view, View{});
      const std::vector<double> expected = out.values();
      handled = 0;
      const itimerval often{{0, 50}, {0, 50}}, never{};
      setitimer(ITIMER_REAL, &often, nullptr);
      for (int i = 0; i < 20 || handled < 20; ++i) cpu::matmul(out.view, a.view, b.view, View{});
      setitimer(ITIMER_REAL, &never, nullptr);
      EXPECT_EQ(out.values(), expected) << name(dtype) << " " << m << " " << n << " " << k;
    }
  }
  std::signal(SIGALRM, other);
  set_num_threads(before);
}

TEST(MatmulMemory, LeavesNoWorkspaceBehind) {
  const HostArray a(DType::f16, {{40, 30}, {1, 0}}, 1), b(DType::f16, {{30, 50}, {}, {}, {0}}, 2);
  HostArray out(DType::f16, {{40, 50}});
  const size_t before = memory_stats().allocated;
  cpu::matmul(out.view, a.view, b.view, View{});
  EXPECT_EQ(memory_stats().allocated, before);
}

template <class T>
void check_native(int64_t m, int64_t n, int64_t k) {
  const HostArray a(dtype_of<T>(), {{m, k}}, 1), b(dtype_of<T>(), {{k, n}, {1, 0}}, 2);
  HostArray out(dtype_of<T>(), {{m, n}}, 3);
  const std::vector<double> before = out.values();
  cpu::native_gemm(m, n, k, {reinterpret_cast<T*>(a.at(0)), k, 1}, {reinterpret_cast<T*>(b.at(0)), 1, k},
                   {reinterpret_cast<T*>(out.at(0)), n}, reinterpret_cast<T*>(out.at(0)), n);
  for (int64_t i = 0; i < out.numel(); ++i) out.set(i, out.get(i) - before[static_cast<size_t>(i)]);
  expect_product(out, a, b, HostArray());
}

TEST(NativeGemm, MatchesLoopsAtEveryEdge) {
  for (int64_t m : {1, 2, 5, 11, 12, 13, 150}) {
    for (int64_t n : {1, 3, 8, 17, 33, 64, 100}) {
      for (int64_t k : {1, 7, 64, 300}) {
        SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k));
        check_native<float>(m, n, k);
        check_native<double>(m, n, k);
      }
    }
  }
  check_native<float>(150, 1030, 30);
}

}  // namespace
}  // namespace weft
