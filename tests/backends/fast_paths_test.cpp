// Layouts and sizes that kernels treat apart, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <weft/backends/cpu/matmul/gemm.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/pointwise/loops.hpp>
#include <weft/tensor/number.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft::test {
namespace {

constexpr const char* targets[] = {"scalar", "avx2", "avx512"};

/// The lowest target is left to itself, so that the next test finds the best one.
class FastPaths : public testing::Test {
 protected:
  void TearDown() override {
    cpu::use_simd_target("avx512");
    set_num_threads(threads_);
  }
  int threads_ = num_threads();
};

TEST_F(FastPaths, ElementsThatLieApartAreGatheredToTheLastOne) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (DType type : {DType::u8, DType::i16, DType::f32, DType::f64}) {
      const int64_t item = itemsize(type);
      for (int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 511, 513, 1100}) {
        for (int64_t gap : {2, 3, 5}) {
          std::vector<char> in(static_cast<size_t>(((n - 1) * gap + 1) * item)), out(static_cast<size_t>(n * item));
          for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 7 + i / 251);
          cpu::convert_loops.gather[item == 8 ? 3 : item / 2](out.data(), in.data(), gap * item, n);
          for (int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * item)], &in[static_cast<size_t>(i * gap * item)],
                                  static_cast<size_t>(item)),
                      0)
                << target << " " << name(type) << " element " << i << " of " << n << ", " << gap << " apart";
          }
        }
      }
    }
  }
}

TEST_F(FastPaths, BytesAreCopiedToTheLastOneAndNoFurther) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (int64_t n : {0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4000}) {
      for (int64_t offset : {0, 1, 20}) {
        std::vector<char> in(static_cast<size_t>(n)), out(static_cast<size_t>(offset + n + 1), 'x');
        for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 7 + i / 251);
        cpu::copy_bytes(out.data() + offset, in.data(), n);
        cpu::convert_loops.copy(out.data() + offset, in.data(), n);
        EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin() + offset)) << target << " " << n;
        EXPECT_EQ(out.back(), 'x') << target << " " << n;
      }
    }
  }
}

/// A matrix of floats with `rows` and `columns` strides of its own; memory that nobody else writes.
struct Floats {
  std::vector<float> data;
  View view;

  Floats(int64_t rows, int64_t columns, bool repeats_rows = false, bool repeats_columns = false)
      : data(static_cast<size_t>((repeats_rows ? 1 : rows) * (repeats_columns ? 1 : columns) + 16)) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(static_cast<int>(i * 2654435761u >> 20)) / 8;
    auto address = reinterpret_cast<uintptr_t>(data.data());
    view.data = reinterpret_cast<void*>((address + 63) / 64 * 64);
    Layout& l = view.layout;
    l.dtype = DType::f32;
    l.rank = 2;
    l.sizes[0] = rows, l.sizes[1] = columns;
    l.strides[1] = repeats_columns ? 0 : 4;
    l.strides[0] = repeats_rows ? 0 : (repeats_columns ? 4 : columns * 4);
    l.numel = rows * columns;
    l.contiguous = !repeats_rows && !repeats_columns;
  }
  float at(int64_t i, int64_t j) const {
    const int64_t* s = view.layout.strides;
    return *reinterpret_cast<const float*>(static_cast<const char*>(view.data) + i * s[0] + j * s[1]);
  }
};

// Beyond the caches outputs are streamed: rows that are whole cache lines, rows that are not, and rows that repeat.
TEST_F(FastPaths, OutputsBeyondTheCachesAreComplete) {
  for (int64_t columns : {2000, 2001, 2032}) {
    const int64_t rows = 2100;
    for (int kind = 0; kind < 4; ++kind) {
      const Floats a(rows, columns), b(rows, columns, kind == 1 || kind == 3, kind == 2 || kind == 3);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        Floats sum(rows, columns), copied(rows, columns);
        cpu::binary(BinaryOp::add, sum.view, a.view, b.view);
        cpu::copy(copied.view, b.view);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(sum.at(i, j), a.at(i, j) + b.at(i, j)) << i << " " << j << " kind " << kind;
            ASSERT_EQ(copied.at(i, j), b.at(i, j)) << i << " " << j << " kind " << kind;
          }
        }
      }
    }
  }
}

TEST_F(FastPaths, PiecewiseFunctionsAreOddAndEndAtOne) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f, 1e-38f, 1e-44f, 4.2f, 9.3f, 20.0f, 1e30f, inf, nan};
  for (float v = 0.001f; v < 12; v *= 1.01f) x.push_back(v);
  std::vector<float> reflected = x, y(x.size()), mirrored(x.size());
  for (float& v : reflected) v = -v;
  for (UnaryOp op : {UnaryOp::erf, UnaryOp::tanh}) {
    std::vector<float> of_avx2(x.size());
    for (const char* target : targets) {
      ASSERT_TRUE(cpu::use_simd_target(target));
      const auto loop = cpu::unary_loops.loop[static_cast<int>(op)][cpu::slot_f32][0];
      loop(y.data(), x.data(), static_cast<int64_t>(x.size()));
      loop(mirrored.data(), reflected.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i])) {
          EXPECT_TRUE(std::isnan(y[i]));
          continue;
        }
        EXPECT_EQ(mirrored[i], -y[i]) << target << " of " << x[i];
        EXPECT_EQ(std::signbit(mirrored[i]), true) << target << " of " << x[i];
        if (x[i] > 9.2f) {
          EXPECT_EQ(y[i], 1.0f) << target << " of " << x[i];
        }
        EXPECT_LE(y[i], 1.0f) << target << " of " << x[i];
      }
      if (std::string(target) == "avx2") of_avx2 = y;
      if (std::string(target) == "avx512") {
        EXPECT_EQ(std::memcmp(y.data(), of_avx2.data(), y.size() * 4), 0);
      }
    }
  }
}

void expect_product(const Floats& c, const Floats& a, const Floats& b, const Floats* bias) {
  const int64_t k = a.view.layout.sizes[1];
  for (int64_t i = 0; i < c.view.layout.sizes[0]; ++i) {
    for (int64_t j = 0; j < c.view.layout.sizes[1]; ++j) {
      double sum = bias != nullptr ? bias->at(i, j) : 0, size = std::abs(sum);
      for (int64_t p = 0; p < k; ++p) {
        const double term = static_cast<double>(a.at(i, p)) * b.at(p, j);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c.at(i, j), sum, 1e-6 * size + 1e-30) << i << " " << j;
    }
  }
}

TEST_F(FastPaths, ProductsTakeABiasOfEveryShape) {
  const Floats a(160, 210), b(210, 130);
  for (int kind = 0; kind < 4; ++kind) {
    Floats c(160, 130);
    const Floats bias(160, 130, kind == 1 || kind == 3, kind == 2 || kind == 3);
    cpu::matmul(c.view, a.view, b.view, bias.view);
    expect_product(c, a, b, &bias);
  }
}

TEST_F(FastPaths, ProductsReadRowsThatAreAPageApart) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    const Floats a(29, 1024), b(1024, 70);
    Floats c(29, 70);
    cpu::native_gemm(29, 70, 1024, {static_cast<const float*>(a.view.data), 1024, 1},
                     {static_cast<const float*>(b.view.data), 70, 1}, {}, static_cast<float*>(c.view.data), 70);
    expect_product(c, a, b, nullptr);
  }
}

/// The numbers of a matrix of bfloat16, row by row or column by column, with a gap behind each line.
struct Halves {
  std::vector<uint16_t> bits;
  cpu::Matrix<uint16_t> matrix;

  Halves(int64_t rows, int64_t columns, bool by_columns, int64_t gap, int seed) {
    const int64_t line = (by_columns ? rows : columns) + gap;
    bits.assign(static_cast<size_t>(line * (by_columns ? columns : rows)), 0x7fc0);  // NaN in the gaps
    matrix = {bits.data(), by_columns ? 1 : line, by_columns ? line : 1};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto value = static_cast<float>((i * 37 + j * 101 + seed * 13) % 255 - 127) / 128;
        bits[static_cast<size_t>(i * matrix.row + j * matrix.column)] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);  // exact: 7 bits
      }
    }
  }
  double at(int64_t i, int64_t j) const { return to_float(bfloat16{matrix.data[i * matrix.row + j * matrix.column]}); }
};

TEST(PairGemm, MatchesDoubleForEveryLayoutAndDepth) {
  if (!cpu::has_pair_products()) GTEST_SKIP() << "the CPU has no products of pairs of bfloat16";
  const int64_t sizes[][3] = {{16, 16, 1}, {12, 32, 2}, {29, 70, 33}, {100, 45, 64}, {25, 1030, 7}, {17, 33, 4099}};
  for (const auto& [m, n, k] : sizes) {
    for (int kind = 0; kind < 8; ++kind) {
      const int64_t gap = kind / 4 == 0 ? 0 : 3;
      const Halves a(m, k, kind % 2 != 0, gap, 1), b(k, n, kind / 2 % 2 != 0, gap, 2), bias(1, n, false, 0, 3);
      std::vector<uint16_t> c(static_cast<size_t>(m * (n + gap)), 0x1234);
      cpu::pair_gemm(m, n, k, a.matrix, b.matrix, kind % 3 == 0 ? bias.bits.data() : nullptr, c.data(), n + gap);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = kind % 3 == 0 ? bias.at(0, j) : 0, size = 1e-2;
          for (int64_t p = 0; p < k; ++p) {
            sum += a.at(i, p) * b.at(p, j);
            size += std::abs(a.at(i, p) * b.at(p, j));
          }
          const float got = to_float(bfloat16{c[static_cast<size_t>(i * (n + gap) + j)]});
          ASSERT_NEAR(got, sum, std::abs(sum) / 256 + 1e-6 * size) << m << " " << n << " " << k << " " << kind;
        }
        for (int64_t j = n; j < n + gap; ++j) ASSERT_EQ(c[static_cast<size_t>(i * (n + gap) + j)], 0x1234);
      }
    }
  }
}

}  // namespace
}  // namespace weft::test
