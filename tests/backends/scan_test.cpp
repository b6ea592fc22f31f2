#include <cmath>

#include "kernel_checks.hpp"

namespace weft {
namespace {

using namespace test;

/// Cumulative sums in double along `dim`.
std::vector<double> scanned(const HostArray& in, const std::vector<int64_t>& sizes, int dim, bool exclusive,
                            bool reverse) {
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < sizes.size(); ++d) inner *= sizes[d];
  const int64_t n = sizes[static_cast<size_t>(dim)];
  std::vector<double> result(static_cast<size_t>(in.numel()));
  for (int64_t i = 0; i < in.numel(); ++i) {
    if (i / inner % n != 0) continue;
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t position = i + (reverse ? n - 1 - k : k) * inner;
      if (exclusive) result[static_cast<size_t>(position)] = sum;
      sum += in.get(position);
      if (!exclusive) result[static_cast<size_t>(position)] = sum;
    }
  }
  return result;
}

TEST(Cumsum, EveryTypeDimensionAndLayout) {
  for (const auto& sizes : {std::vector<int64_t>{3, 5, 37}, {4, 2500}, {300, 9}, {50}}) {
    for (const DType dtype : real_types) {
      const DType out_type = is_floating(dtype) ? dtype : i64;
      for (const ArrayShape& shape : layouts_of(sizes)) {
        const HostArray in(dtype, shape, 5);
        for (size_t dim = 0; dim < sizes.size(); ++dim) {
          for (int mode = 0; mode < 4; ++mode) {
            HostArray out(out_type, mode == 1 ? shape : ArrayShape{.sizes = sizes});
            cpu::cumsum(out.view, in.view, static_cast<int>(dim), mode & 1, mode & 2);
            const auto expected = scanned(in, sizes, static_cast<int>(dim), mode & 1, mode & 2);
            for (int64_t i = 0; i < out.numel(); ++i) {
              const double e = expected[static_cast<size_t>(i)];
              const double accumulated = dtype == f64 ? 1e-12 : is_floating(dtype) ? 1e-4 : 0;
              ASSERT_NEAR(out.get(i), e, std::abs(e) * 2 * epsilon(dtype) + accumulated)
                  << name(dtype) << " dim " << dim;
            }
          }
        }
      }
    }
  }
}

TEST(Cumsum, Modes) {
  const HostArray x = filled(f32, {.sizes = {4}}, {1, 2, 3, 4});
  HostArray y(f32, {.sizes = {4}});
  const std::vector<double> expected[] = {{1, 3, 6, 10}, {0, 1, 3, 6}, {10, 9, 7, 4}, {9, 7, 4, 0}};
  for (int mode = 0; mode < 4; ++mode) {
    cpu::cumsum(y.view, x.view, 0, mode & 1, mode & 2);
    EXPECT_EQ(y.values(), expected[mode]);
  }
}

TEST(Cumsum, HalfTypesRoundEachPrefixOnce) {
  for (const int dim : {0, 1}) {
    const std::vector<int64_t> sizes = dim == 0 ? std::vector<int64_t>{512, 5} : std::vector<int64_t>{5, 512};
    const HostArray x = filled(bf16, {.sizes = sizes}, std::vector<double>(512 * 5, 1));
    HostArray y(bf16, {.sizes = sizes});
    cpu::cumsum(y.view, x.view, dim, false, false);
    const auto at = [&](int64_t i) { return y.get(dim == 0 ? i * 5 + 3 : 3 * 512 + i); };
    EXPECT_EQ(at(256), 256);
    EXPECT_EQ(at(257), 258);
    EXPECT_EQ(at(258), 260);
    EXPECT_EQ(at(511), 512);
  }
}

TEST(Cumsum, InfinityNaNAndInPlace) {
  HostArray y(f32, {.sizes = {2}});
  cpu::cumsum(y.view, filled(f32, {.sizes = {2}}, {infinity, 1}).view, 0, true, false);
  EXPECT_EQ(y.values(), (std::vector<double>{0, infinity}));
  HostArray z = filled(f32, {.sizes = {4}}, {1, nan, 2, 3});
  cpu::cumsum(z.view, z.view, 0, false, false);
  EXPECT_EQ(z.get(0), 1);
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(z.get(i)));
  for (const bool exclusive : {false, true}) {
    for (const int dim : {0, 1}) {
      HostArray a(f32, {.sizes = {40, 30}}, 3), b(f32, {.sizes = {40, 30}});
      cpu::cumsum(b.view, a.view, dim, exclusive, true);
      cpu::cumsum(a.view, a.view, dim, exclusive, true);
      EXPECT_EQ(a.values(), b.values());
    }
  }
}

TEST(Cumsum, EmptyAndZeroDimensional) {
  HostArray empty(f32, {.sizes = {0, 3}});
  cpu::cumsum(empty.view, empty.view, 0, false, false);
  HostArray y(i64, {.sizes = {}});
  cpu::cumsum(y.view, filled(boolean, {.sizes = {}}, {1}).view, 0, false, true);
  EXPECT_EQ(y.get(0), 1);
}

TEST(Cumsum, SameBits) {
  const HostArray a(f32, {.sizes = {300, 700}}, 1), b(bf16, {.sizes = {300, 700}}, 2);
  expect_same_bits([&] {
    std::string bits;
    for (const HostArray* in : {&a, &b}) {
      for (const int dim : {0, 1}) {
        HostArray out(in->view.layout.dtype, {.sizes = {300, 700}});
        cpu::cumsum(out.view, in->view, dim, false, false);
        bits += bits_of(out);
      }
    }
    return bits;
  });
}

}  // namespace
}  // namespace weft
