// Every mode of scatter against a plain loop in row-major order.
#include <algorithm>
#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using namespace test;

double joined(Scatter mode, double there, double value) {
  switch (mode) {
    case Scatter::replace:
      return value;
    case Scatter::sum:
      return there + value;
    case Scatter::prod:
      return there * value;
    case Scatter::max:
      return std::isnan(there) || std::isnan(value) ? nan : std::max(there, value);
    default:
      return std::isnan(there) || std::isnan(value) ? nan : std::min(there, value);
  }
}
constexpr Scatter modes[] = {Scatter::replace, Scatter::sum, Scatter::prod, Scatter::max, Scatter::min};

HostArray indices(DType dtype, const ArrayShape& shape, int64_t size, unsigned seed) {
  HostArray index(dtype, shape);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < index.numel(); ++i) {
    index.set(i, static_cast<double>(random() % static_cast<unsigned>(size)));
  }
  return index;
}

void expect_scattered(Scatter mode, DType dtype, const ArrayShape& shape, int dim, int64_t count) {
  std::vector<int64_t> source_sizes = shape.sizes;
  const int64_t size = shape.sizes[static_cast<size_t>(dim)];
  source_sizes[static_cast<size_t>(dim)] = count;
  std::vector<int> order(source_sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  HostArray out(dtype, shape, 1), source(dtype, {.sizes = source_sizes, .order = order}, 2);
  if (dtype == u64) {  // exact as doubles
    for (int64_t i = 0; i < out.numel(); ++i) out.set(i, static_cast<double>(i % 7));
    for (int64_t i = 0; i < source.numel(); ++i) source.set(i, static_cast<double>(i % 5));
  }
  const HostArray index = indices(count % 2 == 0 ? i32 : i64, {.sizes = source_sizes}, size, 3);
  std::vector<double> expected = out.values();
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < source_sizes.size(); ++d) inner *= source_sizes[d];
  for (int64_t i = 0; i < source.numel(); ++i) {
    int64_t row = static_cast<int64_t>(index.get(i));
    double& e = expected[static_cast<size_t>((i / inner / count * size + row) * inner + i % inner)];
    e = joined(mode, e, source.get(i));
    if (dtype == boolean) e = e != 0;
    if (is_integer(dtype) && dtype != boolean) {  // wraps around as it goes
      HostArray one(dtype, {.sizes = {1}});
      one.set(0, e);
      e = one.get(0);
    }
  }
  cpu::scatter(mode, out.view, dim, index.view, source.view);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double e = expected[static_cast<size_t>(i)];
    const bool rounds = is_floating(dtype) && (mode == Scatter::sum || mode == Scatter::prod);
    const double allowed = rounds ? 2 * epsilon(dtype) * std::abs(e) + 1e-5 : 0;
    expect_close(out.get(i), e, allowed, std::string(name(dtype)));
  }
}

TEST(Scatter, EveryModeTypeDimensionAndLayout) {
  for (const Scatter mode : modes) {
    for (const DType dtype : real_types) {
      for (const ArrayShape& shape : layouts_of({4, 6, 70})) {
        for (int dim = 0; dim < 3; ++dim) expect_scattered(mode, dtype, shape, dim, 9);
      }
      expect_scattered(mode, dtype, {.sizes = {13}}, 0, 40);
    }
  }
}

TEST(Scatter, LongLinesByMoreAndFewerIndices) {
  for (const DType dtype : {i8, bf16, f32, f64}) {
    for (const int64_t count : {1, 40, 256, 700, 3000}) {
      expect_scattered(Scatter::sum, dtype, {.sizes = {5, 1000}}, 1, count);
      expect_scattered(Scatter::replace, dtype, {.sizes = {2, 2, 300}}, 2, count);
    }
  }
}

TEST(Scatter, ReplaceServesStorageTypes) {
  for (const DType dtype : {f8_e4m3fn, f8_e5m2, f8_e8m0fnu})
    expect_scattered(Scatter::replace, dtype, {.sizes = {5, 3}}, 0, 8);
  HostArray out(f8_e5m2, {.sizes = {2}});
  const HostArray index = filled(i64, {.sizes = {1}}, {0}), source(f8_e5m2, {.sizes = {1}});
  EXPECT_THROW(cpu::scatter(Scatter::sum, out.view, 0, index.view, source.view), DTypeError);
}

TEST(Scatter, NanWinsOfMaxAndMin) {
  for (const DType dtype : float_types) {
    for (const Scatter mode : {Scatter::max, Scatter::min}) {
      HostArray out = filled(dtype, {.sizes = {3}}, {nan, 0, 0});
      const HostArray source = filled(dtype, {.sizes = {4}}, {1, nan, 1, -1});
      cpu::scatter(mode, out.view, 0, filled(i64, {.sizes = {4}}, {0, 1, 1, 2}).view, source.view);
      EXPECT_TRUE(std::isnan(out.get(0)));
      EXPECT_TRUE(std::isnan(out.get(1)));
      EXPECT_EQ(out.get(2), mode == Scatter::max ? 0 : -1);
    }
  }
}

TEST(Scatter, ABadIndexChangesNothing) {
  for (const Scatter mode : modes) {
    HostArray out(f32, {.sizes = {3, 4}}, 1), square(i64, {.sizes = {3, 4}});
    const std::vector<double> before = out.values();
    square.set(11, 3);
    const HostArray source(f32, {.sizes = {3, 4}}, 2);
    EXPECT_THROW(cpu::scatter(mode, out.view, 0, square.view, source.view), IndexError);
    EXPECT_EQ(out.values(), before);
  }
}

TEST(Scatter, SameBits) {
  const HostArray line = indices(i64, {.sizes = {120000}}, 5000, 3),
                  square = indices(i64, {.sizes = {300, 400}}, 70, 4);
  for (const DType dtype : {i8, bf16, f32}) {
    const HostArray flat(dtype, {.sizes = {120000}}, 1), wide(dtype, {.sizes = {300, 400}}, 2);
    const auto all = [&] {
      std::string bits;
      for (const Scatter mode : modes) {
        HostArray a(dtype, {.sizes = {5000}}, 5), b(dtype, {.sizes = {70, 400}}, 6), c(dtype, {.sizes = {300, 70}}, 7);
        cpu::scatter(mode, a.view, 0, line.view, flat.view);
        cpu::scatter(mode, b.view, 0, square.view, wide.view);
        cpu::scatter(mode, c.view, 1, square.view, wide.view);
        bits += bits_of(a) + bits_of(b) + bits_of(c);
      }
      return bits;
    };
    expect_same_bits(all);
    const int threads = num_threads();
    set_num_threads(1);
    const std::string one = all();
    set_num_threads(3);
    EXPECT_TRUE(all() == one) << "three threads, " << name(dtype);
    set_num_threads(threads);
  }
}

}  // namespace
}  // namespace weft
